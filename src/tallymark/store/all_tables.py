"""Every table with every index, for the few commands that make or compare tables."""

from __future__ import annotations

from sqlalchemy import text

# Importing a module declares its tables.
from tallymark.store import (  # noqa: F401
    case_results,
    checkpoints,
    idempotency,
    invitations,
    jobs,
    keys,
    leases,
    reviews,
    row_numbers,
    runs,
    secrets,
    tenants,
    webhook_deliveries,
)
from tallymark.store.contests import tables  # noqa: F401
from tallymark.store.dialects import metadata
from tallymark.store.traces import (  # noqa: F401
    backfills,
    rule_days,
    rule_outcomes,
    rules,
    trace_rows,
    trace_scores,
)

__all__ = ["metadata"]

# Dialect options are set here because setting one loads the dialect.
for _table in metadata.tables.values():
    if _share := _table.info.get("fillfactor"):
        _table.dialect_kwargs.update(postgresql_with={"fillfactor": _share})
    for _index in _table.indexes:
        if _columns := _index.info.get("include"):
            _index.dialect_kwargs.update(postgresql_include=_columns)
        if _rows := _index.info.get("where"):
            _index.dialect_kwargs.update(sqlite_where=text(_rows), postgresql_where=text(_rows))

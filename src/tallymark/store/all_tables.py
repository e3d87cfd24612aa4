"""Every table with every index: imported where tables are made or compared, by few commands."""

from __future__ import annotations

from sqlalchemy import text

# Tables that are not imported would not be made.
from tallymark.store import leases, named_values, row_numbers  # noqa: F401
from tallymark.store.accounts import account_tables  # noqa: F401
from tallymark.store.column_types import metadata
from tallymark.store.contests import attempt_tables, contest_tables, versus_tables  # noqa: F401
from tallymark.store.jobs import block_tables, job_tables  # noqa: F401
from tallymark.store.reviews import review_tables  # noqa: F401
from tallymark.store.runs import run_tables  # noqa: F401
from tallymark.store.traces import rule_tables, trace_tables  # noqa: F401
from tallymark.store.webhooks import webhook_tables  # noqa: F401

__all__ = ["metadata"]

# What the tables say of dialects is read here, because it loads them all.
for _table in metadata.tables.values():
    if _share := _table.info.get("fillfactor"):
        _table.dialect_kwargs.update(postgresql_with={"fillfactor": _share})
    for _index in _table.indexes:
        if _columns := _index.info.get("include"):
            _index.dialect_kwargs.update(postgresql_include=_columns)
        if _rows := _index.info.get("where"):
            _index.dialect_kwargs.update(sqlite_where=text(_rows), postgresql_where=text(_rows))
        if _columns := _index.info.get("include"):
            _index.dialect_kwargs["postgresql_include"] = _columns

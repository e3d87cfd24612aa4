"""The table of jobs. Its lease is in it: a batch is claimed by one UPDATE of these rows alone."""

from __future__ import annotations

from sqlalchemy import Column, Index, Integer, Table

from tallymark.store.column_types import (
    CodePointText,
    FiniteFloat,
    JsonText,
    RowKey,
    metadata,
    partial_index,
)

LIVE = "state IN ('queued', 'running')"
"""What workers look at."""
UNFINISHED = "state IN ('queued', 'running', 'set_aside')"
"""Of these, a subject has one: what waits for a person is not begun anew behind their back."""

jobs = Table(
    "jobs",
    metadata,
    Column("number", RowKey, primary_key=True),  # the order in which they came
    Column("id", CodePointText, nullable=False),
    Column("tenant", CodePointText, nullable=False),
    Column("owner", CodePointText, nullable=False),
    Column("kind", CodePointText, nullable=False),
    Column("subject", CodePointText, nullable=False),
    Column("state", CodePointText, nullable=False),
    Column("takeovers", Integer, nullable=False),
    Column("failures", Integer, nullable=False),  # by our fault, since it was last begun anew
    # All times by the database's clock.
    Column("created_at", FiniteFloat, nullable=False),
    Column("not_before", FiniteFloat, nullable=False),
    Column("started_at", FiniteFloat),
    Column("finished_at", FiniteFloat),
    Column("cancel_at", FiniteFloat),  # when somebody asked for its end
    Column("token", CodePointText),  # of the last lease; it is held while the state is `running`
    Column("holder", JsonText),
    Column("expires_at", FiniteFloat),
    Column("error", CodePointText),
    Column("payload", JsonText, nullable=False),
    Column("result", JsonText),
    Index("ux_jobs_id", "id", unique=True),
    Index("ix_jobs_tenant", "tenant", "number"),
    partial_index("ux_jobs_subject", "tenant", "kind", "subject", where=UNFINISHED, unique=True),
    partial_index(
        "ix_jobs_live", "tenant", "owner", "state", "kind", "not_before", "number", where=LIVE
    ),
)

"""What was done of bulk work that has not ended: one row for each block of it."""

from __future__ import annotations

from sqlalchemy import Column, Index, LargeBinary, Table
from sqlalchemy import PrimaryKeyConstraint as PrimaryKey

from tallymark.store.column_types import CodePointText, FiniteFloat, metadata

work_blocks = Table(
    "work_blocks",
    metadata,
    Column("tenant", CodePointText, nullable=False),
    # A hash of all that the results follow from but the blocks themselves.
    Column("work", CodePointText, nullable=False),
    # A hash of the block: the same for the same input, wherever it stands.
    Column("block", CodePointText, nullable=False),
    Column("result", LargeBinary, nullable=False),
    Column("at", FiniteFloat, nullable=False),
    PrimaryKey("tenant", "work", "block", name="pk_work_blocks"),
    Index("ix_work_blocks_age", "tenant", "at"),
)

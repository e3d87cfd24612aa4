"""The table of people's own scores and comments.

A person has one score of each name for a case, which they may change or withdraw; of comments
alone, as many as they like. What is withdrawn stays as a row that nothing shows.
"""

from __future__ import annotations

from sqlalchemy import Column, ForeignKeyConstraint, Index, Integer, Table

from tallymark.runs.reviews import COMMENT
from tallymark.store.column_types import CodePointText, FiniteFloat, RowKey, metadata, partial_index

reviews = Table(
    "reviews",
    metadata,
    Column("id", RowKey, primary_key=True),
    Column("tenant", CodePointText, nullable=False),
    Column("run_id", CodePointText, nullable=False),
    Column("case_name", CodePointText, nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("name", CodePointText, nullable=False),
    Column("author", CodePointText, nullable=False),
    Column("value", FiniteFloat),
    Column("label", CodePointText),
    Column("comment", CodePointText, nullable=False),
    Column("created_at", FiniteFloat, nullable=False),
    Column("changed_at", FiniteFloat, nullable=False),
    Column("withdrawn_at", FiniteFloat),
    ForeignKeyConstraint(
        ["tenant", "run_id"],
        ["runs.tenant", "runs.id"],
        name="fk_reviews_run",
        ondelete="CASCADE",
    ),
    partial_index(
        "ux_reviews_author",
        *("tenant", "run_id", "case_name", "epoch", "name", "author"),
        where=f"withdrawn_at IS NULL AND name <> '{COMMENT}'",
        unique=True,
    ),
    Index("ix_reviews_case", "tenant", "run_id", "case_name", "epoch"),
    Index("ix_reviews_order", "tenant", "id"),
    sqlite_autoincrement=True,
)

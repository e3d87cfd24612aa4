"""The tables of red against blue, in the same metadata as the others."""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)

from tallymark.store.dialects import CodePointText, FiniteFloat, RowKey, metadata, partial_index

_UNJUDGED = "state <> 'judged'"
is_unjudged = text(f"versus_verdicts.{_UNJUDGED}")
"""The condition of `ix_versus_verdicts_unjudged`, literally: bound parameters would not use it."""

submissions = Table(
    "versus_submissions",
    metadata,
    Column("id", RowKey, primary_key=True),
    Column("tenant", CodePointText, nullable=False),
    Column("challenge_id", RowKey, ForeignKey("challenges.id"), nullable=False),
    Column("version", CodePointText, nullable=False),
    Column("player", CodePointText, nullable=False),
    Column("side", CodePointText, nullable=False),
    Column("number", Integer, nullable=False),
    Column("at", FiniteFloat, nullable=False),
    Column("digest", CodePointText, nullable=False),
    Column("content", Text, nullable=False),  # JSON
    Index("ux_versus_submissions", "challenge_id", "side", "player", "number", unique=True),
    sqlite_autoincrement=True,
)

verdicts = Table(
    "versus_verdicts",
    metadata,
    Column("red", RowKey, ForeignKey("versus_submissions.id"), nullable=False),
    Column("blue", RowKey, ForeignKey("versus_submissions.id"), nullable=False),
    Column("category", CodePointText, nullable=False),
    Column("tenant", CodePointText, nullable=False),
    Column("challenge_id", RowKey, nullable=False),
    Column("state", CodePointText, nullable=False),
    Column("breached", Boolean),
    Column("reason", CodePointText, nullable=False),
    Column("error", CodePointText),
    Column("judge", CodePointText, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("judged_at", FiniteFloat),
    PrimaryKeyConstraint("red", "blue", "category", name="pk_versus_verdicts"),
    Index("ix_versus_verdicts_blue", "blue"),
    partial_index("ix_versus_verdicts_unjudged", "challenge_id", "red", "blue", where=_UNJUDGED),
)

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

from tallymark.store.column_types import Key, Number, Words, metadata

_UNJUDGED = text("state <> 'judged'")

submissions = Table(
    "versus_submissions",
    metadata,
    Column("id", Key, primary_key=True),
    Column("tenant", Words, nullable=False),
    Column("challenge_id", Key, ForeignKey("challenges.id"), nullable=False),
    Column("version", Words, nullable=False),
    Column("player", Words, nullable=False),
    Column("side", Words, nullable=False),
    Column("number", Integer, nullable=False),
    Column("at", Number, nullable=False),
    Column("digest", Words, nullable=False),
    Column("content", Text, nullable=False),  # JSON
    Index("ux_versus_submissions", "challenge_id", "side", "player", "number", unique=True),
    sqlite_autoincrement=True,
)

verdicts = Table(
    "versus_verdicts",
    metadata,
    Column("red", Key, ForeignKey("versus_submissions.id"), nullable=False),
    Column("blue", Key, ForeignKey("versus_submissions.id"), nullable=False),
    Column("category", Words, nullable=False),
    Column("tenant", Words, nullable=False),
    Column("challenge_id", Key, nullable=False),
    Column("state", Words, nullable=False),
    Column("breached", Boolean),
    Column("reason", Words, nullable=False),
    Column("error", Words),
    Column("judge", Words, nullable=False),
    Column("tries", Integer, nullable=False),
    Column("judged_at", Number),
    PrimaryKeyConstraint("red", "blue", "category", name="pk_versus_verdicts"),
    Index("ix_versus_verdicts_blue", "blue"),
    Index(
        "ix_versus_verdicts_unjudged",
        "challenge_id",
        "red",
        "blue",
        sqlite_where=_UNJUDGED,
        postgresql_where=_UNJUDGED,
    ),
)

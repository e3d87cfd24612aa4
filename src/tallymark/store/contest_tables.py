"""The tables of challenges, boards, matches, ratings and the audit log of contests.

Those of attempts are in `attempt_tables`. Logs (`contest_audit`, `score_history`, `matches`) are
only ever added to: triggers refuse anything else. See docs/decisions/0010-boards.md.
"""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
)

from tallymark.store.attempt_tables import score_history
from tallymark.store.column_types import Json, Key, Number, Words, metadata

challenges = Table(
    "challenges",
    metadata,
    Column("id", Key, primary_key=True),
    Column("tenant", Words, nullable=False),
    Column("name", Words, nullable=False),
    Column("version", Words, nullable=False),
    Column("published_at", Number, nullable=False),
    # Counts every change of the rule that scores; an outcome made under an older one is stale.
    Column("revision", Integer, nullable=False),
    # When the public board was copied; NULL while the public sees the live one.
    Column("frozen_at", Number),
    Column("definition", Words, nullable=False),
    Index("ux_challenges_name", "tenant", "name", unique=True),
    sqlite_autoincrement=True,
)

challenge_versions = Table(
    "challenge_versions",
    metadata,
    Column("id", Key, primary_key=True),
    Column("tenant", Words, nullable=False),
    Column("challenge_id", Key, ForeignKey("challenges.id"), nullable=False),
    Column("version", Words, nullable=False),
    Column("published_at", Number, nullable=False),
    Column("definition", Words, nullable=False),
    Column("packed", LargeBinary, nullable=False),
    Index("ux_challenge_versions", "challenge_id", "version", unique=True),
    sqlite_autoincrement=True,
)

# `place` orders the board, less is better; a missing value is infinite, and so last. `frozen`
# tells the copy that the public sees from the board that moves on.
boards = Table(
    "boards",
    metadata,
    Column("challenge_id", Key, nullable=False),
    Column("frozen", Boolean, nullable=False),
    Column("agent", Words, nullable=False),
    Column("tenant", Words, nullable=False),
    Column("place", Double, nullable=False),
    Column("submitted_at", Number, nullable=False),
    Column("attempt", Key, nullable=False),
    Column("value", Number),
    Column("score", Number),
    Column("tries", Integer, nullable=False),
    PrimaryKeyConstraint("challenge_id", "frozen", "agent", name="pk_boards"),
    Index("ix_boards_order", "challenge_id", "frozen", "place", "submitted_at", "attempt"),
    sqlite_with_rowid=False,
)

# How many rows of a board lie from this place up to the next block's: ranks are sums of these.
board_blocks = Table(
    "board_blocks",
    metadata,
    Column("challenge_id", Key, nullable=False),
    Column("frozen", Boolean, nullable=False),
    Column("place", Double, nullable=False),
    Column("submitted_at", Number, nullable=False),
    Column("attempt", Key, nullable=False),
    Column("tenant", Words, nullable=False),
    Column("size", Integer, nullable=False),
    PrimaryKeyConstraint(
        "challenge_id", "frozen", "place", "submitted_at", "attempt", name="pk_board_blocks"
    ),
    sqlite_with_rowid=False,
)

# A result that rescoring changed is added again with `corrects`, the seq of the first entry; it
# then counts in that entry's place. A result of NULL makes the match void.
matches = Table(
    "matches",
    metadata,
    Column("seq", Key, primary_key=True),
    Column("tenant", Words, nullable=False),
    Column("agent", Words, nullable=False),
    Column("challenge_id", Key, nullable=False),
    Column("attempt", Key, nullable=False),
    Column("corrects", Key),
    Column("at", Number, nullable=False),
    Column("tier", Words, nullable=False),
    Column("result", Words),
    Column("verified", Boolean, nullable=False),
    Column("memoryless", Boolean, nullable=False),
    Index("ix_matches_agent", "tenant", "agent", "seq"),
    Index("ix_matches_attempt", "attempt"),
    sqlite_autoincrement=True,
)

ratings = Table(
    "ratings",
    metadata,
    Column("tenant", Words, nullable=False),
    Column("agent", Words, nullable=False),
    Column("rating", Integer, nullable=False),
    Column("matches", Integer, nullable=False),
    Column("wins", Integer, nullable=False),
    Column("draws", Integer, nullable=False),
    Column("losses", Integer, nullable=False),
    PrimaryKeyConstraint("tenant", "agent", name="pk_ratings"),
    Index("ix_ratings_order", "tenant", "rating"),
)

rating_pairs = Table(
    "rating_pairs",
    metadata,
    Column("tenant", Words, nullable=False),
    Column("agent", Words, nullable=False),
    Column("challenge_id", Key, nullable=False),
    Column("wins", Integer, nullable=False),
    Column("draws", Integer, nullable=False),
    Column("losses", Integer, nullable=False),
    PrimaryKeyConstraint("tenant", "agent", "challenge_id", name="pk_rating_pairs"),
)

contest_audit = Table(
    "contest_audit",
    metadata,
    Column("seq", Key, primary_key=True),
    Column("tenant", Words, nullable=False),
    Column("challenge_id", Key, nullable=False),
    Column("attempt", Key),  # NULL where the whole challenge is meant
    Column("at", Number, nullable=False),
    Column("actor", Words, nullable=False),
    Column("event", Words, nullable=False),
    Column("before", Words),
    Column("after", Words),
    Column("note", Json),
    Index("ix_contest_audit", "challenge_id", "attempt"),
    sqlite_autoincrement=True,
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("tenant", Words, nullable=False),
    Column("agent", Words, nullable=False),
    Column("key", Words, nullable=False),
    Column("digest", Words, nullable=False),  # of what was asked
    Column("attempt", Key, nullable=False),  # what was answered
    Column("at", Number, nullable=False),
    PrimaryKeyConstraint("tenant", "agent", "key", name="pk_idempotency"),
)

LOGS = (contest_audit, score_history, matches)
"""What is only ever added to."""

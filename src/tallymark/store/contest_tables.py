"""The tables of the competition side, in the same metadata as the others.

An attempt is spread over three tables by how it is used: `attempts` is its life, `attempt_scores`
the numbers that boards and rescoring read, kept together by challenge and agent, and
`attempt_details` what is bulky. Logs (`contest_audit`, `score_history`, `matches`) are only ever
added to: triggers refuse anything else. See docs/decisions/0010-boards.md.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)

from tallymark.store.tables import Json, Number, Words, metadata

Key = BigInteger().with_variant(Integer, "sqlite")
"""A whole number that the database gives out; SQLite does so for this type only."""
_OPEN = text("state = 'entered'")
_UNFINISHED = text("state IN ('entered', 'submitted')")

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

attempts = Table(
    "attempts",
    metadata,
    Column("key", Key, primary_key=True),
    Column("tenant", Words, nullable=False),
    Column("challenge_id", Key, ForeignKey("challenges.id"), nullable=False),
    Column("version_id", Key, ForeignKey("challenge_versions.id"), nullable=False),
    Column("agent", Words, nullable=False),
    Column("number", Integer, nullable=False),
    Column("state", Words, nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("entered_at", Number, nullable=False),
    Column("expires_at", Number, nullable=False),
    Column("submitted_at", Number),
    Column("scored_at", Number),
    Column("verified", Boolean, nullable=False),
    Column("memoryless", Boolean, nullable=False),
    Index("ux_attempts_number", "challenge_id", "agent", "number", unique=True),
    Index("ix_attempts_newest", "challenge_id", "key"),
    Index(
        "ux_attempts_open",
        "challenge_id",
        "agent",
        unique=True,
        sqlite_where=_OPEN,
        postgresql_where=_OPEN,
    ),
    Index(
        "ix_attempts_unfinished",
        "tenant",
        "state",
        "expires_at",
        sqlite_where=_UNFINISHED,
        postgresql_where=_UNFINISHED,
    ),
    sqlite_autoincrement=True,
)

# One row for every attempt that was scored or failed. SQLite keeps the rows in the order of the
# key, in which ties are broken, so that the best of every agent is found in one pass without
# sorting. The score is by the rule of `scoring`: later ones may stand in `score_rules`.
attempt_scores = Table(
    "attempt_scores",
    metadata,
    Column("challenge_id", Key, nullable=False),
    Column("agent", Words, nullable=False),
    Column("attempt", Key, ForeignKey("attempts.key"), nullable=False),
    Column("tenant", Words, nullable=False),
    Column("scoring", Key, nullable=False),  # scorings.id: by which rule
    Column("score", Number),
    Column("ranks", Boolean, nullable=False),
    Column("submitted_at", Number, nullable=False),
    Column("number", Integer, nullable=False),
    Column("succeeded", Boolean, nullable=False),
    Column("tokens_total", BigInteger),
    Column("elapsed_ms", BigInteger),
    Column("rating", Number),
    Column("created_at", BigInteger),
    Column("cost", Number),
    Column("calls", BigInteger),
    Column("result", Words),
    Column("error", Words),  # why there is no score: known for failed attempts, and only for them
    Column("more", Text),  # JSON, an evaluator's own numbers by name; NULL when there are none
    Column("dimensions", Text),  # JSON, raw scores by key; NULL when there are none
    PrimaryKeyConstraint(
        "challenge_id", "agent", "submitted_at", "attempt", name="pk_attempt_scores"
    ),
    sqlite_with_rowid=False,
)

attempt_details = Table(
    "attempt_details",
    metadata,
    Column("attempt", Key, ForeignKey("attempts.key"), primary_key=True, autoincrement=False),
    Column("tenant", Words, nullable=False),
    Column("digest", Words),  # of the submission's content
    Column("submission", Text),  # JSON
    Column("metadata", Text),  # JSON, what the competitor claims
    Column("reported", Text),  # JSON, the metrics of a trusted system
    Column("details", Text),  # JSON, Outcome.details
    Column("evaluation", Text),  # JSON, Evaluation: what rescoring begins with
    Column("trajectory", Text),  # JSON
)

scorings = Table(
    "scorings",
    metadata,
    Column("id", Key, primary_key=True),
    Column("tenant", Words, nullable=False),
    Column("challenge_id", Key, nullable=False),
    Column("at", Number, nullable=False),
    Column("why", Words, nullable=False),  # finish, load or rescore
    Column("origin", Text),  # JSON, Origin
    Index("ix_scorings_challenge", "challenge_id", "id"),
    sqlite_autoincrement=True,
)

# A rescoring by a formula, of all attempts scored before it that have not failed: their scores
# follow from the numbers in `attempt_scores`, and are written down when that is needed.
score_rules = Table(
    "score_rules",
    metadata,
    Column("challenge_id", Key, nullable=False),
    Column("scoring", Key, nullable=False),  # scorings.id
    Column("tenant", Words, nullable=False),
    Column("version_id", Key, ForeignKey("challenge_versions.id"), nullable=False),
    PrimaryKeyConstraint("challenge_id", "scoring", name="pk_score_rules"),
)

# In the order of `attempt_scores` within each scoring, so that rescoring appends sequentially.
score_history = Table(
    "score_history",
    metadata,
    Column("scoring", Key, nullable=False),
    Column("agent", Words, nullable=False),
    Column("attempt", Key, nullable=False),
    Column("tenant", Words, nullable=False),
    Column("at", Number, nullable=False),
    Column("score", Number),
    Column("result", Words),
    Column("error", Words),
    PrimaryKeyConstraint("scoring", "agent", "attempt", name="pk_score_history"),
    sqlite_with_rowid=False,
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

"""The tables of attempts and of their scores.

An attempt is spread over three tables by how it is used: `attempts` is its life, `attempt_scores`
the numbers that boards and rescoring read, kept together by challenge and agent, and
`attempt_details` what is bulky. See docs/decisions/0010-boards.md. A new column needs a migration
too (`migrations/versions/`), and `schema.CURRENT` to name it.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    and_,
    text,
)

from tallymark.store.dialects import CodePointText, FiniteFloat, RowKey, metadata, partial_index

_OPEN = "state = 'entered'"
_UNFINISHED = "state IN ('entered', 'submitted')"
is_unfinished = text(f"attempts.{_UNFINISHED}")
"""The condition of `ix_attempts_unfinished`, literally: SQLite never uses a partial index where its
condition comes as bound parameters, and would read every attempt instead."""
_MATCH = "match_at IS NOT NULL"
_VOIDED = "voided_at IS NOT NULL"

attempts = Table(
    "attempts",
    metadata,
    Column("key", RowKey, primary_key=True),
    Column("tenant", CodePointText, nullable=False),
    Column("challenge_id", RowKey, ForeignKey("challenges.id"), nullable=False),
    Column("version_id", RowKey, ForeignKey("challenge_versions.id"), nullable=False),
    Column("agent", CodePointText, nullable=False),
    Column("number", Integer, nullable=False),
    Column("state", CodePointText, nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("entered_at", FiniteFloat, nullable=False),
    Column("expires_at", FiniteFloat, nullable=False),
    Column("submitted_at", FiniteFloat),
    Column("scored_at", FiniteFloat),
    Column("verified", Boolean, nullable=False),
    Column("memoryless", Boolean, nullable=False),
    # How far its trajectory can be believed: see `TrajectoryLevel`.
    Column("trajectory_level", CodePointText, nullable=False, server_default="none"),
    # When it was submitted, withdrawn or ran out of time, which orders its agent's matches. NULL
    # while it is open, and where it was loaded as no match.
    Column("match_at", FiniteFloat),
    Column("voided_at", FiniteFloat),  # by an organiser; NULL while it counts
    Index("ux_attempts_number", "challenge_id", "agent", "number", unique=True),
    Index("ix_attempts_newest", "challenge_id", "key"),
    partial_index("ux_attempts_open", "challenge_id", "agent", where=_OPEN, unique=True),
    partial_index("ix_attempts_unfinished", "tenant", "state", "expires_at", where=_UNFINISHED),
    partial_index("ix_attempts_matches", "tenant", "agent", "match_at", "key", where=_MATCH),
    partial_index("ix_attempts_voided", "challenge_id", "agent", where=_VOIDED),
    sqlite_autoincrement=True,
)

# One row for every attempt that was scored or failed. SQLite keeps the rows in the order of the
# key, in which ties are broken, so that the best of every agent is found in one pass without
# sorting. The score is by the rule of `scoring`.
attempt_scores = Table(
    "attempt_scores",
    metadata,
    Column("challenge_id", RowKey, nullable=False),
    Column("agent", CodePointText, nullable=False),
    Column("attempt", RowKey, ForeignKey("attempts.key"), nullable=False),
    Column("tenant", CodePointText, nullable=False),
    Column("scoring", RowKey, nullable=False),  # scorings.id: by which rule
    Column("score", FiniteFloat),
    Column("ranks", Boolean, nullable=False),
    Column("submitted_at", FiniteFloat, nullable=False),
    Column("number", Integer, nullable=False),
    Column("succeeded", Boolean, nullable=False),
    Column("tokens_total", BigInteger),
    Column("elapsed_ms", BigInteger),
    Column("rating", FiniteFloat),
    Column("created_at", BigInteger),
    Column("cost", FiniteFloat),
    Column("calls", BigInteger),
    Column("result", CodePointText),
    Column("error", CodePointText),  # why there is no score; NULL unless the attempt failed
    Column("more", Text),  # JSON, an evaluator's own numbers by name; NULL when there are none
    Column("dimensions", Text),  # JSON, raw scores by key; NULL when there are none
    PrimaryKeyConstraint(
        "challenge_id", "agent", "submitted_at", "attempt", name="pk_attempt_scores"
    ),
    sqlite_with_rowid=False,
    # On PostgreSQL, room beside each row for its next version: a rescoring then writes no index.
    info={"fillfactor": 50},
)

is_own_score = and_(
    # Plus nothing: else PostgreSQL reads all scores of a challenge for each of its attempts while
    # the challenge is so new that it was not counted yet, and is taken for a single row.
    attempt_scores.c.challenge_id == attempts.c.challenge_id + 0,
    attempt_scores.c.agent == attempts.c.agent,
    attempt_scores.c.submitted_at == attempts.c.submitted_at,
    attempt_scores.c.attempt == attempts.c.key,
)
"""The one score of an attempt, by the whole key of its table."""

attempt_details = Table(
    "attempt_details",
    metadata,
    Column("attempt", RowKey, ForeignKey("attempts.key"), primary_key=True, autoincrement=False),
    Column("tenant", CodePointText, nullable=False),
    Column("digest", CodePointText),  # of the submission's content
    Column("submission", Text),  # JSON
    Column("metadata", Text),  # JSON, what the competitor claims
    Column("reported", Text),  # JSON, the metrics of a trusted system
    Column("details", Text),  # JSON, Outcome.details
    Column("evaluation", Text),  # JSON, Evaluation: what rescoring begins with
    Column("steps_digest", CodePointText),  # of the steps in it: nobody's are another's too
    Column("packed_trajectory", LargeBinary),  # JSON
    partial_index(
        "ix_attempt_details_steps", "tenant", "steps_digest", where="steps_digest IS NOT NULL"
    ),
)

# Why an attempt is still submitted: at the last try something of ours failed.
attempt_waits = Table(
    "attempt_waits",
    metadata,
    Column("attempt", RowKey, ForeignKey("attempts.key"), primary_key=True, autoincrement=False),
    Column("tenant", CodePointText, nullable=False),
    Column("at", FiniteFloat, nullable=False),
    Column("reason", CodePointText, nullable=False),
)

scorings = Table(
    "scorings",
    metadata,
    Column("id", RowKey, primary_key=True),
    Column("tenant", CodePointText, nullable=False),
    Column("challenge_id", RowKey, nullable=False),
    Column("at", FiniteFloat, nullable=False),
    Column("why", CodePointText, nullable=False),  # finish, load, formula or rescore
    Column("origin", Text),  # JSON, Origin
    Index("ix_scorings_challenge", "challenge_id", "id"),
    sqlite_autoincrement=True,
)

# In the order of `attempt_scores` within each scoring, so that rescoring appends sequentially.
score_history = Table(
    "score_history",
    metadata,
    Column("scoring", RowKey, nullable=False),
    Column("agent", CodePointText, nullable=False),
    Column("attempt", RowKey, nullable=False),
    Column("tenant", CodePointText, nullable=False),
    Column("at", FiniteFloat, nullable=False),
    Column("score", FiniteFloat),
    Column("result", CodePointText),
    Column("error", CodePointText),
    PrimaryKeyConstraint("scoring", "agent", "attempt", name="pk_score_history"),
    sqlite_with_rowid=False,
)


attempt_id = "a{:012}".format
"""The id that people see: the row's key, filled up with zeros, so that ids sort like keys."""

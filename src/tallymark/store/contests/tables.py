"""The tables of challenges, attempts, scores, boards, ratings, the audit log and versus play.

They refer to each other, so they are declared in one module. An attempt is spread over three tables
by how it is used: `attempts` is its life cycle, `attempt_scores` the numbers that boards and
rescoring read, clustered by challenge and agent, and `attempt_details` the bulky rest. Logs
(`contest_audit`, `score_history`) are append-only: triggers refuse anything else. See
docs/decisions/0010-boards.md. A new column needs a migration (`migrations/versions/`) and a new
`schema.CURRENT`.
"""

from __future__ import annotations

from sqlalchemy import (
    DDL,
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
    and_,
    event,
    text,
)

from tallymark.store.dialects import (
    CodePointText,
    FiniteFloat,
    JsonText,
    RowKey,
    metadata,
    partial_index,
)

challenges = Table(
    "challenges",
    metadata,
    Column("id", RowKey, primary_key=True),
    Column("tenant", CodePointText, nullable=False),
    Column("name", CodePointText, nullable=False),
    Column("version", CodePointText, nullable=False),
    Column("published_at", FiniteFloat, nullable=False),
    # Counts every change of the rule that scores; an outcome made under an older one is stale.
    Column("revision", Integer, nullable=False),
    # When the public board was copied; NULL while the public sees the live one.
    Column("frozen_at", FiniteFloat),
    Column("definition", CodePointText, nullable=False),
    # Acts of organisers: closed; frozen, whatever is published since; unfrozen, whatever freeze was
    # due before.
    Column("closed_at", FiniteFloat),
    Column("held_at", FiniteFloat),
    Column("unfrozen_at", FiniteFloat),
    # From the definition, for queries that do not decode it: NULL is its default.
    Column("visibility", CodePointText),
    Column("one_per", CodePointText),
    Index("ux_challenges_name", "tenant", "name", unique=True),
    sqlite_autoincrement=True,
)

challenge_versions = Table(
    "challenge_versions",
    metadata,
    Column("id", RowKey, primary_key=True),
    Column("tenant", CodePointText, nullable=False),
    Column("challenge_id", RowKey, ForeignKey("challenges.id"), nullable=False),
    Column("version", CodePointText, nullable=False),
    Column("published_at", FiniteFloat, nullable=False),
    Column("definition", CodePointText, nullable=False),
    Column("packed", LargeBinary, nullable=False),
    Index("ux_challenge_versions", "challenge_id", "version", unique=True),
    sqlite_autoincrement=True,
)


# One row for each agent with its best attempt. `place` orders the board, less is better; a missing
# value is infinite, and so last. `frozen` rows are the copy that the public sees of a frozen board.
boards = Table(
    "boards",
    metadata,
    Column("challenge_id", RowKey, nullable=False),
    Column("frozen", Boolean, nullable=False),
    Column("agent", CodePointText, nullable=False),
    Column("tenant", CodePointText, nullable=False),
    Column("place", Double, nullable=False),
    Column("submitted_at", FiniteFloat, nullable=False),
    Column("attempt", RowKey, nullable=False),
    Column("value", FiniteFloat),
    Column("score", FiniteFloat),
    Column("tries", Integer, nullable=False),
    PrimaryKeyConstraint("challenge_id", "frozen", "agent", name="pk_boards"),
    # Ranks are counted on it alone. SQLite has the agent in it anyway, as a part of the key.
    Index(
        "ix_boards_order",
        "challenge_id",
        "frozen",
        "place",
        "submitted_at",
        "attempt",
        info={"include": ["agent"]},  # on PostgreSQL: see `all_tables`
    ),
    sqlite_with_rowid=False,
)
# For a board made since its last ANALYZE, PostgreSQL expects at most one row by either index, and
# of two equally good ones it takes the newer. The primary key is made the newer one, and its first
# columns get no statistics, so that an agent is never searched through a whole board.
_by_the_key = DDL("""
    ALTER TABLE boards DROP CONSTRAINT pk_boards,
        ADD CONSTRAINT pk_boards PRIMARY KEY (challenge_id, frozen, agent),
        ALTER COLUMN challenge_id SET STATISTICS 0, ALTER COLUMN frozen SET STATISTICS 0
""")  # type: ignore[no-untyped-call]
event.listen(boards, "after_create", _by_the_key.execute_if(dialect="postgresql"))


# Both are derived from `attempts`, and stored to save counting: see `matches`.
ratings = Table(
    "ratings",
    metadata,
    Column("tenant", CodePointText, nullable=False),
    Column("agent", CodePointText, nullable=False),
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
    Column("tenant", CodePointText, nullable=False),
    Column("agent", CodePointText, nullable=False),
    Column("challenge_id", RowKey, nullable=False),
    Column("wins", Integer, nullable=False),
    Column("draws", Integer, nullable=False),
    Column("losses", Integer, nullable=False),
    PrimaryKeyConstraint("tenant", "agent", "challenge_id", name="pk_rating_pairs"),
)


# Agents whose attempts ended processes of a plugin, by the hash of its code: a fixed plugin starts
# at zero.
plugin_pauses = Table(
    "plugin_pauses",
    metadata,
    Column("challenge_id", RowKey, nullable=False),
    Column("code_hash", CodePointText, nullable=False),
    Column("agent", CodePointText, nullable=False),
    Column("tenant", CodePointText, nullable=False),
    Column("plugin", CodePointText, nullable=False),  # as the challenge calls it
    Column("deadly", Integer, nullable=False),  # attempts that cost a process
    Column("since", FiniteFloat),  # NULL until there are too many
    Column("reason", CodePointText, nullable=False),  # of the last one
    PrimaryKeyConstraint("challenge_id", "code_hash", "agent", name="pk_plugin_pauses"),
)


# Attempts, ratings and places of disqualified agents stay; readers leave them out.
disqualified = Table(
    "disqualified_agents",
    metadata,
    Column("tenant", CodePointText, nullable=False),
    Column("agent", CodePointText, nullable=False),
    Column("at", FiniteFloat, nullable=False),
    PrimaryKeyConstraint("tenant", "agent", name="pk_disqualified_agents"),
)
ACTS = "contest_audit.attempt IS NULL OR contest_audit.event IN ('voided', 'unvoided')"
"""Entries about more than an attempt, or acts of an organiser on one."""

contest_audit = Table(
    "contest_audit",
    metadata,
    Column("seq", RowKey, primary_key=True),
    Column("tenant", CodePointText, nullable=False),
    # 0 where an agent or an account is meant, whom `note` names
    Column("challenge_id", RowKey, nullable=False),
    Column("attempt", RowKey),  # NULL where the whole challenge is meant
    Column("at", FiniteFloat, nullable=False),
    Column("actor", CodePointText, nullable=False),
    Column("event", CodePointText, nullable=False),
    Column("before", CodePointText),
    Column("after", CodePointText),
    Column("note", JsonText),
    Column("address", CodePointText),  # network address; NULL without a server
    Index("ix_contest_audit", "challenge_id", "attempt"),
    partial_index("ix_contest_audit_acts", "tenant", "seq", where=ACTS),
    # A challenge's entries in order: followers continue after the last one seen.
    Index("ix_contest_audit_order", "challenge_id", "seq"),
    sqlite_autoincrement=True,
)


# Handles are the keys that all other tables know agents by. Of names that look alike there is one,
# whether they are handles or display names: `agents.py` looks at both columns of looks.
agents = Table(
    "agents",
    metadata,
    Column("tenant", CodePointText, nullable=False),
    Column("handle", CodePointText, nullable=False),
    Column("name", CodePointText, nullable=False),
    Column("handle_look", CodePointText, nullable=False),
    Column("name_look", CodePointText, nullable=False),
    Column("created_at", FiniteFloat, nullable=False),
    Column("owner", CodePointText),  # whose keys may act for it; NULL without an owner
    PrimaryKeyConstraint("tenant", "handle", name="pk_agents"),
    Index("ux_agents_handle_look", "tenant", "handle_look", unique=True),
    Index("ux_agents_name_look", "tenant", "name_look", unique=True),
    Index("ix_agents_owner", "tenant", "owner"),
)

tracks = Table(
    "tracks",
    metadata,
    Column("tenant", CodePointText, nullable=False),
    Column("name", CodePointText, nullable=False),
    Column("at", FiniteFloat, nullable=False),
    Column("definition", CodePointText, nullable=False),
    PrimaryKeyConstraint("tenant", "name", name="pk_tracks"),
)


# Answers of judge models, by the hash of the question: the same question gets the same answer.
judge_answers = Table(
    "judge_answers",
    metadata,
    Column("tenant", CodePointText, nullable=False),
    Column("question", CodePointText, nullable=False),
    Column("answer", JsonText, nullable=False),
    Column("model", CodePointText),  # by its own name
    Column("at", FiniteFloat, nullable=False),
    PrimaryKeyConstraint("tenant", "question", name="pk_judge_answers"),
)
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
    # Trajectory level: see `TrajectoryLevel`.
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


# One row for every attempt that was scored or failed. SQLite clusters the rows by the key, in which
# ties are broken, so that the best of every agent is found in one pass without sorting. The score
# is by the rule of `scoring`.
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
    # On PostgreSQL, free space for the next version of each row: a rescoring then writes no index.
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
    Column("steps_digest", CodePointText),  # of its steps: no two agents may send the same ones
    Column("packed_trajectory", LargeBinary),  # JSON
    partial_index(
        "ix_attempt_details_steps", "tenant", "steps_digest", where="steps_digest IS NOT NULL"
    ),
)


# Why an attempt is still submitted: a failure of the server at the last try.
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
_UNJUDGED = "state <> 'judged'"
is_unjudged = text(f"versus_verdicts.{_UNJUDGED}")
"""The condition of `ix_versus_verdicts_unjudged`, literally: bound parameters would not use it."""

versus_submissions = Table(
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

versus_verdicts = Table(
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


# Spans that carried the token of an open attempt, as they came: see `witness.py`.
attempt_spans = Table(
    "attempt_spans",
    metadata,
    Column("attempt", RowKey, nullable=False),  # attempts.key
    Column("number", Integer, nullable=False),
    Column("tenant", CodePointText, nullable=False),
    Column("at", FiniteFloat, nullable=False),  # by the server's clock
    Column("spans", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("bytes", BigInteger, nullable=False, server_default="0"),  # of the body, unpacked
    PrimaryKeyConstraint("attempt", "number", name="pk_attempt_spans"),
)


# Bytes that were stored of an agent's submissions and witnessed spans, on the last day (UTC) with
# any.
agent_bytes = Table(
    "agent_bytes",
    metadata,
    Column("tenant", CodePointText, nullable=False),
    Column("agent", CodePointText, nullable=False),
    Column("day", CodePointText, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant", "agent", name="pk_agent_bytes"),
)


# Secret from which a tenant's tokens are derived.
witness_secrets = Table(
    "witness_secrets",
    metadata,
    Column("tenant", CodePointText, primary_key=True),
    Column("secret", LargeBinary, nullable=False),
)

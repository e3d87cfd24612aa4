"""The tables of challenges, boards, ratings and the audit log of contests.

Those of attempts are in `attempt_tables`. Logs (`contest_audit`, `score_history`) are only ever
added to: triggers refuse anything else. See docs/decisions/0010-boards.md.
"""

from __future__ import annotations

from sqlalchemy import (
    DDL,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    event,
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
    # What organisers did by hand: closed it; froze its board, whatever is published since; let it
    # move again, whatever freeze was due before.
    Column("closed_at", FiniteFloat),
    Column("held_at", FiniteFloat),
    Column("unfrozen_at", FiniteFloat),
    # Of the definition, for those who must not decode it: NULL is its default.
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
# Of a board that came since it last counted PostgreSQL expects no more than a row, by either index,
# and of two that promise the same takes the younger. So that it never looks for an agent by going
# through a whole board, the key is the younger one, and what boards are known by is not counted.
_by_the_key = DDL("""
    ALTER TABLE boards DROP CONSTRAINT pk_boards,
        ADD CONSTRAINT pk_boards PRIMARY KEY (challenge_id, frozen, agent),
        ALTER COLUMN challenge_id SET STATISTICS 0, ALTER COLUMN frozen SET STATISTICS 0
""")  # type: ignore[no-untyped-call]
event.listen(boards, "after_create", _by_the_key.execute_if(dialect="postgresql"))


# Both follow from `attempts`, and are kept so that nobody need count: see `matches`.
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


# Agents whose attempts have cost processes of a plugin, by the hash of its code: one that is mended
# begins anew.
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


# Their attempts, ratings and places stay as they are, and whoever reads leaves them out.
disqualified = Table(
    "disqualified_agents",
    metadata,
    Column("tenant", CodePointText, nullable=False),
    Column("agent", CodePointText, nullable=False),
    Column("at", FiniteFloat, nullable=False),
    PrimaryKeyConstraint("tenant", "agent", name="pk_disqualified_agents"),
)
ACTS = "contest_audit.attempt IS NULL OR contest_audit.event IN ('voided', 'unvoided')"
"""Of the log, what was done to more than an attempt, or to one by an organiser."""

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
    Column("address", CodePointText),  # from where; NULL where no server was asked
    Index("ix_contest_audit", "challenge_id", "attempt"),
    partial_index("ix_contest_audit_acts", "tenant", "seq", where=ACTS),
    # A challenge's entries in order: whoever follows it goes on after the last one seen.
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
    Column("owner", CodePointText),  # whose keys may speak for it; NULL where nobody said
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


# What a model that judges said, by the hash of what it was asked: asked again, it says the same.
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

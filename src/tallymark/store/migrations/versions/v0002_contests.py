"""Challenges, attempts, scores, boards, ratings, and the logs that are only ever added to."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"

_WORDS = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_LOGS = ("contest_audit", "score_history", "matches")


def upgrade() -> None:
    """Makes the tables of the competition side."""
    _challenges()
    _attempts()
    _scores()
    _boards()
    _ratings()
    _audit()
    for log in _LOGS:
        _only_add_to(log)


def _words(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, _WORDS, nullable=nullable)


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=True)


def _key(name: str, *, nullable: bool = False) -> sa.Column[int]:
    return sa.Column(name, _KEY, nullable=nullable)


def _given(name: str) -> sa.Column[int]:
    """A number that the database gives out."""
    return sa.Column(name, _KEY, primary_key=True)


def _of(name: str, target: str) -> sa.Column[int]:
    return sa.Column(name, _KEY, sa.ForeignKey(target), nullable=False)


def _number(name: str, *, nullable: bool = False) -> sa.Column[float]:
    return sa.Column(name, sa.Double(), nullable=nullable)


def _big(name: str, *, nullable: bool = True) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=nullable)


def _count(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), nullable=False)


def _flag(name: str) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean(), nullable=False)


def _challenges() -> None:
    op.create_table(
        "challenges",
        _given("id"),
        _words("tenant"),
        _words("name"),
        _words("version"),
        _number("published_at"),
        _count("revision"),
        _number("frozen_at", nullable=True),
        _words("definition"),
        sqlite_autoincrement=True,
    )
    op.create_index("ux_challenges_name", "challenges", ["tenant", "name"], unique=True)
    op.create_table(
        "challenge_versions",
        _given("id"),
        _words("tenant"),
        _of("challenge_id", "challenges.id"),
        _words("version"),
        _number("published_at"),
        _words("definition"),
        sa.Column("packed", sa.LargeBinary(), nullable=False),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ux_challenge_versions", "challenge_versions", ["challenge_id", "version"], unique=True
    )


def _attempts() -> None:
    op.create_table(
        "attempts",
        _given("key"),
        _words("tenant"),
        _of("challenge_id", "challenges.id"),
        _of("version_id", "challenge_versions.id"),
        _words("agent"),
        _count("number"),
        _words("state"),
        _big("seed", nullable=False),
        _number("entered_at"),
        _number("expires_at"),
        _number("submitted_at", nullable=True),
        _number("scored_at", nullable=True),
        _flag("verified"),
        _flag("memoryless"),
        sqlite_autoincrement=True,
    )
    number = ["challenge_id", "agent", "number"]
    op.create_index("ux_attempts_number", "attempts", number, unique=True)
    op.create_index("ix_attempts_newest", "attempts", ["challenge_id", "key"])
    is_open = sa.text("state = 'entered'")
    op.create_index(
        "ux_attempts_open",
        "attempts",
        ["challenge_id", "agent"],
        unique=True,
        sqlite_where=is_open,
        postgresql_where=is_open,
    )
    unfinished = sa.text("state IN ('entered', 'submitted')")
    op.create_index(
        "ix_attempts_unfinished",
        "attempts",
        ["tenant", "state", "expires_at"],
        sqlite_where=unfinished,
        postgresql_where=unfinished,
    )
    op.create_table(
        "attempt_details",
        sa.Column(
            "attempt", _KEY, sa.ForeignKey("attempts.key"), primary_key=True, autoincrement=False
        ),
        _words("tenant"),
        _words("digest", nullable=True),
        _text("submission"),
        _text("metadata"),
        _text("reported"),
        _text("details"),
        _text("evaluation"),
        _text("trajectory"),
    )
    op.create_table(
        "idempotency",
        _words("tenant"),
        _words("agent"),
        _words("key"),
        _words("digest"),
        _key("attempt"),
        _number("at"),
        sa.PrimaryKeyConstraint("tenant", "agent", "key", name="pk_idempotency"),
    )


def _scores() -> None:
    op.create_table(
        "attempt_scores",
        _key("challenge_id"),
        _words("agent"),
        _of("attempt", "attempts.key"),
        _words("tenant"),
        _key("scoring"),
        _number("score", nullable=True),
        _flag("ranks"),
        _number("submitted_at"),
        _count("number"),
        _flag("succeeded"),
        _big("tokens_total"),
        _big("elapsed_ms"),
        _number("rating", nullable=True),
        _big("created_at"),
        _number("cost", nullable=True),
        _big("calls"),
        _words("result", nullable=True),
        _words("error", nullable=True),
        _text("more"),
        _text("dimensions"),
        sa.PrimaryKeyConstraint(
            "challenge_id", "agent", "submitted_at", "attempt", name="pk_attempt_scores"
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "scorings",
        _given("id"),
        _words("tenant"),
        _key("challenge_id"),
        _number("at"),
        _words("why"),
        _text("origin"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_scorings_challenge", "scorings", ["challenge_id", "id"])
    op.create_table(
        "score_history",
        _key("scoring"),
        _words("agent"),
        _key("attempt"),
        _words("tenant"),
        _number("at"),
        _number("score", nullable=True),
        _words("result", nullable=True),
        _words("error", nullable=True),
        sa.PrimaryKeyConstraint("scoring", "agent", "attempt", name="pk_score_history"),
        sqlite_with_rowid=False,
    )


def _boards() -> None:
    order = ["challenge_id", "frozen", "place", "submitted_at", "attempt"]
    op.create_table(
        "boards",
        _key("challenge_id"),
        _flag("frozen"),
        _words("agent"),
        _words("tenant"),
        _number("place"),
        _number("submitted_at"),
        _key("attempt"),
        _number("value", nullable=True),
        _number("score", nullable=True),
        _count("tries"),
        sa.PrimaryKeyConstraint("challenge_id", "frozen", "agent", name="pk_boards"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_boards_order", "boards", order)
    op.create_table(
        "board_blocks",
        _key("challenge_id"),
        _flag("frozen"),
        _number("place"),
        _number("submitted_at"),
        _key("attempt"),
        _words("tenant"),
        _count("size"),
        sa.PrimaryKeyConstraint(*order, name="pk_board_blocks"),
        sqlite_with_rowid=False,
    )


def _ratings() -> None:
    op.create_table(
        "matches",
        _given("seq"),
        _words("tenant"),
        _words("agent"),
        _key("challenge_id"),
        _key("attempt"),
        _key("corrects", nullable=True),
        _number("at"),
        _words("tier"),
        _words("result", nullable=True),
        _flag("verified"),
        _flag("memoryless"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_matches_agent", "matches", ["tenant", "agent", "seq"])
    op.create_index("ix_matches_attempt", "matches", ["attempt"])
    tallies = ("wins", "draws", "losses")
    op.create_table(
        "ratings",
        _words("tenant"),
        _words("agent"),
        _count("rating"),
        _count("matches"),
        *(_count(each) for each in tallies),
        sa.PrimaryKeyConstraint("tenant", "agent", name="pk_ratings"),
    )
    op.create_index("ix_ratings_order", "ratings", ["tenant", "rating"])
    op.create_table(
        "rating_pairs",
        _words("tenant"),
        _words("agent"),
        _key("challenge_id"),
        *(_count(each) for each in tallies),
        sa.PrimaryKeyConstraint("tenant", "agent", "challenge_id", name="pk_rating_pairs"),
    )


def _audit() -> None:
    op.create_table(
        "contest_audit",
        _given("seq"),
        _words("tenant"),
        _key("challenge_id"),
        _key("attempt", nullable=True),
        _number("at"),
        _words("actor"),
        _words("event"),
        _words("before", nullable=True),
        _words("after", nullable=True),
        _text("note"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_contest_audit", "contest_audit", ["challenge_id", "attempt"])


def _only_add_to(table: str) -> None:
    """Triggers that refuse to change or remove rows, whoever tries."""
    refusal = f"{table} is only ever added to"
    if op.get_bind().dialect.name == "sqlite":
        for event in ("UPDATE", "DELETE"):
            op.execute(
                f"CREATE TRIGGER {table}_{event.lower()} BEFORE {event} ON {table}"
                f" BEGIN SELECT RAISE(ABORT, '{refusal}'); END"
            )
        return
    op.execute(
        f"CREATE FUNCTION {table}_refuse() RETURNS trigger LANGUAGE plpgsql"
        f" AS $$ BEGIN RAISE EXCEPTION '{refusal}'; END $$"
    )
    op.execute(
        f"CREATE TRIGGER {table}_refuse BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}"
        f" FOR EACH STATEMENT EXECUTE FUNCTION {table}_refuse()"
    )

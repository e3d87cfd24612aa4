"""Red against blue: submissions, and a verdict for each pairing and category."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"

_WORDS = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Makes the tables of red against blue."""
    _submissions()
    _verdicts()


def _submissions() -> None:
    op.create_table(
        "versus_submissions",
        sa.Column("id", _KEY, primary_key=True),
        sa.Column("tenant", _WORDS, nullable=False),
        sa.Column("challenge_id", _KEY, sa.ForeignKey("challenges.id"), nullable=False),
        sa.Column("version", _WORDS, nullable=False),
        sa.Column("player", _WORDS, nullable=False),
        sa.Column("side", _WORDS, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("at", sa.Double(), nullable=False),
        sa.Column("digest", _WORDS, nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sqlite_autoincrement=True,
    )
    number = ["challenge_id", "side", "player", "number"]
    op.create_index("ux_versus_submissions", "versus_submissions", number, unique=True)


def _verdicts() -> None:
    op.create_table(
        "versus_verdicts",
        sa.Column("red", _KEY, sa.ForeignKey("versus_submissions.id"), nullable=False),
        sa.Column("blue", _KEY, sa.ForeignKey("versus_submissions.id"), nullable=False),
        sa.Column("category", _WORDS, nullable=False),
        sa.Column("tenant", _WORDS, nullable=False),
        sa.Column("challenge_id", _KEY, nullable=False),
        sa.Column("state", _WORDS, nullable=False),
        sa.Column("breached", sa.Boolean()),
        sa.Column("reason", _WORDS, nullable=False),
        sa.Column("error", _WORDS),
        sa.Column("judge", _WORDS, nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("judged_at", sa.Double()),
        sa.PrimaryKeyConstraint("red", "blue", "category", name="pk_versus_verdicts"),
    )
    op.create_index("ix_versus_verdicts_blue", "versus_verdicts", ["blue"])
    unjudged = sa.text("state <> 'judged'")
    op.create_index(
        "ix_versus_verdicts_unjudged",
        "versus_verdicts",
        ["challenge_id", "red", "blue"],
        sqlite_where=unjudged,
        postgresql_where=unjudged,
    )

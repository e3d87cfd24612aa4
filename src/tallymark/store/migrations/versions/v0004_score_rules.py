"""Rescorings by a formula, whose scores follow from it."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"

_WORDS = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
_KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Makes the table of rules."""
    op.create_table(
        "score_rules",
        sa.Column("challenge_id", _KEY, nullable=False),
        sa.Column("scoring", _KEY, nullable=False),
        sa.Column("tenant", _WORDS, nullable=False),
        sa.Column("version_id", _KEY, sa.ForeignKey("challenge_versions.id"), nullable=False),
        sa.PrimaryKeyConstraint("challenge_id", "scoring", name="pk_score_rules"),
    )

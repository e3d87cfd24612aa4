"""Rescorings by a formula, whose scores follow from it."""

from alembic import op

from tallymark.store.contests.attempt_tables import score_rules
from tallymark.store.schema import make_tables

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Makes the table of rules."""
    make_tables(op.get_bind(), score_rules)

"""What keeps a contest fair: verdicts of models that are given once."""

from alembic import op

from tallymark.store.contests import contest_tables
from tallymark.store.schema import make_tables

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Adds what is new to the competition side."""
    _add_judge_answers()


def _add_judge_answers() -> None:
    make_tables(op.get_bind(), contest_tables.judge_answers)

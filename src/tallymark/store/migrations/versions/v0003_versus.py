"""Red against blue: submissions, and a verdict for each pairing and category."""

from alembic import op

from tallymark.store.contests.versus_tables import submissions, verdicts
from tallymark.store.schema import make_tables

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Makes the tables of red against blue."""
    make_tables(op.get_bind(), submissions, verdicts)

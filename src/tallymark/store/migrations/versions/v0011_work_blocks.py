"""What was done of bulk work that has not ended."""

from alembic import op

from tallymark.store.jobs.block_tables import work_blocks
from tallymark.store.schema import make_tables

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Makes the table, which is new."""
    make_tables(op.get_bind(), work_blocks)

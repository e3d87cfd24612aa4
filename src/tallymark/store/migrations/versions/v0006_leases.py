"""Who works on what."""

from alembic import op

from tallymark.store.leases import leases
from tallymark.store.schema import make_tables

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Makes the table of leases."""
    make_tables(op.get_bind(), leases)

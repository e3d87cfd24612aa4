"""People's own scores and comments on cases."""

from alembic import op

from tallymark.store.reviews.review_tables import reviews
from tallymark.store.schema import make_tables

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Makes the table, which is new."""
    make_tables(op.get_bind(), reviews)

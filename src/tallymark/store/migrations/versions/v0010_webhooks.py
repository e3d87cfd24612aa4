"""Webhooks, what was sent to them, and how far the log has been told."""

from alembic import op

from tallymark.store.schema import make_tables
from tallymark.store.webhooks.webhook_tables import webhook_deliveries, webhook_marks, webhooks

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Makes the tables, which are new."""
    make_tables(op.get_bind(), webhooks, webhook_deliveries, webhook_marks)

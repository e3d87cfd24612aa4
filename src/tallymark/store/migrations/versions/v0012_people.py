"""What people scored is found apart from what rules did."""

from alembic import op

from tallymark.store.schema import add_missing_indexes
from tallymark.store.traces.rule_tables import trace_scores

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Makes the index."""
    add_missing_indexes(op.get_bind(), trace_scores)

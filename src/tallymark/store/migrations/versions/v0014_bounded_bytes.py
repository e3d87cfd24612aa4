"""Trajectories are packed, witnessed spans know their size, and what agents send is counted."""

from alembic import op
from sqlalchemy import Connection

from tallymark.store.contests.attempt_rows import pack_trajectory
from tallymark.store.contests.attempt_tables import attempt_details
from tallymark.store.quick_statements import QuickStatements
from tallymark.store.schema import add_missing_columns, make_tables
from tallymark.store.traces.trace_tables import agent_bytes, attempt_spans

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Spans of before count as none: their attempts end within hours."""
    connection = op.get_bind()
    make_tables(connection, agent_bytes)
    add_missing_columns(connection, attempt_spans)
    add_missing_columns(connection, attempt_details)
    _pack_trajectories(connection)


def _pack_trajectories(connection: Connection) -> None:
    statements = QuickStatements(connection)
    # One at a time: each may have megabytes.
    query = (
        "SELECT attempt, trajectory FROM attempt_details"
        " WHERE trajectory IS NOT NULL ORDER BY attempt LIMIT 1"
    )
    while found := statements.read(query):
        attempt, trajectory = found[0]
        statements.run(
            "UPDATE attempt_details SET packed_trajectory = ?, trajectory = NULL WHERE attempt = ?",
            *(pack_trajectory(trajectory), attempt),
        )

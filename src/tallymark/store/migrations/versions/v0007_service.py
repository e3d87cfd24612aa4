"""A store that many share: who acted and from where, whose agents are whose."""

from alembic import op

from tallymark.store.contests.contest_tables import agents, contest_audit
from tallymark.store.runs.run_tables import case_results, runs
from tallymark.store.schema import add_missing_columns

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Adds the columns that are missing."""
    connection = op.get_bind()
    for table in (agents, contest_audit, runs, case_results):
        add_missing_columns(connection, table)

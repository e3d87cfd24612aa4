"""A store that many share: who acted and from where, whose agents are whose, and jobs."""

from alembic import op

from tallymark.store.contests.contest_tables import agents, contest_audit
from tallymark.store.jobs.job_tables import jobs
from tallymark.store.schema import add_missing_columns, make_tables

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Adds the columns and tables that are missing."""
    connection = op.get_bind()
    for table in (agents, contest_audit):
        add_missing_columns(connection, table)
    make_tables(connection, jobs)

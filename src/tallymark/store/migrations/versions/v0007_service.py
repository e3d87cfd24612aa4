"""A store that many share: accounts, jobs and tracks; who acted and from where, whose is what."""

from alembic import op

from tallymark.store.accounts import account_tables as accounts
from tallymark.store.contests.contest_tables import agents, challenges, contest_audit, tracks
from tallymark.store.jobs.job_tables import jobs
from tallymark.store.runs.run_tables import case_results, runs
from tallymark.store.schema import add_missing_columns, make_tables

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Makes the tables that are new, and adds the columns that are missing."""
    connection = op.get_bind()
    make_tables(
        connection,
        accounts.tenants,
        accounts.keys,
        accounts.invitations,
        accounts.registrations,
        accounts.sessions,
        accounts.idempotent_answers,
        tracks,
        jobs,
    )
    for table in (agents, challenges, contest_audit, runs, case_results):
        add_missing_columns(connection, table)

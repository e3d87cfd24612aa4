"""A store that many share: keys and accounts, who acted and from where, whose agents are whose."""

from alembic import op

from tallymark.store.accounts import account_tables as accounts
from tallymark.store.contests.contest_tables import agents, challenges, contest_audit, tracks
from tallymark.store.schema import add_missing_columns, make_tables

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Makes the tables of accounts and tracks, and adds the columns that are missing."""
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
    )
    for table in (agents, challenges, contest_audit):
        add_missing_columns(connection, table)

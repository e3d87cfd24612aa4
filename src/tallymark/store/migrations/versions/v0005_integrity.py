"""What keeps a board from being bent."""

from alembic import op
from sqlalchemy import Connection

from tallymark.store.contests.attempt_tables import attempt_waits
from tallymark.store.contests.contest_tables import plugin_pauses
from tallymark.store.schema import make_tables

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Makes what earlier versions did not have."""
    _add_pauses(op.get_bind())


def _add_pauses(connection: Connection) -> None:
    """Agents that a plugin is paused for, and attempts that wait because of us."""
    make_tables(connection, plugin_pauses, attempt_waits)

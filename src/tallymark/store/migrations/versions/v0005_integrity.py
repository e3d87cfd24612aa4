"""What keeps a contest honest: how far the trajectory of an attempt can be believed."""

from alembic import op
from sqlalchemy import Column, Connection, inspect, text

from tallymark.store.column_types import CodePointText
from tallymark.store.contests.attempt_tables import attempt_details

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Adds what a database lacks; tables that were made just now have it already."""
    _add_trajectory_levels(op.get_bind())
    _add_step_digests(op.get_bind())


def _add_trajectory_levels(connection: Connection) -> None:
    """What was verified was consistent by the rules of then; what was sent along was claimed."""
    if _has_column(connection, "attempts", "trajectory_level"):
        return
    kind = CodePointText()
    op.add_column(
        "attempts", Column("trajectory_level", kind, nullable=False, server_default="none")
    )
    connection.execute(text("UPDATE attempts SET trajectory_level = 'consistent' WHERE verified"))
    connection.execute(
        text(
            "UPDATE attempts SET trajectory_level = 'claimed' WHERE NOT verified AND key IN"
            " (SELECT attempt FROM attempt_details WHERE trajectory IS NOT NULL)"
            " AND scored_at IS NOT NULL"
        )
    )


def _add_step_digests(connection: Connection) -> None:
    """Of what is sent from now on: nobody's steps are another's too."""
    if _has_column(connection, "attempt_details", "steps_digest"):
        return
    op.add_column("attempt_details", Column("steps_digest", CodePointText()))
    for index in attempt_details.indexes:
        index.create(connection)


def _has_column(connection: Connection, table: str, column: str) -> bool:
    return column in {each["name"] for each in inspect(connection).get_columns(table)}

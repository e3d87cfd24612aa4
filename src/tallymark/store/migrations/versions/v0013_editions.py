"""A board that is written anew is another edition of it: docs/decisions/0065-editions.md."""

from alembic import op
from sqlalchemy import Connection, Table

from tallymark.store.contests.contest_tables import board_blocks, boards, challenges
from tallymark.store.schema import add_missing_columns, list_columns, make_tables

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Every board has its first edition; what the public sees of a frozen one is edition 0."""
    connection = op.get_bind()
    add_missing_columns(connection, challenges)
    for table in (boards, board_blocks):
        if "edition" not in list_columns(connection, table):
            _number_editions(connection, table)


def _number_editions(connection: Connection, table: Table) -> None:
    old = f"{table.name}_before"
    connection.exec_driver_sql(f"CREATE TEMPORARY TABLE {old} AS SELECT * FROM {table.name}")  # noqa: S608
    connection.exec_driver_sql(f"DROP TABLE {table.name}")
    make_tables(connection, table)
    names = ", ".join(each.name for each in table.c if each.name != "edition")
    connection.exec_driver_sql(
        f"INSERT INTO {table.name} (edition, {names})"  # noqa: S608  our names
        f" SELECT CASE WHEN frozen THEN 0 ELSE 1 END, {names} FROM {old}"
    )
    connection.exec_driver_sql(f"DROP TABLE {old}")

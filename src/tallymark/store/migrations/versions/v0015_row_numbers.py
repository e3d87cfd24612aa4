"""Each tenant numbers its own rows."""

from alembic import op
from sqlalchemy import insert, text

from tallymark.store.row_numbers import NUMBERED, row_numbers
from tallymark.store.schema import make_tables

revision = "0015"
down_revision = "0014"
_LAST = {
    "sqlite": "SELECT max(seq) FROM sqlite_sequence WHERE name = '{noun}'",
    "postgresql": "SELECT pg_sequence_last_value(pg_get_serial_sequence('{noun}', '{column}'))",
}
"""The last number that was given out, even if its row is gone."""


def upgrade() -> None:
    """Rows keep their numbers. The default tenant counts on from the last one of all tenants."""
    connection = op.get_bind()
    make_tables(connection, row_numbers)
    last = _LAST[connection.dialect.name]
    for noun, column in NUMBERED.items():
        given = connection.scalar(text(last.format(noun=noun, column=column))) or 0
        stored = connection.scalar(text(f"SELECT max({column}) FROM {noun}")) or 0  # noqa: S608
        row = {"tenant": "default", "noun": noun, "start": 0, "last": max(given, stored)}
        connection.execute(insert(row_numbers).values(row))

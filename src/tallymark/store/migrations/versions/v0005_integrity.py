"""Nobody bends a board: pauses and waits, levels of trajectories, matches from attempts, acts."""

from alembic import op
from sqlalchemy import Connection, Table, inspect, select, text
from sqlalchemy.schema import CreateColumn, CreateIndex

from tallymark.store.contests import matches
from tallymark.store.contests.attempt_tables import attempt_details, attempt_waits, attempts
from tallymark.store.contests.contest_tables import challenges, disqualified, plugin_pauses
from tallymark.store.schema import make_tables

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Adds what is missing; ratings are then made anew from the attempts."""
    connection = op.get_bind()
    make_tables(connection, plugin_pauses, attempt_waits, disqualified)
    _add_missing_columns(connection, challenges)
    levels = "trajectory_level" not in _list_columns(connection, attempts)
    _add_missing_columns(connection, attempts)
    _add_missing_columns(connection, attempt_details)
    if levels:
        connection.execute(text(_CONSISTENT))
        connection.execute(text(_CLAIMED))
    _derive_matches(connection)


def _list_columns(connection: Connection, table: Table) -> set[str]:
    return {each["name"] for each in inspect(connection).get_columns(table.name)}


def _add_missing_columns(connection: Connection, table: Table) -> None:
    """A table as it is declared today, with all its rows; nothing where it is so already."""
    there = _list_columns(connection, table)
    missing = [each for each in table.c if each.name not in there]
    if not missing:
        return
    if connection.dialect.name == "postgresql":
        for column in missing:
            declared = CreateColumn(column).compile(dialect=connection.dialect)
            connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {declared}")
        known = {each["name"] for each in inspect(connection).get_indexes(table.name)}
        for index in table.indexes:
            if index.name not in known:
                connection.execute(CreateIndex(index))
        return
    # SQLite would write a column that is added later behind the constraints, and a table that is
    # renamed in quotes. Without the pragma it would follow the old table with every reference.
    old = f"{table.name}_before"
    connection.exec_driver_sql("PRAGMA legacy_alter_table = ON")
    connection.exec_driver_sql(f"ALTER TABLE {table.name} RENAME TO {old}")
    connection.exec_driver_sql("PRAGMA legacy_alter_table = OFF")
    for found in inspect(connection).get_indexes(old):
        connection.exec_driver_sql(f"DROP INDEX {found['name']}")
    make_tables(connection, table)
    names = ", ".join(each.name for each in table.c if each.name in there)
    copy = f"INSERT INTO {table.name} ({names}) SELECT {names} FROM {old}"  # noqa: S608  our names
    connection.exec_driver_sql(copy)
    connection.exec_driver_sql(f"DROP TABLE {old}")


def _derive_matches(connection: Connection) -> None:
    """Says of every attempt when it ended, forgets the log, and rates everybody anew."""
    if not inspect(connection).has_table("matches"):
        return
    connection.execute(text(_ENDED))
    connection.execute(text(_WITHDRAWN))
    connection.execute(text(_LOADED_UNRATED))
    connection.exec_driver_sql("DROP TABLE matches")
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("DROP FUNCTION matches_refuse()")
    for tenant in connection.scalars(select(challenges.c.tenant).distinct()).all():
        matches.fold_everyone(connection, tenant)


_ENDED = """
    UPDATE attempts SET match_at = CASE WHEN state = 'expired' THEN expires_at ELSE submitted_at END
"""
_WITHDRAWN = """
    UPDATE attempts SET match_at = coalesce(
        (SELECT min(a.at) FROM contest_audit AS a
         WHERE a.challenge_id = attempts.challenge_id AND a.attempt = attempts.key
           AND a.event = 'withdrawn'),
        expires_at)
    WHERE state = 'withdrawn'
"""
# A load of which nothing came into the log was one that should not be rated.
_LOADED_UNRATED = """
    UPDATE attempts SET match_at = NULL
    WHERE key IN (
        SELECT h.attempt FROM score_history AS h JOIN scorings AS s ON s.id = h.scoring
        WHERE s.why = 'load' AND s.id NOT IN (
            SELECT DISTINCT scoring FROM score_history
            WHERE attempt IN (SELECT attempt FROM matches)))
"""
# What was verified was consistent by the rules of then; what was sent along was claimed.
_CONSISTENT = "UPDATE attempts SET trajectory_level = 'consistent' WHERE verified"
_CLAIMED = """
    UPDATE attempts SET trajectory_level = 'claimed'
    WHERE NOT verified AND scored_at IS NOT NULL
      AND key IN (SELECT attempt FROM attempt_details WHERE trajectory IS NOT NULL)
"""

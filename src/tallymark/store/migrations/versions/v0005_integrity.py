"""Nobody bends a board: pauses, waits, levels of trajectories, matches from attempts, handles."""

from alembic import op
from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    Table,
    TableClause,
    column,
    func,
    insert,
    inspect,
    select,
    table,
    text,
    union_all,
    update,
)

from tallymark.challenges.agent_names import (
    clean_display_name,
    is_handle,
    make_skeleton,
    propose_handle,
)
from tallymark.store.column_types import CodePointText
from tallymark.store.contests import matches
from tallymark.store.contests.attempt_tables import attempt_details, attempt_waits, attempts
from tallymark.store.contests.contest_tables import (
    agents,
    challenges,
    disqualified,
    judge_answers,
    plugin_pauses,
)
from tallymark.store.schema import add_missing_columns, list_columns, make_tables, open_logs

revision = "0005"
down_revision = "0004"


_NAMED = {
    "attempts": "agent",
    "attempt_scores": "agent",
    "score_history": "agent",
    "boards": "agent",
    "ratings": "agent",
    "rating_pairs": "agent",
    "idempotency": "agent",
    "versus_submissions": "player",
}
"""The columns that know an agent by its name. The audit log stays as it was written."""
_renamed = Table(
    "renamed_agents",
    MetaData(),
    Column("tenant", CodePointText),
    Column("old", CodePointText),
    Column("new", CodePointText),
    prefixes=["TEMPORARY"],
)


def upgrade() -> None:
    """Adds what is missing; ratings are then made anew from the attempts."""
    connection = op.get_bind()
    make_tables(connection, plugin_pauses, attempt_waits, disqualified, judge_answers)
    add_missing_columns(connection, challenges)
    levels = "trajectory_level" not in list_columns(connection, attempts)
    add_missing_columns(connection, attempts)
    add_missing_columns(connection, attempt_details)
    if levels:
        connection.execute(text(_CONSISTENT))
        connection.execute(text(_CLAIMED))
    _add_agents(connection)
    _derive_matches(connection)


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


def _add_agents(connection: Connection) -> None:
    """A handle for every agent; one that had another name keeps that as its display name."""
    make_tables(connection, agents)
    rows, renamed = [], []
    for tenant, since in _read_names(connection).items():
        given = _choose_handles(since)
        rows += _make_rows(tenant, given, since)
        changed = {old: new for old, new in given.items() if old != new}
        renamed += [{"tenant": tenant, "old": old, "new": changed[old]} for old in changed]
    if rows:
        connection.execute(insert(agents), rows)
    if renamed:
        _rename(connection, renamed)


def _read_names(connection: Connection) -> dict[str, dict[str, float]]:
    """Of every tenant the agents, and since when they take part."""
    parts = [
        select(
            each.c.tenant, each.c[name].label("agent"), func.min(each.c[since]).label("since")
        ).group_by(each.c.tenant, each.c[name])
        for each, name, since in (
            (_sketch("attempts", "agent", "entered_at"), "agent", "entered_at"),
            (_sketch("versus_submissions", "player", "at"), "player", "at"),
        )
    ]
    found: dict[str, dict[str, float]] = {}
    for tenant, agent, since in connection.execute(union_all(*parts)):
        known = found.setdefault(tenant, {})
        known[agent] = min(since, known.get(agent, since))
    return found


def _choose_handles(since: dict[str, float]) -> dict[str, str]:
    """What is a handle stays; of others that come to the same, the earlier agent has it."""
    given = {name: name for name in since if is_handle(name)}
    taken = set(given)
    for name in sorted(since.keys() - taken, key=lambda name: (since[name], name)):
        given[name] = propose_handle(name, taken)
        taken.add(given[name])
    return given


def _make_rows(
    tenant: str, given: dict[str, str], since: dict[str, float]
) -> list[dict[str, object]]:
    looks: set[str] = set()
    rows = []
    # Earlier agents first: where names of before look alike, theirs is the one that is guarded.
    for old in sorted(given, key=lambda name: (given[name] != name, since[name], name)):
        handle, name = given[old], clean_display_name(old) or given[old]
        both = (make_skeleton(handle), make_skeleton(name))
        # No skeleton holds a space, so that what is made here is nobody else's.
        own = [f"{look} {handle}" if look in looks else look for look in both]
        looks |= set(own)
        row = {"tenant": tenant, "handle": handle, "name": name, "created_at": since[old]}
        rows.append(row | {"handle_look": own[0], "name_look": own[1]})
    return rows


def _rename(connection: Connection, renamed: list[dict[str, str]]) -> None:
    """In every table at once, the logs included: an agent is one and the same in all of them."""
    _renamed.create(connection)
    connection.execute(insert(_renamed), renamed)
    there = set(inspect(connection).get_table_names())
    with open_logs(connection):
        for name in _NAMED.keys() & there:
            each = _sketch(name, _NAMED[name])
            agent = each.c[_NAMED[name]]
            mine = (_renamed.c.tenant == each.c.tenant) & (_renamed.c.old == agent)
            new = select(_renamed.c.new).where(mine)
            change = update(each).where(new.exists()).values({agent: new.scalar_subquery()})
            connection.execute(change)
    _renamed.drop(connection)


def _sketch(name: str, *columns: str) -> TableClause:
    """A table as far as it is needed here: other columns may not be there yet."""
    return table(name, column("tenant"), *map(column, columns))

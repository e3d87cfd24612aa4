"""Plugin quarantine: agents whose attempts ended a plugin's process too often.

Counts are stored by the hash of the plugin's code, so a quarantine outlasts every process and ends
with the code that caused it. See docs/decisions/0019-pauses.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, insert, select

from tallymark.challenges.challenge import PluginPause
from tallymark.sandbox.limits import DEADLY, PAUSE_AFTER
from tallymark.store.contests import audit_log
from tallymark.store.contests.audit_log import SYSTEM, AuditEntry
from tallymark.store.contests.challenges import find_challenge
from tallymark.store.contests.tables import challenges, plugin_pauses
from tallymark.store.database import TenantRows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import ColumnElement, Connection

    from tallymark.challenges.attempt import Outcome
    from tallymark.scoring import Origin
    from tallymark.store.contests.challenges import StoredChallenge


class PluginQuarantine(TenantRows):
    def all(self, challenge: str | None = None) -> list[PluginPause]:
        """Quarantined agents, of one challenge or all, by challenge and agent."""
        names = PluginPause.__struct_fields__
        columns = [challenges.c.name, *(plugin_pauses.c[name] for name in names[1:])]
        query = select(*columns).join(challenges, challenges.c.id == plugin_pauses.c.challenge_id)
        query = query.where(
            plugin_pauses.c.tenant == self._tenant, plugin_pauses.c.since.is_not(None)
        )
        with self._database.read() as connection:
            if challenge is not None:
                kept = find_challenge(connection, self._tenant, challenge)
                query = query.where(plugin_pauses.c.challenge_id == kept.id)
            ordered = query.order_by(
                challenges.c.name, plugin_pauses.c.agent, plugin_pauses.c.code_hash
            )
            rows = connection.execute(ordered)
            return [PluginPause(**dict(zip(names, row, strict=True))) for row in rows]

    def known(self, kept: StoredChallenge, code_hash: str) -> dict[str, tuple[int, str]]:
        """Count and last reason of each agent quarantined for this code."""
        mine = (_is_of(kept, code_hash), plugin_pauses.c.since.is_not(None))
        query = select(plugin_pauses.c.agent, plugin_pauses.c.deadly, plugin_pauses.c.reason).where(
            *mine
        )
        with self._database.read() as connection:
            return {agent: (deadly, said) for agent, deadly, said in connection.execute(query)}


def is_deadly(outcome: Outcome) -> bool:
    """Return whether an attempt ended the plugin's process."""
    stopped = (outcome.details.get("scorer") or {}).get("stopped")
    return stopped in DEADLY and outcome.origin is not None


def count_deadly(
    connection: Connection, kept: StoredChallenge, agent: str, outcome: Outcome, at: float
) -> None:
    """Count an attempt that ended the plugin's process; too many quarantine the agent."""
    if outcome.origin is None:
        return
    mine = _is_of(kept, outcome.origin.version) & (plugin_pauses.c.agent == agent)
    counted = connection.scalar(select(plugin_pauses.c.deadly).where(mine)) or 0
    connection.execute(delete(plugin_pauses).where(mine))
    said = outcome.error or outcome.details["scorer"]["stopped"]
    _insert_count(connection, kept, outcome.origin, agent, counted + 1, said, at)


def replace_counts(
    connection: Connection,
    kept: StoredChallenge,
    origin: Origin,
    deaths: Mapping[str, tuple[int, str]],
    at: float,
) -> None:
    """Store the counts of a rescoring for agents that were not quarantined before."""
    paused = _is_of(kept, origin.version) & plugin_pauses.c.since.is_not(None)
    known = set(connection.scalars(select(plugin_pauses.c.agent).where(paused)))
    connection.execute(
        delete(plugin_pauses).where(plugin_pauses.c.challenge_id == kept.id, ~paused)
    )
    new = {agent: deaths[agent] for agent in deaths.keys() - known}
    add_counts(connection, kept, origin, new, at)


def add_counts(
    connection: Connection,
    kept: StoredChallenge,
    origin: Origin,
    deaths: Mapping[str, tuple[int, str]],
    at: float,
) -> None:
    """Store counts of agents that have none."""
    for agent, (count, said) in sorted(deaths.items()):
        _insert_count(connection, kept, origin, agent, count, said, at)


def resume(connection: Connection, kept: StoredChallenge, agents: Sequence[str], at: float) -> None:
    """End the quarantine of these agents."""
    mine = (plugin_pauses.c.challenge_id == kept.id) & plugin_pauses.c.agent.in_(agents)
    connection.execute(delete(plugin_pauses).where(mine))
    for agent in agents:
        entry = AuditEntry(
            at=at, actor=audit_log.name_actor(), event="resumed", note={"agent": agent}
        )
        audit_log.write_entry(connection, kept.tenant, kept.id, None, entry)


def _is_of(kept: StoredChallenge, code_hash: str) -> ColumnElement[bool]:
    return (plugin_pauses.c.challenge_id == kept.id) & (plugin_pauses.c.code_hash == code_hash)


def _insert_count(  # noqa: PLR0913, PLR0917 (the columns of a row)
    connection: Connection,
    kept: StoredChallenge,
    origin: Origin,
    agent: str,
    count: int,
    said: str,
    at: float,
) -> None:
    row = {
        "challenge_id": kept.id,
        "code_hash": origin.version,
        "agent": agent,
        "tenant": kept.tenant,
        "plugin": origin.scorer,
        "deadly": count,
        "since": at if count >= PAUSE_AFTER else None,
        "reason": said,
    }
    connection.execute(insert(plugin_pauses).values(row))
    if row["since"] is not None:
        note = {"agent": agent, "plugin": origin.scorer, "reason": said}
        entry = AuditEntry(at=at, actor=SYSTEM, event="paused", note=note)
        audit_log.write_entry(connection, kept.tenant, kept.id, None, entry)

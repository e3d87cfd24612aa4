"""Agents that an organiser has disqualified: they may not compete, and are shown nowhere.

Their attempts, ratings and places are kept as if nothing had happened, and whoever reads leaves
them out. So boards and ratings are those that never had them, and reinstating costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, exists, select

from tallymark.errors import InvalidInput, NotFound
from tallymark.store.contests import audit_log
from tallymark.store.contests.attempt_tables import attempts
from tallymark.store.contests.contest_tables import disqualified as table
from tallymark.store.contests.versus_tables import submissions
from tallymark.store.database import TenantRows
from tallymark.store.dialects import insert_once

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection


class Disqualifications(TenantRows):
    """What `store.disqualifications` is."""

    def disqualify(self, agent: str, *, at: float, reason: str) -> None:
        """From now on the agent may not compete, and is on no board and in no rating."""
        entry = audit_log.make_act("disqualified", reason, at, agent=agent)

        def work(connection: Connection) -> None:
            self._require_known(connection, agent)
            row = {"tenant": self._tenant, "agent": agent, "at": at}
            if insert_once(connection, table, row):
                audit_log.write_agent_entry(connection, self._tenant, entry)

        self._database.write(work)

    def reinstate(self, agent: str, *, at: float, reason: str) -> None:
        """All is as if the agent had never been disqualified."""
        entry = audit_log.make_act("reinstated", reason, at, agent=agent)

        def work(connection: Connection) -> None:
            self._require_known(connection, agent)
            mine = (table.c.tenant == self._tenant, table.c.agent == agent)
            if connection.execute(delete(table).where(*mine)).rowcount:
                audit_log.write_agent_entry(connection, self._tenant, entry)

        self._database.write(work)

    def agents(self) -> dict[str, float]:
        """Who is disqualified, by name, and since when."""
        query = select(table.c.agent, table.c.at).where(table.c.tenant == self._tenant)
        with self._database.read() as connection:
            return dict(connection.execute(query.order_by(table.c.agent)).all())

    def _require_known(self, connection: Connection, agent: str) -> None:
        tried = exists().where(attempts.c.tenant == self._tenant, attempts.c.agent == agent)
        played = exists().where(submissions.c.tenant == self._tenant, submissions.c.player == agent)
        if not connection.scalar(select(tried | played)):
            raise NotFound(f"no agent {agent!r} has competed here", hint="check the name")


def find_refusal(connection: Connection, tenant: str, agent: str) -> InvalidInput | None:
    """Why an agent may not compete; None when it may."""
    mine = select(table.c.at).where(table.c.tenant == tenant, table.c.agent == agent)
    return None if connection.scalar(mine) is None else explain_refusal(agent)


def explain_refusal(agent: str) -> InvalidInput:
    """The refusal of one that is disqualified."""
    return InvalidInput(f"{agent!r} is disqualified", hint="ask the organisers")


def is_admitted(tenant: str | ColumnElement[str], agent: ColumnElement[str]) -> ColumnElement[bool]:
    """Whether the agent of a row is not disqualified."""
    return ~exists().where(table.c.tenant == tenant, table.c.agent == agent)

"""Agents and disqualifications. Every door that an agent comes through registers its handle here.

Attempts, ratings and places of a disqualified agent stay stored, and every reader leaves them out:
boards and ratings are those that never had the agent, and reinstating costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from sqlalchemy import delete, exists, func, or_, select, update

from tallymark.challenges.agent_names import (
    check_display_name,
    check_handle,
    check_new_handle,
    label_agent,
    make_skeleton,
)
from tallymark.errors import Conflict, InvalidInput, NotFound
from tallymark.store.contests import audit_log
from tallymark.store.contests.audit_log import write_account_entry
from tallymark.store.contests.tables import agents, attempts, disqualified, versus_submissions
from tallymark.store.database import TenantRows
from tallymark.store.dialects import insert_many, insert_once, lock_names, lock_rows, make_storable
from tallymark.store.quick_statements import ManyQuery

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import ColumnElement, Connection


_NAMED = ManyQuery(
    """
    SELECT agents.handle, agents.name
    FROM {given}
    JOIN agents ON agents.tenant = given.tenant AND agents.handle = given.handle
    WHERE agents.name <> agents.handle
    """,
    (("tenant", "text"), ("handle", "text")),
)
_OWNED = ManyQuery(
    """
    SELECT agents.handle, agents.owner
    FROM {given}
    JOIN agents ON agents.tenant = given.tenant AND agents.handle = given.handle
    WHERE agents.owner IS NOT NULL
    """,
    (("tenant", "text"), ("handle", "text")),
)


class AgentRecord(msgspec.Struct, frozen=True, kw_only=True):
    handle: str
    name: str
    owner: str | None
    created_at: float
    disqualified_at: float | None = None


_DISQUALIFIED = select(disqualified.c.at).where(
    disqualified.c.tenant == agents.c.tenant, disqualified.c.agent == agents.c.handle
)
_FIELDS = (
    *(agents.c[name] for name in AgentRecord.__struct_fields__[:-1]),
    _DISQUALIFIED.scalar_subquery().label("disqualified_at"),
)


class Agents(TenantRows):
    def name_agent(self, handle: str, name: str, *, at: float) -> None:
        """Set the display name of an agent."""
        check_handle(handle)
        check_display_name(name)

        def work(connection: Connection) -> None:
            lock_names(connection, self._tenant)
            look = make_skeleton(name)
            _refuse_twin(connection, self._tenant, handle, name, look)
            change = update(agents).where(_is_agent(self._tenant, handle))
            if connection.execute(change.values(name=name, name_look=look)).rowcount != 1:
                raise _explain_unknown(handle)
            note = {"agent": handle, "name": name}
            write_account_entry(connection, self._tenant, "agent named", at, **note)

        self._database.write(work)

    def give(self, handle: str, owner: str | None, *, at: float) -> None:
        """Set or remove the owner of an agent."""

        def work(connection: Connection) -> None:
            before = _read_owner(connection, self._tenant, handle)
            if before != owner:
                change = update(agents).where(_is_agent(self._tenant, handle)).values(owner=owner)
                connection.execute(change)
                note = {"agent": handle, "owner": owner, "before": before}
                write_account_entry(connection, self._tenant, "agent given", at, **note)

        self._database.write(work)

    def get(self, handle: str) -> AgentRecord:
        with self._database.read() as connection:
            query = select(*_FIELDS).where(_is_agent(self._tenant, handle))
            row = connection.execute(query).mappings().one_or_none()
        if row is None:
            raise _explain_unknown(handle)
        return AgentRecord(**row)

    def all(  # noqa: PLR0913 (filters)
        self,
        *,
        owner: str | None = None,
        named: bool = False,
        handles: Sequence[str] = (),
        text: str | None = None,
        disqualified: bool | None = None,
        after: str = "",
        limit: int | None = None,
        offset: int = 0,
    ) -> list[AgentRecord]:
        """Agents of the tenant by handle, those after one if it is given.

        With `named`, those that are shown by another name than their handle; with `text`, those
        that have it in their handle or name.
        """
        where = _choose(owner, named, text, disqualified)
        query = select(*_FIELDS).where(agents.c.tenant == self._tenant, agents.c.handle > after)
        if handles:
            query = query.where(agents.c.handle.in_(handles))
        query = query.where(*where).order_by(agents.c.handle).limit(limit).offset(offset)
        with self._database.read() as connection:
            return [AgentRecord(**row) for row in connection.execute(query).mappings()]

    def count(self, *, text: str | None = None, disqualified: bool | None = None) -> int:
        """Number of agents that `all` lists."""
        mine = (agents.c.tenant == self._tenant, *_choose(None, False, text, disqualified))
        query = select(func.count()).select_from(agents).where(*mine)
        with self._database.read() as connection:
            return int(connection.scalar(query) or 0)

    def labels(self, handles: Iterable[str]) -> dict[str, str]:
        """Labels shown for those agents whose display name differs from their handle."""
        names = self.names(handles)
        return {handle: label_agent(handle, name) for handle, name in names.items()}

    def names(self, handles: Iterable[str]) -> dict[str, str]:
        """Display names that differ from the handle."""
        wanted = [(self._tenant, make_storable(each)) for each in handles]
        with self._database.statement() as statements:
            return {row[0]: row[1] for row in statements.read_many(_NAMED, wanted)}

    def owners(self, handles: Iterable[str]) -> dict[str, str]:
        """Owners of those agents that have one."""
        wanted = [(self._tenant, make_storable(each)) for each in handles]
        with self._database.statement() as statements:
            return {row[0]: row[1] for row in statements.read_many(_OWNED, wanted)}


def _choose(
    owner: str | None, named: bool, text: str | None, absent: bool | None
) -> Iterator[ColumnElement[bool]]:
    if owner is not None:
        yield agents.c.owner == owner
    if named:
        yield agents.c.name != agents.c.handle
    if text:
        places = (agents.c.handle, agents.c.name)
        yield or_(*(place.icontains(text, autoescape=True) for place in places))
    if absent is not None:
        yield _DISQUALIFIED.exists() if absent else ~_DISQUALIFIED.exists()


def register_agent(connection: Connection, tenant: str, handle: str, at: float) -> None:
    """Register an agent by its handle; an invalid or look-alike handle is refused."""
    check_handle(handle)
    if connection.scalar(select(agents.c.handle).where(_is_agent(tenant, handle))) is not None:
        return
    check_new_handle(handle)
    lock_names(connection, tenant)
    row = _make_row(tenant, handle, at)
    _refuse_twin(connection, tenant, handle, handle, row["handle_look"])
    insert_once(connection, agents, row)  # another entry of the same agent may have been quicker


def claim_agent(connection: Connection, tenant: str, handle: str, *, owner: str, at: float) -> None:
    """Register an agent with its owner; another owner's agent is refused."""
    register_agent(connection, tenant, handle, at)
    before = _read_owner(connection, tenant, handle)
    if before is None:
        connection.execute(update(agents).where(_is_agent(tenant, handle)).values(owner=owner))
    elif before != owner:
        raise Conflict(
            f"the agent {handle!r} is another owner's", hint="choose another handle, or the owner"
        )


def is_agent_known(connection: Connection, tenant: str, handle: str) -> bool:
    found = connection.scalar(select(agents.c.handle).where(_is_agent(tenant, handle)))
    return found is not None


def count_agents(connection: Connection, tenant: str, owner: str) -> int:
    """Number of an owner's agents."""
    mine = (agents.c.tenant == tenant, agents.c.owner == owner)
    return int(connection.scalar(select(func.count()).where(*mine)) or 0)


def have_one_owner(
    tenant: str, one: ColumnElement[str], other: ColumnElement[str]
) -> ColumnElement[bool]:
    """Condition: two agents have the same owner."""
    mine, theirs = agents.alias(), agents.alias()
    return exists().where(
        *(mine.c.tenant == tenant, mine.c.handle == one),
        *(theirs.c.tenant == tenant, theirs.c.handle == other),
        mine.c.owner == theirs.c.owner,
    )


def register_agents(connection: Connection, tenant: str, handles: Iterable[str], at: float) -> None:
    """Register very many agents."""
    lock_names(connection, tenant)
    columns = (agents.c.handle, agents.c.handle_look, agents.c.name_look)
    known = connection.execute(select(*columns).where(agents.c.tenant == tenant)).all()
    handle_of = {look: handle for handle, *looks in known for look in looks}
    new = []
    for handle in sorted(set(handles) - {row.handle for row in known}):
        check_new_handle(handle)
        row = _make_row(tenant, handle, at)
        other = handle_of.setdefault(row["handle_look"], handle)
        if other != handle:
            raise _explain_twin(handle, other)
        new.append(tuple(row.values()))
    if new:
        insert_many(connection, agents, tuple(_make_row(tenant, "", at)), new)


def _make_row(tenant: str, handle: str, at: float) -> dict[str, Any]:
    look = make_skeleton(handle)
    row = {"tenant": tenant, "handle": handle, "name": handle}
    return row | {"handle_look": look, "name_look": look, "created_at": at}


def _refuse_twin(connection: Connection, tenant: str, handle: str, name: str, look: str) -> None:
    """Refuse a name that looks like another agent's handle or display name."""
    alike = or_(agents.c.handle_look == look, agents.c.name_look == look)
    others = (agents.c.tenant == tenant, agents.c.handle != handle, alike)
    other: str | None = connection.scalar(select(agents.c.handle).where(*others).limit(1))
    if other is not None:
        raise _explain_twin(name, other)


def _explain_twin(name: str, other: str) -> InvalidInput:
    return InvalidInput(
        f"{name!r} looks like the agent {other!r}", hint="choose one that cannot be mistaken for it"
    )


def _explain_unknown(handle: str) -> NotFound:
    return NotFound(f"there is no agent {handle!r}", hint="it is known when it enters a challenge")


def _read_owner(connection: Connection, tenant: str, handle: str) -> str | None:
    """Owner of an agent, locked until the transaction ends."""
    query = select(agents.c.owner).where(_is_agent(tenant, handle))
    row = connection.execute(lock_rows(query)).one_or_none()
    if row is None:
        raise _explain_unknown(handle)
    owner: str | None = row.owner
    return owner


def _is_agent(tenant: str, handle: str) -> ColumnElement[bool]:
    return (agents.c.tenant == tenant) & (agents.c.handle == handle)


class Disqualifications(TenantRows):
    def disqualify(self, agent: str, *, at: float, reason: str) -> None:
        """Disqualify an agent: it may not compete, and is on no board and in no rating."""
        entry = audit_log.make_act("disqualified", reason, at, agent=agent)

        def work(connection: Connection) -> None:
            self._require_known(connection, agent)
            row = {"tenant": self._tenant, "agent": agent, "at": at}
            if insert_once(connection, disqualified, row):
                audit_log.write_agent_entry(connection, self._tenant, entry)

        self._database.write(work)

    def reinstate(self, agent: str, *, at: float, reason: str) -> None:
        """Undo a disqualification."""
        entry = audit_log.make_act("reinstated", reason, at, agent=agent)

        def work(connection: Connection) -> None:
            self._require_known(connection, agent)
            mine = (disqualified.c.tenant == self._tenant, disqualified.c.agent == agent)
            if connection.execute(delete(disqualified).where(*mine)).rowcount:
                audit_log.write_agent_entry(connection, self._tenant, entry)

        self._database.write(work)

    def agents(self) -> dict[str, float]:
        """Disqualified agents with the time of their disqualification."""
        query = select(disqualified.c.agent, disqualified.c.at).where(
            disqualified.c.tenant == self._tenant
        )
        with self._database.read() as connection:
            return dict(connection.execute(query.order_by(disqualified.c.agent)).all())

    def _require_known(self, connection: Connection, agent: str) -> None:
        tried = exists().where(attempts.c.tenant == self._tenant, attempts.c.agent == agent)
        played = exists().where(
            versus_submissions.c.tenant == self._tenant, versus_submissions.c.player == agent
        )
        if not connection.scalar(select(tried | played)):
            raise NotFound(f"no agent {agent!r} has competed here", hint="check the name")


def find_disqualification(connection: Connection, tenant: str, agent: str) -> InvalidInput | None:
    """The refusal of a disqualified agent; None if it may compete."""
    mine = select(disqualified.c.at).where(
        disqualified.c.tenant == tenant, disqualified.c.agent == agent
    )
    return None if connection.scalar(mine) is None else explain_disqualification(agent)


def explain_disqualification(agent: str) -> InvalidInput:
    return InvalidInput(f"{agent!r} is disqualified", hint="ask the organisers")


def is_admitted(tenant: str | ColumnElement[str], agent: ColumnElement[str]) -> ColumnElement[bool]:
    """Condition: the agent of a row is not disqualified."""
    return ~exists().where(disqualified.c.tenant == tenant, disqualified.c.agent == agent)

"""Agents in the database: every door that an agent comes through registers its handle here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import or_, select, update

from tallymark.challenges.agent_names import (
    check_display_name,
    check_handle,
    label_agent,
    make_skeleton,
)
from tallymark.errors import InvalidInput
from tallymark.store.contests.contest_tables import agents as table
from tallymark.store.database import TenantRows
from tallymark.store.database_dialects import insert_many, insert_once, lock_names
from tallymark.store.quick_statements import ManyQuery

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlalchemy import ColumnElement, Connection

    from tallymark.store.quick_statements import QuickStatements

_AT_ONCE = 500
_ALIKE = ManyQuery(
    """
    SELECT given.tenant, given.look, agents.handle
    FROM {given}
    LEFT JOIN agents ON agents.tenant = given.tenant
         AND (agents.handle_look = given.look OR agents.name_look = given.look)
    """,
    (("tenant", "text"), ("look", "text")),
)


class Agents(TenantRows):
    """What `store.agents` is."""

    def name_agent(self, handle: str, name: str) -> None:
        """Gives an agent the name that it is shown by."""
        check_handle(handle)
        check_display_name(name)

        def work(connection: Connection) -> None:
            lock_names(connection, self._tenant)
            look = make_skeleton(name)
            _refuse_twin(connection, self._tenant, handle, name, look)
            change = update(table).where(_is_agent(self._tenant, handle))
            if connection.execute(change.values(name=name, name_look=look)).rowcount != 1:
                raise InvalidInput(
                    f"there is no agent {handle!r}", hint="it is known when it enters a challenge"
                )

        self._database.write(work)

    def labels(self, handles: Iterable[str]) -> dict[str, str]:
        """What people are shown of those agents whose names are others than their handles."""
        names = self.names(handles)
        return {handle: label_agent(handle, name) for handle, name in names.items()}

    def names(self, handles: Iterable[str]) -> dict[str, str]:
        """The names of those agents that have others than their handles."""
        mine = (table.c.tenant == self._tenant, table.c.name != table.c.handle)
        query = select(table.c.handle, table.c.name).where(*mine)
        found: dict[str, str] = {}
        wanted = list(handles)
        with self._database.read() as connection:
            for start in range(0, len(wanted), _AT_ONCE):
                some = table.c.handle.in_(wanted[start : start + _AT_ONCE])
                rows = connection.execute(query.where(some))
                found |= {row.handle: row.name for row in rows}
        return found


def register_agent(connection: Connection, tenant: str, handle: str, at: float) -> None:
    """Makes an agent known by its handle; what is no handle, or looks like another, is refused."""
    check_handle(handle)
    if connection.scalar(select(table.c.handle).where(_is_agent(tenant, handle))) is not None:
        return
    lock_names(connection, tenant)
    row = _make_row(tenant, handle, at)
    _refuse_twin(connection, tenant, handle, handle, row["handle_look"])
    insert_once(connection, table, row)  # another entry of the same agent may have been quicker


def register_new_agents(
    statements: QuickStatements, new: Mapping[tuple[str, str], float]
) -> dict[tuple[str, str], InvalidInput]:
    """As `register_agent`, for those of a batch, by tenant and handle, each with its time.

    Why some were refused; the others are known from now on.
    """
    refused: dict[tuple[str, str], InvalidInput] = {}
    for tenant in sorted({tenant for tenant, _ in new}):
        lock_names(statements.connection, tenant)
    looks = {who: make_skeleton(who[1]) for who in new}
    taken: dict[tuple[str, str], set[str]] = {}
    given = [(tenant, look) for (tenant, _), look in looks.items()]
    for tenant, look, handle in statements.read_many(_ALIKE, given):
        if handle is not None:
            taken.setdefault((tenant, look), set()).add(handle)
    rows = []
    for (tenant, handle), at in new.items():
        same = taken.setdefault((tenant, looks[tenant, handle]), set())
        if handle in same:
            continue  # another entry of the same agent was quicker
        if same:
            refused[tenant, handle] = _explain_twin(handle, min(same))
            continue
        same.add(handle)
        rows.append(tuple(_make_row(tenant, handle, at).values()))
    statements.insert(table.name, tuple(_make_row("", "", 0.0)), rows)
    return refused


def register_agents(connection: Connection, tenant: str, handles: Iterable[str], at: float) -> None:
    """As `register_agent`, for very many."""
    lock_names(connection, tenant)
    columns = (table.c.handle, table.c.handle_look, table.c.name_look)
    known = connection.execute(select(*columns).where(table.c.tenant == tenant)).all()
    handle_of = {look: handle for handle, *looks in known for look in looks}
    new = []
    for handle in sorted(set(handles) - {row.handle for row in known}):
        check_handle(handle)
        row = _make_row(tenant, handle, at)
        other = handle_of.setdefault(row["handle_look"], handle)
        if other != handle:
            raise _explain_twin(handle, other)
        new.append(tuple(row.values()))
    if new:
        insert_many(connection, table, tuple(_make_row(tenant, "", at)), new)


def _make_row(tenant: str, handle: str, at: float) -> dict[str, Any]:
    look = make_skeleton(handle)
    row = {"tenant": tenant, "handle": handle, "name": handle}
    return row | {"handle_look": look, "name_look": look, "created_at": at}


def _refuse_twin(connection: Connection, tenant: str, handle: str, name: str, look: str) -> None:
    """Refuses a name that looks like another agent's handle or display name."""
    alike = or_(table.c.handle_look == look, table.c.name_look == look)
    others = (table.c.tenant == tenant, table.c.handle != handle, alike)
    other: str | None = connection.scalar(select(table.c.handle).where(*others).limit(1))
    if other is not None:
        raise _explain_twin(name, other)


def _explain_twin(name: str, other: str) -> InvalidInput:
    return InvalidInput(
        f"{name!r} looks like the agent {other!r}", hint="choose one that nobody takes for it"
    )


def _is_agent(tenant: str, handle: str) -> ColumnElement[bool]:
    return (table.c.tenant == tenant) & (table.c.handle == handle)

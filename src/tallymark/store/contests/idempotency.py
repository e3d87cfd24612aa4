"""Idempotency keys: a request sent twice under one key is done once, and answered alike."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from sqlalchemy import select

from tallymark.errors import Conflict, InvalidInput
from tallymark.store.column_types import make_storable
from tallymark.store.contests.contest_tables import idempotency as table
from tallymark.store.database_dialects import insert_once

if TYPE_CHECKING:
    from sqlalchemy import Connection

_LONGEST = 255


class IdempotentRequest:
    """What is asked for an agent under a key. Each operation has its own keys.

    Otherwise an agent could enter under a key that a reporter is going to use, and so keep its
    report of a loss from being taken.
    """

    def __init__(self, tenant: str, agent: str, key: str, operation: str, *content: object) -> None:
        if not (0 < len(key) <= _LONGEST and make_storable(key) == key):
            raise InvalidInput(
                "the idempotency key cannot be used", hint=f"give 1 to {_LONGEST} characters"
            )
        self.tenant, self.agent, self.key = tenant, agent, key
        self._stored_key = f"{operation} {key}"
        self.digest = hashlib.sha256(repr(content).encode()).hexdigest()

    @property
    def id(self) -> tuple[str, str, str]:
        """Whose key it is, and the key."""
        return self.tenant, self.agent, self._stored_key

    def check(self, digest: str) -> None:
        """Refuses a key that was used for something else."""
        if digest != self.digest:
            raise Conflict(
                f"the idempotency key {self.key!r} was used before for another request",
                hint="send the same request again, or take a new key",
            )

    def find_answer(self, connection: Connection) -> int | None:
        """The attempt that was the answer before; a key used for something else is refused."""
        query = select(table.c.digest, table.c.attempt).where(
            table.c.tenant == self.tenant,
            table.c.agent == self.agent,
            table.c.key == self._stored_key,
        )
        row = connection.execute(query).one_or_none()
        if row is None:
            return None
        self.check(row.digest)
        return int(row.attempt)

    def keep_answer(self, connection: Connection, attempt: int, at: float) -> None:
        """Remembers the answer."""
        row = {"tenant": self.tenant, "agent": self.agent, "key": self._stored_key, "at": at}
        row |= {"digest": self.digest, "attempt": attempt}
        if not insert_once(connection, table, row):
            # Another was quicker; if it asked for something else, this raises and all is undone.
            self.find_answer(connection)

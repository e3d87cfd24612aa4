"""Idempotency keys: a request sent twice under one key is done once, and answered alike."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from tallymark.errors import Conflict, InvalidInput
from tallymark.store.column_types import make_storable
from tallymark.store.group_commit import Overtaken
from tallymark.store.quick_statements import write_insert

if TYPE_CHECKING:
    from tallymark.store.quick_statements import QuickStatements

_LONGEST = 255
_FIND = "SELECT digest, attempt FROM idempotency WHERE tenant = ? AND agent = ? AND key = ?"
_KEEP = (
    write_insert("idempotency", ("tenant", "agent", "key", "digest", "attempt", "at"))
    + " ON CONFLICT DO NOTHING"
)
_FORGET = "DELETE FROM idempotency WHERE tenant = ? AND agent = ? AND key = ?"


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

    def find_answer(self, statements: QuickStatements) -> int | None:
        """The attempt that was the answer before; a key used for something else is refused."""
        for digest, attempt in statements.read(_FIND, *self.id):
            if digest != self.digest:
                raise Conflict(
                    f"the idempotency key {self.key!r} was used before for another request",
                    hint="send the same request again, or take a new key",
                )
            return int(attempt)
        return None

    def forget_answer(self, statements: QuickStatements) -> None:
        """Forgets an answer that was remembered in this transaction."""
        statements.run(_FORGET, *self.id)

    def keep_answer(self, statements: QuickStatements, attempt: int, at: float) -> None:
        """Remembers the answer."""
        if not statements.run(_KEEP, *self.id, self.digest, attempt, at):
            raise Overtaken("an idempotency key is being used for another request")

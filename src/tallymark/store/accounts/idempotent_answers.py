"""Answers to requests under an Idempotency-Key: the same request again gets the same answer.

Those about attempts are kept with the attempts, in `contests/idempotency.py`.
"""

from __future__ import annotations

import os
import secrets
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import msgspec
from sqlalchemy import delete, literal, select, tuple_, update

from tallymark.errors import BeingServed, Conflict, InvalidInput
from tallymark.store.accounts.account_tables import idempotent_answers as table
from tallymark.store.column_types import json_text, make_storable
from tallymark.store.database import TenantRows
from tallymark.store.database_dialects import insert_once, lock_rows
from tallymark.store.leases import Holder, describe_process

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

KEPT_S = 86_400.0
"""For so long an answer is given again."""
GIVEN_UP_S = 600.0
"""A request that has had no answer for so long died with its server, on another machine: it may be
made again. That a server of this machine has died is seen at once."""
_LONGEST = 255
_FREE = "free "
"""Before the digest of what was asked: the key may be used for any request."""
_SWEPT = 50
_served: dict[tuple[int, str, str, str], str] = {}
"""What this process serves, and by which claim: what else it has claimed was left half-way."""


class KeptAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What was answered."""

    status: int
    headers: dict[str, str]
    body: bytes


class IdempotentAnswers(TenantRows):
    """What `store.idempotent_answers` is."""

    def begin(self, caller: str, key: str, digest: str, *, at: float) -> KeptAnswer | None:
        """None where the request is new, and now ours to do; else what was answered before.

        The key of another request, or of one that is being served, is a `Conflict`.
        """
        if not (0 < len(key) <= _LONGEST and make_storable(key) == key and key.isprintable()):
            raise InvalidInput(
                "the idempotency key cannot be used", hint=f"give 1 to {_LONGEST} characters"
            )
        ours, here = _Token.make(at), self._name(caller, key)
        row = {"tenant": self._tenant, "caller": caller, "key": key, "digest": digest, "at": at}

        def work(connection: Connection) -> KeptAnswer | None:
            known = self._claim(connection, row, ours)
            if known is None:
                _served[here] = ours.claim
            return known

        try:
            return self._database.write(work)
        except BaseException:
            if _served.get(here) == ours.claim:
                del _served[here]
            raise

    def _claim(
        self, connection: Connection, row: dict[str, Any], ours: _Token
    ) -> KeptAnswer | None:
        caller, key, at = row["caller"], row["key"], row["at"]
        self._forget_old(connection, at)
        noted = row | {"token": str(ours)}
        if insert_once(connection, table, noted):
            return None
        mine = self._is_mine(caller, key)
        found = connection.execute(lock_rows(select(table).where(mine))).one_or_none()
        if found is None:  # swept away by another, just now
            insert_once(connection, table, noted)
            return None
        is_free = found.digest.startswith(_FREE)
        is_same = found.digest.removeprefix(_FREE) == row["digest"]
        if not (is_same or is_free):
            raise Conflict(
                f"the idempotency key {key!r} was used before for another request",
                hint="send the same request again, or take a new key",
            )
        if found.status is not None:
            return KeptAnswer(status=found.status, headers=found.headers, body=found.body)
        theirs = _Token.read(found.token)
        if theirs.claim == ours.claim:  # a connection was lost: this is the second try
            return None
        served = _served.get(self._name(caller, key)) == theirs.claim
        left = is_free or (theirs.server == ours.server and not served)
        if abs(at - found.at) < GIVEN_UP_S and not (left or theirs.is_gone):
            raise BeingServed(
                f"the request with the idempotency key {key!r} is still being served",
                hint="wait for its answer, then ask again",
            )
        token = str(ours._replace(request=theirs.request) if is_same else ours)
        values = {"at": at, "token": token, "digest": row["digest"]}
        connection.execute(update(table).where(mine).values(values))
        return None

    def find_name(self, caller: str, key: str) -> str | None:
        """What a request that is being served is called, whoever serves it; None for no such."""
        query = select(table.c.token).where(self._is_mine(caller, key), table.c.status.is_(None))
        with self._database.read() as connection:
            token = connection.scalar(query)
        return None if token is None else _Token.read(token).request or None

    def finish(self, caller: str, key: str, answer: KeptAnswer) -> None:
        """Keeps what was answered; what is shown once must not be in it."""
        change = update(table).where(self._is_mine(caller, key))
        values = msgspec.structs.asdict(answer)
        try:
            self._database.write(lambda c: c.execute(change.values(values)))
        finally:
            self.leave(caller, key)

    def forget(self, caller: str, key: str) -> None:
        """The request was refused, and its key is free again, also for another request.

        Sent again as it was it has the same name: it may have been taken over from one that broke
        off, as a run is that still seems to be held, and then comes to the same run.
        """
        mine = (self._is_mine(caller, key), table.c.status.is_(None))
        change = update(table).where(*mine, table.c.digest.not_like(f"{_FREE}%"))
        freed = change.values(digest=literal(_FREE).concat(table.c.digest))
        try:
            self._database.write(lambda c: c.execute(freed))
        finally:
            self.leave(caller, key)

    def leave(self, caller: str, key: str) -> None:
        """The request broke off, and nobody knows how far it came.

        Whoever asks again takes it over under its name. That needs no database, which may be what
        broke.
        """
        _served.pop(self._name(caller, key), None)

    def _name(self, caller: str, key: str) -> tuple[int, str, str, str]:
        return (id(self._database), self._tenant, caller, key)

    def _forget_old(self, connection: Connection, at: float) -> None:
        """Some of those that are old enough, by whoever comes next."""
        old = (table.c.tenant == self._tenant, table.c.at <= at - KEPT_S)
        rows = connection.execute(select(table.c.caller, table.c.key).where(*old).limit(_SWEPT))
        if some := [tuple(row) for row in rows]:
            gone = tuple_(table.c.caller, table.c.key).in_(some)
            connection.execute(delete(table).where(*old, gone))

    def _is_mine(self, caller: str, key: str) -> ColumnElement[bool]:
        mine = {"tenant": self._tenant, "caller": caller, "key": key}
        first, *others = (table.c[name] == value for name, value in mine.items())
        for each in others:
            first &= each
        return first


class _Token(NamedTuple):
    """Who serves a request: this call, for the request of that name, in this process."""

    claim: str
    request: str
    """`SECONDS-CHANCE`, of when it was first asked: the same when another takes it over."""
    server: str

    @classmethod
    def make(cls, at: float) -> Self:
        request = f"{int(at)}-{secrets.token_hex(8)}"
        return cls(secrets.token_hex(8), request, _describe_server(os.getpid()))

    @classmethod
    def read(cls, text: str) -> Self:
        return cls(*(*text.split(" ", 2), "", "")[:3])

    def __str__(self) -> str:
        return " ".join(self)

    @property
    def is_gone(self) -> bool:
        """Whether the process is known to have ended."""
        return bool(self.server) and msgspec.json.decode(self.server, type=Holder).is_gone


@cache
def _describe_server(process: int) -> str:
    return json_text(describe_process(process))

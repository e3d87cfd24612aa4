"""Idempotency keys: a request sent twice under one key is done once and answered alike.

Requests about attempts (`IdempotentRequest`) are stored in the transaction of their effect; all
others (`IdempotentAnswers`) store the HTTP answer.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import msgspec
from sqlalchemy import (
    Column,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    delete,
    literal,
    select,
    tuple_,
    update,
)

from tallymark.errors import BeingServed, Conflict, InvalidInput
from tallymark.store.database import TenantRows
from tallymark.store.dialects import (
    CodePointText,
    FiniteFloat,
    JsonText,
    RowKey,
    insert_once,
    json_text,
    lock_rows,
    make_storable,
    metadata,
)
from tallymark.store.group_commit import Overtaken
from tallymark.store.leases import Holder, describe_process
from tallymark.store.quick_statements import write_insert

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

    from tallymark.store.quick_statements import QuickStatements


# HTTP answers to requests under an Idempotency-Key. Those about attempts are in `idempotency`.
idempotent_answers = Table(
    "idempotent_answers",
    metadata,
    Column("tenant", CodePointText, nullable=False),
    Column("caller", CodePointText, nullable=False),
    Column("key", CodePointText, nullable=False),
    Column("digest", CodePointText, nullable=False),  # of the request
    Column("at", FiniteFloat, nullable=False),
    Column("token", CodePointText, nullable=False),  # of the server of the request
    Column("status", Integer),  # NULL while the request is being served
    Column("headers", JsonText),
    Column("body", LargeBinary),
    PrimaryKeyConstraint("tenant", "caller", "key", name="pk_idempotent_answers"),
    Index("ix_idempotent_answers_age", "tenant", "at"),
)

attempt_requests = Table(
    "idempotency",
    metadata,
    Column("tenant", CodePointText, nullable=False),
    Column("agent", CodePointText, nullable=False),
    Column("key", CodePointText, nullable=False),
    Column("digest", CodePointText, nullable=False),  # of the request
    Column("attempt", RowKey, nullable=False),  # what was answered
    Column("at", FiniteFloat, nullable=False),
    PrimaryKeyConstraint("tenant", "agent", "key", name="pk_idempotency"),
)
_LONGEST_KEY = 255
_FIND = "SELECT digest, attempt FROM idempotency WHERE tenant = ? AND agent = ? AND key = ?"
_KEEP = (
    write_insert("idempotency", ("tenant", "agent", "key", "digest", "attempt", "at"))
    + " ON CONFLICT DO NOTHING"
)
_FORGET = "DELETE FROM idempotency WHERE tenant = ? AND agent = ? AND key = ?"


class IdempotentRequest:
    """A request for an agent under a key. Each operation has its own keys.

    Otherwise an agent could enter under a key that a reporter is going to use, and so prevent its
    report of a loss.
    """

    def __init__(self, tenant: str, agent: str, key: str, operation: str, *content: object) -> None:
        if not (0 < len(key) <= _LONGEST_KEY and make_storable(key) == key):
            raise InvalidInput(
                "the idempotency key cannot be used", hint=f"give 1 to {_LONGEST_KEY} characters"
            )
        self.tenant, self.agent, self.key = tenant, agent, key
        self._stored_key = f"{operation} {key}"
        self.digest = hashlib.sha256(repr(content).encode()).hexdigest()

    @property
    def id(self) -> tuple[str, str, str]:
        """Primary key of the row."""
        return self.tenant, self.agent, self._stored_key

    def find_answer(self, statements: QuickStatements) -> int | None:
        """The attempt that was the answer before; a key used for another request is refused."""
        for digest, attempt in statements.read(_FIND, *self.id):
            if digest != self.digest:
                raise Conflict(
                    f"the idempotency key {self.key!r} was used before for another request",
                    hint="send the same request again, or take a new key",
                )
            return int(attempt)
        return None

    def forget_answer(self, statements: QuickStatements) -> None:
        """Delete an answer that was stored in this transaction."""
        statements.run(_FORGET, *self.id)

    def keep_answer(self, statements: QuickStatements, attempt: int, at: float) -> None:
        """Store the answer."""
        if not statements.run(_KEEP, *self.id, self.digest, attempt, at):
            raise Overtaken("an idempotency key is being used for another request")


KEPT_S = 86_400.0
"""For so long an answer is given again."""
GIVEN_UP_S = 600.0
"""A request that has had no answer for so long died with its server, on another machine: it may be
made again. That a server of this machine has died is seen at once."""
_LONGEST = 255
_FREE = "free "
"""Prefix of a digest whose key may be used for any request."""
_SWEPT = 50
_served: dict[tuple[int, str, str, str], str] = {}
"""Claims that this process serves; its other claims were left half-way."""


class StoredAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A stored HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes


class IdempotentAnswers(TenantRows):
    """HTTP answers to requests under an Idempotency-Key."""

    def begin(self, caller: str, key: str, digest: str, *, at: float) -> StoredAnswer | None:
        """Claim a new request and return None, or return the answer given before.

        A key used for another request, or for one that is being served, is a `Conflict`.
        """
        if not (0 < len(key) <= _LONGEST and make_storable(key) == key and key.isprintable()):
            raise InvalidInput(
                "the idempotency key cannot be used", hint=f"give 1 to {_LONGEST} characters"
            )
        ours, here = _Token.make(at), self._name(caller, key)
        row = {"tenant": self._tenant, "caller": caller, "key": key, "digest": digest, "at": at}

        def work(connection: Connection) -> StoredAnswer | None:
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
    ) -> StoredAnswer | None:
        caller, key, at = row["caller"], row["key"], row["at"]
        self._forget_old(connection, at)
        noted = row | {"token": str(ours)}
        if insert_once(connection, idempotent_answers, noted):
            return None
        mine = self._is_mine(caller, key)
        found = connection.execute(lock_rows(select(idempotent_answers).where(mine))).one_or_none()
        if found is None:  # swept away by another, just now
            insert_once(connection, idempotent_answers, noted)
            return None
        is_free = found.digest.startswith(_FREE)
        is_same = found.digest.removeprefix(_FREE) == row["digest"]
        if not (is_same or is_free):
            raise Conflict(
                f"the idempotency key {key!r} was used before for another request",
                hint="send the same request again, or take a new key",
            )
        if found.status is not None:
            return StoredAnswer(status=found.status, headers=found.headers, body=found.body)
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
        connection.execute(update(idempotent_answers).where(mine).values(values))
        return None

    def find_name(self, caller: str, key: str) -> str | None:
        """Name of the request that is being served under a key, by any server."""
        query = select(idempotent_answers.c.token).where(
            self._is_mine(caller, key), idempotent_answers.c.status.is_(None)
        )
        with self._database.read() as connection:
            token = connection.scalar(query)
        return None if token is None else _Token.read(token).request or None

    def finish(self, caller: str, key: str, answer: StoredAnswer) -> None:
        """Store the answer, which must not hold values that are shown only once."""
        change = update(idempotent_answers).where(self._is_mine(caller, key))
        values = msgspec.structs.asdict(answer)
        try:
            self._database.write(lambda c: c.execute(change.values(values)))
        finally:
            self.leave(caller, key)

    def forget(self, caller: str, key: str) -> None:
        """Free the key of a refused request, also for another request.

        The same request sent again has the same name, because it may have been taken over from one
        that broke off (a run that still seems to be held) and must lead to the same run.
        """
        mine = (self._is_mine(caller, key), idempotent_answers.c.status.is_(None))
        change = update(idempotent_answers).where(
            *mine, idempotent_answers.c.digest.not_like(f"{_FREE}%")
        )
        freed = change.values(digest=literal(_FREE).concat(idempotent_answers.c.digest))
        try:
            self._database.write(lambda c: c.execute(freed))
        finally:
            self.leave(caller, key)

    def leave(self, caller: str, key: str) -> None:
        """Leave a request that broke off at an unknown point.

        The next sender takes it over under its name. This needs no database, which may be what
        failed.
        """
        _served.pop(self._name(caller, key), None)

    def _name(self, caller: str, key: str) -> tuple[int, str, str, str]:
        return (id(self._database), self._tenant, caller, key)

    def _forget_old(self, connection: Connection, at: float) -> None:
        """Delete some expired answers on each new request."""
        old = (idempotent_answers.c.tenant == self._tenant, idempotent_answers.c.at <= at - KEPT_S)
        rows = connection.execute(
            select(idempotent_answers.c.caller, idempotent_answers.c.key).where(*old).limit(_SWEPT)
        )
        if some := [tuple(row) for row in rows]:
            gone = tuple_(idempotent_answers.c.caller, idempotent_answers.c.key).in_(some)
            connection.execute(delete(idempotent_answers).where(*old, gone))

    def _is_mine(self, caller: str, key: str) -> ColumnElement[bool]:
        mine = {"tenant": self._tenant, "caller": caller, "key": key}
        first, *others = (idempotent_answers.c[name] == value for name, value in mine.items())
        for each in others:
            first &= each
        return first


class _Token(NamedTuple):
    """The server of a request: the call, the name of the request, and the process."""

    claim: str
    request: str
    """`SECONDS-CHANCE` of the first request: the same after a takeover."""
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
        """Return whether the process is known to have ended."""
        return bool(self.server) and msgspec.json.decode(self.server, type=Holder).is_gone


@cache
def _describe_server(process: int) -> str:
    return json_text(describe_process(process))

"""Sessions in the database: who is signed in on pages, by which key."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import delete, select

from tallymark.store.accounts.account_tables import keys
from tallymark.store.accounts.account_tables import sessions as table
from tallymark.store.accounts.keys import Key, hash_secret
from tallymark.store.contests.audit_log import write_account_entry
from tallymark.store.database import TenantRows
from tallymark.store.database_dialects import insert_once

if TYPE_CHECKING:
    from sqlalchemy import Connection

PREFIX = "tls_"
_AT_ONCE = 500


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody signed in, without the token that their browser has."""

    key: Key
    csrf: str
    """What every form of theirs must carry."""
    created_at: float
    expires_at: float


_KEY = [keys.c[name] for name in Key.__struct_fields__]


class Sessions(TenantRows):
    """What `store.sessions` is."""

    def add(self, session: Session, token: str) -> None:
        """Keeps a new session, and forgets those that are over."""
        row = {
            "hash": hash_secret(token),
            "tenant": session.key.tenant,
            "key_id": session.key.id,
            "csrf": session.csrf,
            "created_at": session.created_at,
            "expires_at": session.expires_at,
        }
        key, at = session.key, session.created_at

        def work(connection: Connection) -> None:
            over = (table.c.key_id == key.id, table.c.expires_at <= at)
            connection.execute(delete(table).where(*over))
            if not insert_once(connection, table, row):  # a lost connection had committed
                return
            facts = {"key": key.id, "owner": key.owner}
            write_account_entry(connection, key.tenant, "signed in", at, **facts)

        self._database.write(work)

    def find(self, token: str) -> Session | None:
        """The session that this is, with its key, of whichever tenant; it may be over."""
        if not self._database.look():
            return None
        query = (
            select(*_KEY, table.c.csrf, table.c.created_at.label("began"), table.c.expires_at)
            .join(keys, keys.c.id == table.c.key_id)
            .where(table.c.hash == hash_secret(token))
        )
        with self._database.read() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            return None
        *fields, csrf, began, until = row
        key = Key(**dict(zip(Key.__struct_fields__, fields, strict=True)))
        return Session(key=key, csrf=csrf, created_at=began, expires_at=until)

    def find_open(self, hashes: Collection[str], *, at: float) -> set[str]:
        """Those of some keys and sessions, of whichever tenant, that are not over."""
        valid = keys.c.revoked_at.is_(None) & (
            keys.c.expires_at.is_(None) | (keys.c.expires_at > at)
        )
        mine = table.join(keys, keys.c.id == table.c.key_id)
        asked, found = sorted(hashes), set[str]()
        with self._database.read() as connection:
            for start in range(0, len(asked), _AT_ONCE):
                some = asked[start : start + _AT_ONCE]
                by_key = select(keys.c.hash).where(keys.c.hash.in_(some), valid)
                by_session = (
                    select(table.c.hash)
                    .select_from(mine)
                    .where(table.c.hash.in_(some), table.c.expires_at > at, valid)
                )
                found.update(connection.scalars(by_key.union_all(by_session)))
        return found

    def remove(self, token: str) -> None:
        """Signs out."""
        mine = table.c.hash == hash_secret(token)
        self._database.write(lambda c: c.execute(delete(table).where(mine)))

    def remove_all(self, owner: str, *, at: float) -> int:
        """Signs an owner out everywhere; how many sessions that were."""

        def work(connection: Connection) -> int:
            theirs = select(keys.c.id).where(keys.c.tenant == self._tenant, keys.c.owner == owner)
            ended = connection.execute(delete(table).where(table.c.key_id.in_(theirs))).rowcount
            if ended:
                note = {"owner": owner, "sessions": ended}
                write_account_entry(connection, self._tenant, "signed out", at, **note)
            return ended

        return self._database.write(work)

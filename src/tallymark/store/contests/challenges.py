"""Challenges: every published version, and the current one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, get_args

import msgspec
from sqlalchemy import delete, exists, insert, select, update

from tallymark.challenges.challenge import MAX_NAME, Challenge, Visibility, make_slug
from tallymark.errors import Conflict, InvalidInput, NotFound, suggest
from tallymark.store.contests import audit_log, board_rows
from tallymark.store.contests.audit_log import SYSTEM, AuditEntry
from tallymark.store.contests.board_rows import Board
from tallymark.store.contests.tables import challenge_versions as versions
from tallymark.store.contests.tables import challenges as table
from tallymark.store.contests.tables import tracks
from tallymark.store.database import TenantRows
from tallymark.store.dialects import insert_once, json_text, lock_rows, make_storable
from tallymark.store.quick_statements import ManyQuery, QuickStatements
from tallymark.text import list_some

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from typing import TypeAlias

    from sqlalchemy import ColumnElement, Connection

    from tallymark.store.quick_statements import ReadSnapshot

    _Columns: TypeAlias = dict[str, float | None]
    _Change: TypeAlias = Callable[[Connection, "StoredChallenge", float], _Columns]


# The same definitions are read again and again, and are never modified.
_decode = lru_cache(maxsize=4096)(msgspec.json.Decoder(Challenge).decode)
_STATE = ("revision", "frozen_at", "closed_at", "held_at", "unfrozen_at")
_ALL = f"""
    SELECT id, tenant, {", ".join(_STATE)}, definition FROM challenges
    WHERE tenant = ? ORDER BY name
"""  # noqa: S608 (our names)
_THESE = ManyQuery(
    f"""
    SELECT id, tenant, {", ".join(_STATE)}, definition
    FROM {{given}} {{each challenges c: c.id = given.key}}
    """,  # noqa: S608 (our names)
    (("key", "bigint"),),
)
_ACTIVE = """
    SELECT id FROM (
        SELECT id, frozen_at IS NOT NULL AS still,
            (SELECT max(seq) FROM contest_audit WHERE challenge_id = challenges.id) AS last
        FROM challenges WHERE tenant = ? AND visibility IN (?, ?)
    ) AS found ORDER BY still, last DESC LIMIT ?
"""
_NEWEST = f"""
    SELECT id, tenant, {", ".join(_STATE)}, definition,
        (SELECT max(seq) FROM contest_audit WHERE challenge_id = challenges.id),
        (SELECT seq FROM contest_audit WHERE challenge_id = 0 AND tenant = ?
            ORDER BY seq DESC LIMIT 1)
    FROM challenges WHERE tenant = ? AND name = ?
"""  # noqa: S608  our own names
_STORED = f"SELECT id, tenant, {', '.join(_STATE)}, definition FROM challenges WHERE "  # noqa: S608


@dataclass(frozen=True, slots=True)
class StoredChallenge:
    """A challenge's row: its current definition, and the state of its board."""

    id: int
    tenant: str
    revision: int
    frozen_at: float | None
    """When the public board was copied."""
    closed_at: float | None
    held_at: float | None
    """Time at which an organiser froze the board; publishing does not change that."""
    unfrozen_at: float | None
    """Time at which an organiser unfroze it; freezes planned for earlier times are dropped."""
    challenge: Challenge

    @property
    def live_board(self) -> Board:
        return Board(self.tenant, self.id, frozen=False)

    @property
    def frozen_board(self) -> Board:
        """The copy that the public sees while the board is frozen."""
        return Board(self.tenant, self.id, frozen=True)

    def get_board(self, *, as_frozen: bool) -> Board:
        return self.frozen_board if as_frozen and self.frozen_at is not None else self.live_board

    @property
    def freezes_at(self) -> float | None:
        """Time from which the public board is frozen, by hand or as planned."""
        planned = self.challenge.freezes_at
        if self.held_at is not None:
            return self.held_at
        if planned is None or (self.unfrozen_at is not None and planned <= self.unfrozen_at):
            return None
        return planned

    def describe_state(self, at: float) -> dict[str, float]:
        """Times since which the challenge is closed or its board frozen."""
        times = (self.closed_at, self.challenge.closes_at)
        closed = [each for each in times if each is not None and each <= at]
        frozen = self.freezes_at if self.is_frozen(at) else None
        state = {"closed": min(closed, default=None), "frozen": frozen}
        return {word: since for word, since in state.items() if since is not None}

    def is_frozen(self, at: float) -> bool:
        return self.freezes_at is not None and at >= self.freezes_at


def find_challenge(
    connection: Connection, tenant: str, name: str, *, lock: bool = False
) -> StoredChallenge:
    """Find a challenge by name; `lock` locks it and its board until the transaction ends."""
    where = "tenant = ? AND name = ?"
    for kept in _read(QuickStatements(connection), where, tenant, make_storable(name), lock=lock):
        return kept
    raise explain_unknown_challenge(connection, tenant, name)


def explain_unknown_challenge(connection: Connection, tenant: str, name: str) -> NotFound:
    known = list(connection.scalars(select(table.c.name).where(table.c.tenant == tenant)))
    if not known:
        return NotFound("there are no challenges yet", hint="publish one first")
    close = suggest(name, known)
    hint = f"did you mean {close!r}?" if close else f"there is {list_some(sorted(known))}"
    return NotFound(f"there is no challenge {name!r}", hint=hint)


def find_challenge_by_id(
    connection: Connection, challenge_id: int, *, lock: bool = False
) -> StoredChallenge:
    """Find a challenge that another row refers to."""
    for kept in _read(QuickStatements(connection), "id = ?", challenge_id, lock=lock):
        return kept
    raise LookupError(challenge_id)


def read_challenges(statements: QuickStatements, keys: Collection[int]) -> list[StoredChallenge]:
    rows = statements.read_many(_THESE, [(key,) for key in keys])
    return list(map(_make_challenge, rows))


def _make_challenge(row: Sequence[Any]) -> StoredChallenge:
    values: Any = (*row[:-1], _decode(row[-1]))
    return StoredChallenge(*values)


def list_challenges(connection: Connection, tenant: str) -> list[StoredChallenge]:
    """All challenges of a tenant, by name."""
    return _read(QuickStatements(connection), "tenant = ? ORDER BY name", tenant)


def read_frozen_at(connection: Connection, challenge_id: int) -> float | None:
    """Time at which the public board was copied; None while the public sees the live one."""
    found: float | None = connection.scalar(
        select(table.c.frozen_at).where(table.c.id == challenge_id)
    )
    return found


def lock_challenge(connection: Connection, known: StoredChallenge) -> StoredChallenge:
    """Lock a challenge whose row was read before, and its board.

    The known definition is current unless the revision differs.
    """
    query = select(*(table.c[name] for name in _STATE)).where(table.c.id == known.id)
    row = connection.execute(lock_rows(query)).one()
    return replace(known, **dict(zip(_STATE, row, strict=True)))


def lock_challenge_row(statements: QuickStatements, key: int) -> StoredChallenge | None:
    """Lock a challenge by its key until the transaction ends; None if it was deleted."""
    return next(iter(_read(statements, "id = ?", key, lock=True)), None)


def _read(
    statements: QuickStatements, where: str, *values: object, lock: bool = False
) -> list[StoredChallenge]:
    locking = " FOR NO KEY UPDATE" if lock and statements.is_postgres else ""
    rows = statements.read(f"{_STORED}{where}{locking}", *values)
    found: list[Any] = [(*row[:-1], _decode(row[-1])) for row in rows]
    return [StoredChallenge(*each) for each in found]


def find_version_id(connection: Connection, kept: StoredChallenge, version: str) -> int:
    """Key of a version; one that was never published is refused."""
    query = select(versions.c.id).where(_is_version(kept, version))
    found: int | None = connection.scalar(query)
    if found is None:
        raise _explain_unknown_version(kept, version)
    return found


def publish_version(  # noqa: PLR0913, PLR0917 (what is published, and what is known of it)
    connection: Connection,
    tenant: str,
    challenge: Challenge,
    packed: bytes,
    at: float,
    based_on: str | None = None,
    note: dict[str, Any] | None = None,
) -> None:
    """Make a version current, in a transaction with its consequences."""
    definition = json_text(challenge)
    facts = {"version": challenge.version, "published_at": at, "definition": definition}
    shown = {"visibility": challenge.visibility, "one_per": challenge.one_per}
    row = {"tenant": tenant, "name": challenge.name, "revision": 1, **facts, **shown}
    # Inserted first: of two that publish a new name, the second waits here, then finds the first's.
    new = insert_once(connection, table, row)
    kept = find_challenge(connection, tenant, challenge.name, lock=True)
    if based_on is not None:
        _refuse_overtaken(challenge.name, None if new else kept.challenge.version, based_on)
    if not new:
        if kept.challenge.version == challenge.version:
            return
        change = facts | shown | {"revision": kept.revision + 1}
        connection.execute(update(table).where(table.c.id == kept.id).values(change))
        _move_board(connection, kept, challenge, at)
    if connection.scalar(select(versions.c.id).where(_is_version(kept, challenge.version))) is None:
        row = {"tenant": tenant, "challenge_id": kept.id, "packed": packed, **facts}
        connection.execute(insert(versions).values(row))
    before = None if new else kept.challenge.version
    entry = AuditEntry(
        at=at,
        actor=audit_log.name_actor(),
        event="published",
        before=before,
        after=challenge.version,
        note=note,
    )
    audit_log.write_entry(connection, tenant, kept.id, None, entry)


def _refuse_overtaken(name: str, counts: str | None, based_on: str) -> None:
    """Refuse a change based on a version that is no longer current: it would undo later changes."""
    if not based_on and counts is not None:
        raise Conflict(
            f"there is a challenge {name!r} already", hint="choose another name, or edit that one"
        )
    if counts is None and based_on:
        raise Conflict(
            f"there is no challenge {name!r}",
            hint="to use another name, create a new challenge",
        )
    if counts != (based_on or None):
        raise Conflict(
            f"{name!r} has been published since you began",
            hint="look at the new version, and apply your change to it",
        )


def _close(_: Connection, kept: StoredChallenge, at: float) -> _Columns:
    return {"closed_at": at} if kept.closed_at is None else {}


def _reopen(_: Connection, kept: StoredChallenge, at: float) -> _Columns:
    planned = kept.challenge.closes_at
    if planned is not None and planned <= at:
        raise Conflict(
            f"challenge {kept.challenge.name!r} closed at the time set in its challenge.yaml",
            hint="publish it with a later closes",
        )
    return {"closed_at": None} if kept.closed_at is not None else {}


def _freeze(connection: Connection, kept: StoredChallenge, at: float) -> _Columns:
    if kept.held_at is not None:
        return {}
    if kept.frozen_at is None:
        board_rows.copy_for_public(connection, kept)
    frozen_at = at if kept.frozen_at is None else kept.frozen_at
    return {"frozen_at": frozen_at, "held_at": frozen_at}


def _unfreeze(connection: Connection, kept: StoredChallenge, at: float) -> _Columns:
    if not kept.is_frozen(at):
        return {}
    board_rows.remove_copy(connection, kept)
    return {"frozen_at": None, "held_at": None, "unfrozen_at": at}


class Challenges(TenantRows):
    def publish(
        self,
        challenge: Challenge,
        packed: bytes,
        *,
        at: float,
        based_on: str | None = None,
        note: dict[str, Any] | None = None,
    ) -> None:
        """Make a version current, and store it permanently.

        Publishing the current version changes nothing. A new freeze in the future, or none, lets
        the public see the live board again. `based_on` is the version that was current when the
        change was begun, empty for a new name: Conflict if another is current by now.
        """
        if not challenge.name or make_storable(challenge.name) != challenge.name:
            raise InvalidInput(f"a challenge cannot be called {challenge.name!r}")
        self._database.write(
            lambda c: publish_version(c, self._tenant, challenge, packed, at, based_on, note)
        )

    def get(self, name: str) -> Challenge:
        """The current definition."""
        return self.find(name).challenge

    def find(self, name: str) -> StoredChallenge:
        """The current definition with its revision: see `Attempts.finish`."""
        return self.find_newest(name)[0]

    def find_newest(self, name: str) -> tuple[StoredChallenge, int, int]:
        """The challenge with the last log entries: its own, and that of its tenant's agents and
        keys.

        While these stay the same, so does everything its board shows.
        """
        name = make_storable(name)
        with self._database.snapshot() as snapshot:
            key = ("newest", self._tenant, name)
            return snapshot.recall(key, lambda: self._read_newest(snapshot, name))

    def _read_newest(self, snapshot: ReadSnapshot, name: str) -> tuple[StoredChallenge, int, int]:
        found = snapshot.read(_NEWEST, self._tenant, self._tenant, name)
        if not found:
            raise explain_unknown_challenge(snapshot.connection, self._tenant, name)
        *facts, definition, seq, tenant_seq = found[0]
        told: Any = (*facts, _decode(definition))
        return StoredChallenge(*told), seq or 0, tenant_seq or 0

    def all(self) -> list[StoredChallenge]:
        """Every challenge, by name."""
        with self._database.statement() as statements:
            rows = statements.read(_ALL, self._tenant)
        return list(map(_make_challenge, rows))

    def active(self, limit: int, *, visibility: Visibility | None = None) -> list[StoredChallenge]:
        """The challenges with the newest log entries, of one visibility or of any.

        Frozen boards come last: the order must not show when they were played on.
        """
        shown = (visibility, visibility) if visibility else get_args(Visibility)
        with self._database.statement() as statements:
            rows = statements.read(_ACTIVE, self._tenant, *shown, limit)
            return read_challenges(statements, [key for (key,) in rows])

    def is_public(self, name: str) -> bool:
        """Return whether a challenge exists and is public."""
        query = select(table.c.visibility).where(_is_called(self._tenant, name))
        with self._database.read() as connection:
            return connection.scalar(query) == "public"

    def public_names(self) -> list[str]:
        """Name of public challenges."""
        shown = (table.c.tenant == self._tenant, table.c.visibility == "public")
        with self._database.read() as connection:
            return list(connection.scalars(select(table.c.name).where(*shown).order_by("name")))

    def frozen(self, at: float) -> list[str]:
        """Name of challenges whose public board is frozen."""
        return [each.challenge.name for each in self.all() if each.is_frozen(at)]

    def get_version(self, name: str, version: str) -> Challenge:
        """The definition of a version."""
        return _decode(self._read_version(name, version, "definition"))

    def packed(self, name: str, version: str) -> bytes:
        return bytes(self._read_version(name, version, "packed"))

    def close(self, name: str, *, at: float, reason: str) -> None:
        """Close a challenge: open attempts may still be submitted in their time."""
        self._act("closed", name, at, reason, _close)

    def reopen(self, name: str, *, at: float, reason: str) -> None:
        self._act("reopened", name, at, reason, _reopen)

    def freeze(self, name: str, *, at: float, reason: str) -> None:
        """Freeze the public board until it is unfrozen."""
        self._act("frozen", name, at, reason, _freeze)

    def unfreeze(self, name: str, *, at: float, reason: str) -> None:
        """Unfreeze the public board; a freeze planned for an earlier time is dropped."""
        self._act("unfrozen", name, at, reason, _unfreeze)

    def delete(self, name: str, *, at: float, reason: str) -> None:
        """Delete a challenge without attempts. Its log entries stay.

        A challenge with attempts stays: ratings and the log are derived from them.
        """
        entry = audit_log.make_act("challenge deleted", reason, at, challenge=name)

        def work(connection: Connection) -> None:
            from tallymark.store.all_tables import metadata  # noqa: PLC0415 (few commands do)

            kept = find_challenge(connection, self._tenant, name, lock=True)
            for tried in (metadata.tables["attempts"], metadata.tables["versus_submissions"]):
                if connection.scalar(select(exists().where(tried.c.challenge_id == kept.id))):
                    raise Conflict(
                        f"challenge {name!r} has attempts, from which ratings are derived",
                        hint=f"close it: tally challenge close {name} --reason TEXT; with"
                        " visibility: private in its challenge.yaml, the public does not see it",
                    )
            _refuse_in_track(connection, self._tenant, name)
            for each in metadata.tables.values():
                if "challenge_id" in each.c and each.name != "contest_audit":
                    connection.execute(delete(each).where(each.c.challenge_id == kept.id))
            connection.execute(delete(table).where(table.c.id == kept.id))
            audit_log.write_agent_entry(connection, self._tenant, entry)

        self._database.write(work)

    def rename(self, name: str, new: str, *, at: float, reason: str) -> None:
        """Rename a challenge, which changes its address; the old name becomes free."""
        if not new or new != make_slug(new):
            raise InvalidInput(
                f"a challenge cannot be called {new!r}",
                hint=f"a name has 1 to {MAX_NAME} lower case letters, digits and hyphens",
            )
        entry = audit_log.make_act("challenge renamed", reason, at, before=name, after=new)

        def work(connection: Connection) -> None:
            kept = find_challenge(connection, self._tenant, name, lock=True)
            _refuse_in_track(connection, self._tenant, name)
            if connection.scalar(select(exists().where(_is_called(self._tenant, new)))):
                raise Conflict(f"there is a challenge {new!r} already", hint="choose another name")
            for each in (table, versions):
                mine = each.c.id if each is table else each.c.challenge_id
                for key, text in connection.execute(
                    select(each.c.id, each.c.definition).where(mine == kept.id)
                ).all():
                    named = json_text(msgspec.structs.replace(_decode(text), name=new))
                    changed = update(each).where(each.c.id == key).values(definition=named)
                    connection.execute(changed)
            # A new revision, so that nothing goes on with the old definition.
            facts = {"name": new, "revision": kept.revision + 1}
            connection.execute(update(table).where(table.c.id == kept.id).values(facts))
            audit_log.write_entry(connection, self._tenant, kept.id, None, entry)

        self._database.write(work)

    def _act(self, event: str, name: str, at: float, reason: str, change: _Change) -> None:
        """Apply an organiser's act; repeating it changes nothing."""
        entry = audit_log.make_act(event, reason, at)

        def work(connection: Connection) -> None:
            kept = find_challenge(connection, self._tenant, name, lock=True)
            columns = change(connection, kept, at)
            if columns:
                connection.execute(update(table).where(table.c.id == kept.id).values(columns))
                audit_log.write_entry(connection, self._tenant, kept.id, None, entry)

        self._database.write(work)

    def audit(self, name: str) -> list[AuditEntry]:
        """Log entries of the challenge as a whole, oldest first."""
        with self._database.read() as connection:
            kept = find_challenge(connection, self._tenant, name)
            return audit_log.read_entries(connection, self._tenant, kept.id, None)

    def note(self, name: str, event: str, note: dict[str, Any], *, at: float) -> None:
        """Log an event of the challenge as a whole for its organiser."""
        entry = AuditEntry(at=at, actor=SYSTEM, event=event, note=note)

        def work(connection: Connection) -> None:
            kept = find_challenge(connection, self._tenant, name, lock=True)
            audit_log.write_entry(connection, self._tenant, kept.id, None, entry)

        self._database.write(work)

    def _read_version(self, name: str, version: str, column: str) -> Any:
        mine = (table.c.tenant == self._tenant, table.c.name == name, versions.c.version == version)
        query = select(versions.c[column]).join(table, table.c.id == versions.c.challenge_id)
        with self._database.read() as connection:
            found = connection.scalar(query.where(*mine))
            if found is None:
                kept = find_challenge(connection, self._tenant, name)
                raise _explain_unknown_version(kept, version)
            return found


def _refuse_in_track(connection: Connection, tenant: str, name: str) -> None:
    """Refuse a challenge that a track names."""
    found = connection.scalars(select(tracks.c.definition).where(tracks.c.tenant == tenant))
    for track in map(msgspec.json.decode, found):
        if name in track["challenges"]:
            raise Conflict(
                f"challenge {name!r} is part of the track {track['name']!r}",
                hint="publish the track without it, or remove the track",
            )


def _is_called(tenant: str, name: str) -> ColumnElement[bool]:
    return (table.c.tenant == tenant) & (table.c.name == name)


def _explain_unknown_version(kept: StoredChallenge, version: str) -> InvalidInput:
    return NotFound(f"challenge {kept.challenge.name!r} has no version {version!r}")


def _is_version(kept: StoredChallenge, version: str) -> ColumnElement[bool]:
    return (versions.c.challenge_id == kept.id) & (versions.c.version == version)


def _move_board(
    connection: Connection, old: StoredChallenge, challenge: Challenge, at: float
) -> None:
    """Adapt the board to a new version: another order, or a freeze moved to the future."""
    if old.held_at is None and (challenge.freezes_at is None or challenge.freezes_at > at):
        board_rows.unfreeze(connection, old, at)
    else:
        board_rows.freeze_if_due(connection, old, at)
    if challenge.scoring.strategy != old.challenge.scoring.strategy:
        board_rows.rebuild(connection, find_challenge_by_id(connection, old.id))

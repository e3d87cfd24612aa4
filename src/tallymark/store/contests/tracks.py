"""Tracks: several challenges as one contest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import delete, select

from tallymark.challenges.tracks import Track
from tallymark.errors import NotFound, suggest
from tallymark.store.contests import audit_log
from tallymark.store.contests.audit_log import ORGANISER, AuditEntry
from tallymark.store.contests.tables import tracks
from tallymark.store.database import TenantRows
from tallymark.store.dialects import dialect_insert, json_text

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection


_decode = msgspec.json.Decoder(Track).decode


class Tracks(TenantRows):
    def put(self, track: Track, *, at: float) -> None:
        """Store a track, replacing one of the same name."""
        row = {"tenant": self._tenant, "name": track.name, "at": at}
        row["definition"] = json_text(track)
        note = {"track": track.name, "challenges": list(track.challenges)}
        entry = AuditEntry(at=at, actor=ORGANISER, event="track published", note=note)

        def work(connection: Connection) -> None:
            statement = dialect_insert(connection, tracks).values(row)
            changes = {name: statement.excluded[name] for name in ("at", "definition")}
            keys = ["tenant", "name"]
            connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changes))
            audit_log.write_agent_entry(connection, self._tenant, entry)

        self._database.write(work)

    def remove(self, name: str, *, at: float) -> Track:
        """Delete a track; its challenges and their boards stay."""
        track = self.get(name)
        note = {"track": name, "challenges": list(track.challenges)}
        entry = AuditEntry(at=at, actor=ORGANISER, event="track removed", note=note)

        def work(connection: Connection) -> None:
            if connection.execute(delete(tracks).where(*self._named(name))).rowcount:
                audit_log.write_agent_entry(connection, self._tenant, entry)

        self._database.write(work)
        return track

    def get(self, name: str) -> Track:
        with self._database.read() as connection:
            found = connection.scalar(select(tracks.c.definition).where(*self._named(name)))
        if found is None:
            near = suggest(name, [each.name for each in self.all()])
            hint = f"did you mean {near!r}?" if near else "publish it first"
            raise NotFound(f"there is no track {name!r}", hint=hint)
        return _decode(found)

    def all(self) -> list[Track]:
        """Every track, by name."""
        query = select(tracks.c.definition).where(tracks.c.tenant == self._tenant)
        with self._database.read() as connection:
            return [_decode(each) for each in connection.scalars(query.order_by(tracks.c.name))]

    def _named(self, name: str) -> tuple[ColumnElement[bool], ...]:
        return (tracks.c.tenant == self._tenant, tracks.c.name == name)

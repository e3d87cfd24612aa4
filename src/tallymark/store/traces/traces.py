"""The traces of a tenant: kept, settled, read."""

from __future__ import annotations

from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from tallymark.errors import NotFound
from tallymark.store.database import TenantRows
from tallymark.store.quick_statements import ManyQuery, QuickStatements
from tallymark.store.traces import settling
from tallymark.store.traces.segments import Segment, merge_segments, read_segment
from tallymark.store.traces.trace_items import KeepTraces, KeptTraces
from tallymark.store.traces.trace_rows import LISTED, TraceRecord, read_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tallymark.traces.trace import Trace

SELECT_LISTED = f"SELECT {', '.join(LISTED)} FROM traces"  # noqa: S608  our names
_BODIES = ManyQuery(
    "SELECT s.trace, given.version, s.number, s.version, s.format, s.body"
    " FROM {given} JOIN trace_segments s ON s.trace = given.trace"
    " WHERE s.tenant = ? AND (given.version = 0 OR s.version BETWEEN 1 AND given.version)"
    " ORDER BY s.trace, given.version, s.number",
    (("trace", "bigint"), ("version", "bigint")),
)
_AT_ONCE = 200


class Traces(TenantRows):
    """What `store.traces` is."""

    def keep(self, item: KeepTraces) -> KeptTraces:
        """Stores what one request brings; it is there when this returns."""
        asked: Any = item
        kept: Any = self._database.do(asked)
        return kept  # type: ignore[no-any-return]

    async def akeep(self, item: KeepTraces) -> KeptTraces:
        """The same, while the event loop does other things."""
        asked: Any = item
        kept: Any = await self._database.ado(asked)
        return kept  # type: ignore[no-any-return]

    def settle(self, now: float, limit: int = 1000) -> int:
        """Settles what was quiet by now, of all tenants; how many were due."""
        return settling.settle_due(self._database, now, limit)

    def get(self, trace_id: str) -> TraceRecord:
        """All but the spans of a trace."""
        query = f"{SELECT_LISTED} WHERE tenant = ? AND trace_id = ?"
        with self._database.read() as connection:
            found = QuickStatements(connection).read(query, self._tenant, trace_id)
        if not found:
            raise NotFound(f"there is no trace {trace_id!r}", hint="list them: tally traces list")
        return read_record(found[0])

    def load(self, trace_id: str, version: int | None = None) -> Trace:
        """A trace with its spans: as it is now, or as it was in one of its versions."""
        record = self.get(trace_id)
        if version is not None and not 1 <= version <= record.version:
            known = f"it has {record.version}" if record.version else "it is not settled yet"
            raise NotFound(f"the trace {trace_id!r} has no version {version}", hint=known)
        return next(iter(self.load_many([(record.key, version or 0)])))[2]

    def load_many(self, wanted: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int, Trace]]:
        """Traces by their keys and versions (0 is as they are now), a few in memory at a time.

        They come by key within each few; one that is gone is left out.
        """
        left = iter(wanted)
        while some := list(islice(left, _AT_ONCE)):
            with self._database.read() as connection:
                rows = QuickStatements(connection).read_many(_BODIES, some, self._tenant)
            for (key, version), parts in groupby(rows, key=lambda row: (row[0], row[1])):
                segments = [Segment(*row[2:]) for row in parts]
                whole = len(segments) == 1
                merged = read_segment(segments[0]) if whole else merge_segments(segments)
                yield key, version, merged.assemble()

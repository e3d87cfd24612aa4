"""The traces of a tenant: stored, finalised, read."""

from __future__ import annotations

from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from tallymark.errors import NotFound
from tallymark.store import retention
from tallymark.store.database import TenantRows
from tallymark.store.quick_statements import ManyQuery, QuickStatements
from tallymark.store.traces import finalise, trace_lists
from tallymark.store.traces.rules import find_replaced
from tallymark.store.traces.segments import Segment, merge_segments, read_segment
from tallymark.store.traces.trace_batch import KeepTraces, KeptTraces
from tallymark.store.traces.trace_filters import write_counted, write_origin
from tallymark.store.traces.trace_rows import LISTED, TraceRecord, read_record
from tallymark.store.traces.trace_scores import StoredScore, read_scores, write_scores
from tallymark.store.traces.trace_sums import TraceSums
from tallymark.traces.trace_query import PEOPLE, SCORE, SCORES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tallymark.store.retention_policy import TraceSettings
    from tallymark.store.traces.trace_lists import RecordPage, ScoredTrace, TracePlace
    from tallymark.traces.trace import Trace
    from tallymark.traces.trace_query import TraceQuery


SELECT_LISTED = f"SELECT {', '.join(LISTED)} FROM traces"  # noqa: S608  our names
_BODIES = ManyQuery(
    "SELECT s.trace, given.version, s.number, s.version, s.format, s.body"
    " FROM {given} {each trace_segments s: s.trace = given.trace}"
    " WHERE s.tenant = ? AND (given.version = 0 OR s.version BETWEEN 1 AND given.version)"
    " ORDER BY s.trace, given.version, s.number",
    (("trace", "bigint"), ("version", "bigint")),
)
_NAMED = ManyQuery(
    "SELECT t.trace_id, t.key, t.version FROM {given} JOIN traces t"
    " ON t.tenant = given.tenant AND t.trace_id = given.trace_id",
    (("tenant", "text"), ("trace_id", "text")),
)
_AT_ONCE = 200


class Traces(TenantRows):
    def keep(self, item: KeepTraces) -> KeptTraces:
        """Store the spans of one request; they are readable when this returns."""
        asked: Any = item
        kept: Any = self._database.do(asked)
        return kept  # type: ignore[no-any-return]

    async def akeep(self, item: KeepTraces) -> KeptTraces:
        """Store the spans of one request without blocking the event loop."""
        asked: Any = item
        kept: Any = await self._database.ado(asked)
        return kept  # type: ignore[no-any-return]

    def finalise(self, now: float, limit: int = 1000) -> int:
        """Finalise traces of all tenants that were quiet long enough; return their number."""
        return finalise.finalise_due(self._database, now, limit)

    def get(self, trace_id: str) -> TraceRecord:
        """A trace without its spans."""
        query = f"{SELECT_LISTED} WHERE tenant = ? AND trace_id = ?"
        with self._database.read() as connection:
            found = QuickStatements(connection).read(query, self._tenant, trace_id)
        if not found:
            raise NotFound(f"there is no trace {trace_id!r}", hint="list them: tally traces list")
        return read_record(found[0])

    def page(
        self, query: TraceQuery, *, after: TracePlace | None = None, limit: int = 50
    ) -> RecordPage:
        """The newest traces that match, after a place.

        Spans are read only for terms without a column.
        """
        return trace_lists.list_page(self._database, self._tenant, query, after, limit)

    def worst(
        self, score: str, query: TraceQuery, *, limit: int = 100, best: bool = False
    ) -> list[ScoredTrace]:
        """The traces with the lowest scores of a name, or the highest."""
        return trace_lists.list_worst(
            self._database, self._tenant, query, score, limit=limit, best=best
        )

    def choose(self, query: TraceQuery, keys: Sequence[int]) -> set[int]:
        """Select the traces with these keys that match a query."""
        return trace_lists.choose_keys(self._database, self._tenant, query, keys)

    def sums(self, query: TraceQuery, newest: int | None = None) -> TraceSums:
        """Sums over the traces that match a query, or over the newest of them."""
        return TraceSums(self._database, self._tenant, query, newest)

    def scores(
        self, keys: Sequence[int], *, all_of_them: bool = False
    ) -> dict[int, list[StoredScore]]:
        """Scores of traces, by their keys: the current ones, or all of them."""
        return read_scores(self._database, self._tenant, keys, all_of_them=all_of_them)

    def put_scores(self, scores: Sequence[StoredScore], *, correct: bool = False) -> int:
        """Write scores; return how many were new. `correct` replaces existing ones."""
        return self._database.write(
            lambda connection: write_scores(
                QuickStatements(connection), self._tenant, scores, correct=correct
            )
        )

    def score_names(self) -> list[str]:
        """Names of all scores as filters write them: rules' first, then people's."""
        with self._database.read() as connection:
            return _list_score_names(QuickStatements(connection), self._tenant)

    def label_values(self, kind: str, *, limit: int = 200) -> list[str]:
        """Sorted values of a kind of label, as choices for a filter."""
        query = (
            f"SELECT value FROM labels WHERE tenant = ? AND kind = ? ORDER BY value LIMIT {limit}"  # noqa: S608
        )
        with self._database.read() as connection:
            rows = QuickStatements(connection).read(query, self._tenant, kind)
        return [row[0] for row in rows]

    def remove(self, keys: Sequence[int]) -> int:
        """Remove traces with their spans, scores and decisions; return their number."""
        return retention.remove_traces(self._database, self._tenant, keys)

    def remove_outdated(self, settings: TraceSettings, now: float, limit: int = 10_000) -> int:
        """Remove traces beyond the age or total size of the settings; return their number."""
        return retention.remove_outdated(self._database, self._tenant, settings, now, limit)

    def load(self, trace_id: str, version: int | None = None) -> Trace:
        """A trace with its spans: as it is now, or one of its versions."""
        record = self.get(trace_id)
        if version is not None and not 1 <= version <= record.version:
            known = f"it has {record.version}" if record.version else "it is not settled yet"
            raise NotFound(f"the trace {trace_id!r} has no version {version}", hint=known)
        return next(iter(self.load_many([(record.key, version or 0)])))[2]

    def find_versions(self, ids: Iterable[str]) -> dict[str, int]:
        """Versions of those of these traces that exist; 0 is not finalised yet."""
        return {name: version for name, _, version in self._find_named(ids)}

    def find_whole(self, ids: Iterable[str]) -> dict[str, tuple[int, Trace]]:
        """Versions and content of those of these traces that exist."""
        named = {key: (name, version) for name, key, version in self._find_named(ids)}
        loaded = self.load_many((key, 0) for key in named)
        return {named[key][0]: (named[key][1], trace) for key, _, trace in loaded}

    def _find_named(self, ids: Iterable[str]) -> list[tuple[str, int, int]]:
        wanted = sorted({(self._tenant, each) for each in ids})
        with self._database.read() as connection:
            rows = QuickStatements(connection).read_many(_NAMED, wanted)
        return [(name, key, version) for name, key, version in rows]

    def load_many(self, wanted: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int, Trace]]:
        """Load traces by key and version (0 is the current state), a few in memory at a time.

        They come by key within each few; deleted ones are left out.
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


def _list_score_names(statements: QuickStatements, tenant: str) -> list[str]:
    """Walk an index from name to name, however many scores each has.

    Scores of an archived rule whose name another rule has do not count, and are left out.
    """
    found: list[str] = []
    replaced = {*find_replaced(statements, tenant).values()}
    for prefix in SCORES:
        name, origin = "", write_origin(prefix)
        # SQLite might go through all scores of rules to find one of a person.
        index = "people" if prefix == PEOPLE else "value"
        by = "" if statements.is_postgres else f" INDEXED BY ix_trace_scores_{index}"
        while rows := statements.read(
            f"SELECT name FROM trace_scores{by} WHERE tenant = ? AND is_current AND {origin}"  # noqa: S608
            " AND name > ? ORDER BY name LIMIT 1",
            *(tenant, name),
        ):
            name = rows[0][0]
            doubtful = prefix == SCORE and name.partition(".")[0] in replaced
            if not doubtful or _has_score(statements, tenant, f"{prefix}{name}"):
                found.append(f"{prefix}{name}")
    return found


def _has_score(statements: QuickStatements, tenant: str, field: str) -> bool:
    """Return whether a score counts for some trace; the newest are the likeliest."""
    counted = write_counted(statements, tenant, field)
    query = f"SELECT 1 FROM trace_scores WHERE {counted.text} ORDER BY started_at DESC LIMIT 1"  # noqa: S608  our words
    return bool(statements.read(query, *counted.values))

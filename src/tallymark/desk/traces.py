"""What commands ask about production traces."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from tallymark.desk.answers import read_told
from tallymark.service.trace_questions import TraceComparison
from tallymark.service.whole_traces import LoadedTraces
from tallymark.store.traces.trace_rows import TraceRecord
from tallymark.store.traces.trace_scores import TraceScore
from tallymark.store.traces.trace_settings import TraceSettings
from tallymark.store.traces.trace_sums import TraceSum
from tallymark.traces.trace import Trace

if TYPE_CHECKING:
    from tallymark.client import Client
    from tallymark.service.app import App
    from tallymark.service.trace_questions import TraceQuestions
    from tallymark.wire.traces import TraceItem


class ScoredTrace(NamedTuple):
    """A trace, and the scores that count."""

    record: TraceRecord
    scores: list[TraceScore]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return self.record.to_dict() | {"scores": [each.to_dict() for each in self.scores]}


class TraceList(NamedTuple):
    """Some traces; whether there are more, and how many were looked at one by one."""

    items: list[ScoredTrace]
    more: bool
    scanned: int | None


class SessionFacts(NamedTuple):
    """A session as a whole."""

    sums: TraceSum
    scores: dict[str, TraceSum]
    traces: list[ScoredTrace]
    more: bool


class SuiteText(NamedTuple):
    """A suite as YAML, how many cases it has, and which traces made none."""

    text: str
    cases: int
    unchecked: int
    left_out: list[tuple[str, str]]


class OwnScore(NamedTuple):
    """What somebody thinks of a trace."""

    name: str
    value: float
    reason: str | None = None
    expected: str | None = None


class TraceDesk(Protocol):
    """Production traces."""

    def list(self, filter_: str, limit: int) -> TraceList:
        """The newest that fit."""

    def show(self, trace: str, version: int | None) -> tuple[ScoredTrace, Trace]:
        """One with its spans."""

    def sums(
        self, filter_: str, *, by: str | None, every: str | None, measure: str | None
    ) -> tuple[TraceSum, Sequence[TraceSum]]:
        """All that fit, and by what was asked for."""

    def compare(self, first: str, second: str, measure: str) -> TraceComparison:
        """The second less the first."""

    def worst(
        self, score: str, filter_: str, *, limit: int, best: bool
    ) -> Sequence[tuple[float, ScoredTrace]]:
        """The lowest scores, or the highest."""

    def session(self, name: str) -> SessionFacts:
        """One session."""

    def score(self, trace: str, given: OwnScore) -> TraceScore:
        """Gives a score of one's own."""

    def make_suite(
        self,
        filter_: str,
        *,
        traces: Sequence[str] | None,
        name: str,
        scorers: Sequence[str],
        limit: int,
    ) -> SuiteText:
        """What they were asked, as a suite."""

    def settings(self, changes: Mapping[str, Any]) -> TraceSettings:
        """What is kept of traces, after these changes."""

    def load(self, traces: Iterable[Trace]) -> LoadedTraces:
        """Keeps whole traces."""


@dataclass(frozen=True)
class LocalTraces:
    """In a database."""

    app: App

    @property
    def _questions(self) -> TraceQuestions:
        from tallymark.service.trace_questions import TraceQuestions  # noqa: PLC0415 (as the rest)

        return TraceQuestions(self.app.store)

    def _score(self, records: Sequence[TraceRecord]) -> list[ScoredTrace]:
        scores = self._questions.find_scores(records)
        return [ScoredTrace(each, scores[each.key]) for each in records]

    def list(self, filter_: str, limit: int) -> TraceList:
        """The newest that fit, over as many pages as a question that scans needs."""
        page = self._questions.page(filter_, limit=limit)
        found, scanned = list(page.items), page.scanned
        while scanned is not None and page.next is not None and len(found) < limit:
            page = self._questions.page(filter_, after=page.next, limit=limit - len(found))
            found += page.items
            scanned += page.scanned or 0
        return TraceList(self._score(found), page.next is not None, scanned)

    def show(self, trace: str, version: int | None) -> tuple[ScoredTrace, Trace]:
        """One with its spans."""
        record, loaded, scores = self._questions.show(trace, version)
        return ScoredTrace(record, scores), loaded

    def sums(
        self, filter_: str, *, by: str | None, every: str | None, measure: str | None
    ) -> tuple[TraceSum, Sequence[TraceSum]]:
        """All that fit, and by what was asked for."""
        items: Sequence[TraceSum] = ()
        if by is not None:
            items = self._questions.sum_by(filter_, by, measure)
        elif every is not None:
            items = self._questions.sum_over_time(filter_, every, measure)
        return self._questions.sum_all(filter_, measure), items

    def compare(self, first: str, second: str, measure: str) -> TraceComparison:
        """The second less the first."""
        return self._questions.compare(first, second, measure)

    def worst(
        self, score: str, filter_: str, *, limit: int, best: bool
    ) -> Sequence[tuple[float, ScoredTrace]]:
        """The lowest scores, or the highest."""
        found = self._questions.worst(score, filter_, limit=limit, best=best)
        scored = self._score([each.trace for each in found])
        return [(each.value, trace) for each, trace in zip(found, scored, strict=True)]

    def session(self, name: str) -> SessionFacts:
        """One session."""
        found = self._questions.session(name)
        return SessionFacts(found.sums, found.scores, self._score(found.traces), found.more)

    def score(self, trace: str, given: OwnScore) -> TraceScore:
        """Gives a score in the name of who is logged in to this machine."""
        import getpass  # noqa: PLC0415 (here alone)

        said = {"reason": given.reason, "expected": given.expected}
        return self._questions.add_score(
            trace, given.name, given.value, author=getpass.getuser(), **said
        )

    def make_suite(
        self,
        filter_: str,
        *,
        traces: Sequence[str] | None,
        name: str,
        scorers: Sequence[str],
        limit: int,
    ) -> SuiteText:
        """What they were asked, as a suite."""
        from tallymark.suites.imports.imported_suite import write_yaml  # noqa: PLC0415 (suites)

        made = self._questions.make_suite(
            filter_=filter_, traces=traces, name=name, scorers=scorers, limit=limit
        )
        cases = len(made.document["evals"])
        return SuiteText(write_yaml(made.document), cases, made.unchecked, [*made.left_out])

    def settings(self, changes: Mapping[str, Any]) -> TraceSettings:
        """What is kept of traces, after these changes."""
        from tallymark.service.traces import change_settings  # noqa: PLC0415 (spans load slowly)

        store = self.app.store
        if not changes:
            return store.tenants.settings().traces
        store.prepare()
        return change_settings(store, changes, at=time.time())

    def load(self, traces: Iterable[Trace]) -> LoadedTraces:
        """Keeps whole traces, settled."""
        from tallymark.service.traces import TraceIntake  # noqa: PLC0415 (as above)

        return TraceIntake(self.app.store).load(traces)


@dataclass(frozen=True)
class RemoteTraces:
    """At a server."""

    client: Client

    def list(self, filter_: str, limit: int) -> TraceList:
        """The newest that fit, over as many pages as a question that scans needs."""
        page = self.client.traces.page(filter_, limit=limit)
        found, scanned = list(page.items), page.scanned
        while scanned is not None and page.next is not None and len(found) < limit:
            left = limit - len(found)
            page = self.client.traces.page(filter_, limit=left, cursor=page.next)
            found += page.items
            scanned += page.scanned or 0
        return TraceList([_read(each) for each in found], page.next is not None, scanned)

    def show(self, trace: str, version: int | None) -> tuple[ScoredTrace, Trace]:
        """One with its spans."""
        told = self.client.traces.get(trace, version=version)
        return _read(told), Trace.from_dict(told.trace)

    def sums(
        self, filter_: str, *, by: str | None, every: str | None, measure: str | None
    ) -> tuple[TraceSum, Sequence[TraceSum]]:
        """All that fit, and by what was asked for."""
        told = self.client.traces.sums(filter_, by=by, every=every, measure=measure)
        return read_told(told.whole, TraceSum), [read_told(each, TraceSum) for each in told.items]

    def compare(self, first: str, second: str, measure: str) -> TraceComparison:
        """The second less the first."""
        return read_told(self.client.traces.compare(first, second, measure), TraceComparison)

    def worst(
        self, score: str, filter_: str, *, limit: int, best: bool
    ) -> Sequence[tuple[float, ScoredTrace]]:
        """The lowest scores, or the highest."""
        told = self.client.traces.worst(score, filter_, limit=limit, best=best)
        return [(each.value, _read(each.trace)) for each in told.items]

    def session(self, name: str) -> SessionFacts:
        """One session."""
        told = self.client.traces.session(name)
        return SessionFacts(
            read_told(told.sums, TraceSum),
            {each: read_told(sums, TraceSum) for each, sums in told.scores.items()},
            [_read(each) for each in told.traces],
            told.more,
        )

    def score(self, trace: str, given: OwnScore) -> TraceScore:
        """Gives a score in the name of the key's owner."""
        told = self.client.traces.score(
            trace, given.name, given.value, reason=given.reason, expected=given.expected
        )
        return _read_score(told.model_dump(exclude_unset=True))

    def make_suite(
        self,
        filter_: str,
        *,
        traces: Sequence[str] | None,
        name: str,
        scorers: Sequence[str],
        limit: int,
    ) -> SuiteText:
        """What they were asked, as a suite."""
        told = self.client.traces.make_suite(
            filter_, traces=traces, name=name, scorers=scorers, limit=limit
        )
        left_out = [(each["trace"], each["reason"]) for each in told.left_out]
        return SuiteText(told.suite, told.cases, told.unchecked, left_out)

    def settings(self, changes: Mapping[str, Any]) -> TraceSettings:
        """What is kept of traces, after these changes."""
        traces = self.client.traces
        told = traces.change_settings(dict(changes)) if changes else traces.settings()
        return read_told(told, TraceSettings)

    def load(self, traces: Iterable[Trace]) -> LoadedTraces:
        """Sends whole traces."""
        told = self.client.traces.load(traces)
        return LoadedTraces(told.new, told.changed, told.known)


def _read(told: TraceItem) -> ScoredTrace:
    scores = [_read_score(each.model_dump(exclude_unset=True)) for each in told.scores]
    return ScoredTrace(read_told(told, TraceRecord, key=0, trace_id=told.id), scores)


def _read_score(told: dict[str, Any]) -> TraceScore:
    """Without the row that it belongs to, which is the server's."""
    author = told.get("author") or ""
    return msgspec.convert(told | {"trace": 0, "started_at": 0.0, "author": author}, TraceScore)

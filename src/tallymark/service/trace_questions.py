"""What is asked of production traces: lists, sums, comparisons, sessions, people's own scores."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tallymark.errors import InvalidInput, NotFound
from tallymark.runs.statistics import estimate_difference
from tallymark.store.traces.trace_scores import TraceScore
from tallymark.store.traces.trace_sums import check_measure, estimate_mean
from tallymark.text import format_number
from tallymark.traces.trace_query import PEOPLE, SCORE, Term, TraceQuery, parse_query

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tallymark.runs.statistics import ClusterMoments, MeanEstimate
    from tallymark.service.trace_suites import TracedSuite
    from tallymark.store import Store
    from tallymark.store.traces.trace_lists import ScoredTrace, TracePage, TracePlace
    from tallymark.store.traces.trace_rows import TraceRecord
    from tallymark.store.traces.trace_sums import TraceSum
    from tallymark.traces.trace import Trace

STEPS: dict[str, float] = {"minute": 60.0, "hour": 3600.0, "day": 86_400.0, "week": 604_800.0}
MOST_STEPS = 2_000
_LONGEST_NAME = 100
_MOST_IN_SESSION = 1_000


class ComparedSide(msgspec.Struct, frozen=True, kw_only=True):
    """One of two questions."""

    filter: str
    traces: int
    sessions: int
    """How many independent ones: the traces of a session belong together."""
    mean: float | None
    low: float | None
    high: float | None


class TraceComparison(msgspec.Struct, frozen=True, kw_only=True):
    """The second less the first, by one measure."""

    measure: str
    first: ComparedSide
    second: ComparedSide
    difference: float | None
    low: float | None
    """With `high`, the 95 % interval of the difference."""
    high: float | None
    verdict: str
    """In words: higher, lower, or that it cannot be told, and why."""


class TraceSession(NamedTuple):
    """A session as a whole."""

    name: str
    sums: TraceSum
    scores: dict[str, TraceSum]
    """By the name of the score."""
    traces: list[TraceRecord]
    """In the order in which they began."""
    more: bool
    """Whether there are more than these."""


class ShownTrace(NamedTuple):
    """A trace with its spans and its scores."""

    record: TraceRecord
    trace: Trace
    scores: list[TraceScore]


class TraceQuestions:
    """For every door, over one tenant's store."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    def read_filter(self, text: str) -> TraceQuery:
        """A filter as people write it."""
        return parse_query(text, now=self._clock())

    def page(
        self, filter_: str = "", *, after: TracePlace | None = None, limit: int = 50
    ) -> TracePage:
        """The newest traces that fit."""
        return self._store.traces.page(self.read_filter(filter_), after=after, limit=limit)

    def find_scores(self, records: Sequence[TraceRecord]) -> dict[int, list[TraceScore]]:
        """The scores that count, of some traces, by their keys."""
        return self._store.traces.scores([each.key for each in records])

    def show(self, trace_id: str, version: int | None = None) -> ShownTrace:
        """One trace with everything."""
        record = self._store.traces.get(trace_id)
        trace = self._store.traces.load(trace_id, version)
        scores = self._store.traces.scores([record.key], all_of_them=True)[record.key]
        return ShownTrace(record, trace, scores)

    def worst(
        self, score: str, filter_: str = "", *, limit: int = 100, best: bool = False
    ) -> list[ScoredTrace]:
        """The traces with the lowest scores, or the highest."""
        return self._store.traces.worst(score, self.read_filter(filter_), limit=limit, best=best)

    def sum_over_time(
        self, filter_: str, every: str | float, measure: str | None = None
    ) -> list[TraceSum]:
        """In steps of minutes, hours, days, weeks or so many seconds."""
        step = STEPS.get(every) if isinstance(every, str) else every
        if step is None or not 1 <= step <= 366 * 86_400:
            raise InvalidInput(
                f"{every!r} is no step of time", hint=f"write {', '.join(STEPS)} or seconds"
            )
        found = self._store.traces.sums(self.read_filter(filter_)).over_time(step, measure)
        return found[-MOST_STEPS:]

    def sum_by(self, filter_: str, group: str, measure: str | None = None) -> list[TraceSum]:
        """By model, tool, version and so on, the most frequent first."""
        return self._store.traces.sums(self.read_filter(filter_)).by(group, measure)

    def sum_all(self, filter_: str = "", measure: str | None = None) -> TraceSum:
        """All that fit."""
        return self._store.traces.sums(self.read_filter(filter_)).whole(measure)

    def compare(self, first: str, second: str, measure: str) -> TraceComparison:
        """Two filters by one measure: two versions, two periods, or any others."""
        check_measure(measure)
        one, two = (
            self._store.traces.sums(self.read_filter(each)).moments(measure)
            for each in (first, second)
        )
        sides = [estimate_mean(measure, each) for each in (one, two)]
        between = estimate_difference(*sides)
        return TraceComparison(
            measure=measure,
            first=_describe_side(first, one, sides[0]),
            second=_describe_side(second, two, sides[1]),
            difference=between.mean,
            low=between.low,
            high=between.high,
            verdict=_judge(one, two, between),
        )

    def session(self, name: str) -> TraceSession:
        """All traces of one session, and what they come to together."""
        query = TraceQuery(terms=(Term("session", "=", (name,)),))
        page = self._store.traces.page(query, limit=_MOST_IN_SESSION)
        if not page.items:
            raise NotFound(f"no trace is of the session {name!r}")
        sums = self._store.traces.sums(query)
        scores = {
            each.removeprefix(SCORE): found
            for each in self._store.traces.score_names()
            if (found := sums.whole(each)).measured
        }
        return TraceSession(name, sums.whole(), scores, page.items[::-1], page.next is not None)

    def add_score(  # noqa: PLR0913 (what a score has)
        self,
        trace_id: str,
        name: str,
        value: float | None,
        *,
        author: str,
        label: str | None = None,
        reason: str | None = None,
        expected: str | None = None,
    ) -> TraceScore:
        """A person's own score of a trace as it is now; giving another replaces it.

        `expected` is what the answer should have been: a suite made of the trace asks for it.
        """
        if not name or len(name) > _LONGEST_NAME or not name.isprintable() or name != name.strip():
            hint = f"1 to {_LONGEST_NAME} characters that can be seen"
            raise InvalidInput(f"a score cannot be called {name!r}", hint=hint)
        if value is not None and not 0.0 <= value <= 1.0:
            raise InvalidInput(
                f"{format_number(value)} is no score", hint="write a number from 0 to 1"
            )
        if value is None and label is None and expected is None:
            raise InvalidInput(
                "the score has no value", hint="give a value, a label (--label) or both"
            )
        record = self._store.traces.get(trace_id)
        score = TraceScore(
            trace=record.key,
            version=record.version,
            name=name,
            author=author,
            value=value,
            label=label,
            reason=reason,
            metadata={} if expected is None else {"expected": expected},
            at=self._clock(),
            started_at=record.started_at,
        )
        self._store.traces.put_scores([score], correct=True)
        return score

    def make_suite(
        self,
        *,
        filter_: str = "",
        traces: Sequence[str] | None = None,
        name: str,
        scorers: Sequence[str] = (),
        limit: int = 100,
    ) -> TracedSuite:
        """A suite of the traces with these ids, or of the newest that fit."""
        from tallymark.service.trace_suites import (  # noqa: PLC0415 (suites load slowly)
            TracedCase,
            make_suite,
        )

        if traces is not None:
            records = [self._store.traces.get(each) for each in dict.fromkeys(traces)]
        else:
            records = self._collect(self.read_filter(filter_), limit)
        if not records:
            raise NotFound("no trace fits", hint="list them: tally traces list")
        scores = self._store.traces.scores([each.key for each in records], all_of_them=True)
        loaded = {
            key: trace
            for key, _, trace in self._store.traces.load_many((each.key, 0) for each in records)
        }
        cases = [
            TracedCase(each, loaded[each.key], scores[each.key])
            for each in records
            if each.key in loaded
        ]
        return make_suite(cases, name=name, scorers=scorers)

    def _collect(self, query: TraceQuery, limit: int) -> list[TraceRecord]:
        """So many, over as many pages as a question that scans needs."""
        found: list[TraceRecord] = []
        after: TracePlace | None = None
        while len(found) < limit:
            page = self._store.traces.page(query, after=after, limit=limit - len(found))
            found += page.items
            after = page.next
            if after is None:
                break
        return found

    def choices(self) -> dict[str, Any]:
        """What filters can name: values of labels, and scores."""
        kinds = ("service", "model", "tool", "tag", "version", "name")
        found: dict[str, Any] = {kind: self._store.traces.label_values(kind) for kind in kinds}
        scores = self._store.traces.score_names()
        for prefix in (SCORE, PEOPLE):
            named = [each.removeprefix(prefix) for each in scores if each.startswith(prefix)]
            found[prefix.rstrip(".")] = named
        return found


def _describe_side(text: str, moments: ClusterMoments, estimate: MeanEstimate) -> ComparedSide:
    return ComparedSide(
        filter=text,
        traces=moments.count,
        sessions=moments.clusters,
        mean=estimate.mean,
        low=estimate.low,
        high=estimate.high,
    )


def _judge(one: ClusterMoments, two: ClusterMoments, between: MeanEstimate) -> str:
    for nth, side in (("first", one), ("second", two)):
        if not side.count:
            return f"no trace of the {nth} filter has it"
    if between.low is None or between.high is None:
        few = min(one.clusters, two.clusters) < 2
        why = "one session cannot show how much it varies" if few else "all of them are alike"
        return f"it cannot be told: {why}"
    if between.low > 0:
        return "the second is higher"
    if between.high < 0:
        return "the second is lower"
    return "no difference can be told"

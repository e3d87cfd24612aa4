"""Everything of a kind, one after another: what exports write, whatever they write it to."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from tallymark.runs.record import CaseResult, RunRecord
from tallymark.store.traces.trace_rows import TraceRecord
from tallymark.traces import Trace
from tallymark.traces.trace_query import parse_query

if TYPE_CHECKING:
    from tallymark.challenges.attempt import Attempt
    from tallymark.runs.reviews import Review
    from tallymark.store import Store
    from tallymark.store.traces.trace_scores import StoredScore

_PAGE = 1000
_AT_ONCE = 100


class RunResult(NamedTuple):
    """A result, and the run that it belongs to."""

    run: RunRecord
    result: CaseResult


class KeptTrace(NamedTuple):
    """A trace with what lists show of it."""

    record: TraceRecord
    trace: Trace


class ScoreLine(msgspec.Struct, frozen=True, kw_only=True):
    """One score of a trace, by a rule or a person, or a person's of a case."""

    of: Literal["trace", "case"]
    trace_id: str | None = None
    trace_version: int | None = None
    run: str | None = None
    case: str | None = None
    epoch: int | None = None
    name: str
    author: str | None = None
    """Who scored it; None is a rule."""
    rule: str | None = None
    rule_version: int | None = None
    value: float | None = None
    label: str | None = None
    reason: str | None = None
    """Why, or what the person said."""
    error: str | None = None
    metadata: dict[str, Any] = {}
    cost: float | None = None
    created_at: float
    at: float


def stream_attempts(store: Store, challenge: str, *, live: bool) -> Iterator[Attempt]:
    """All attempts at a challenge, oldest first."""
    after = ""
    while found := store.attempts.of(challenge, limit=_PAGE, after=after, public=not live):
        yield from found
        after = found[-1].id


def stream_results(store: Store, records: Iterable[RunRecord]) -> Iterator[RunResult]:
    """All results of some runs, with what agents did."""
    for record in records:
        for result in store.results(record.id, with_traces=True):
            yield RunResult(record, result)


def stream_traces(store: Store, filter_: str = "") -> Iterator[KeptTrace]:
    """The traces that fit, newest first, each as it is now."""
    for records in _page_records(store, filter_):
        by_key = {each.key: each for each in records}
        for key, _, trace in store.traces.load_many((key, 0) for key in by_key):
            yield KeptTrace(by_key[key], trace)


def stream_scores(store: Store, filter_: str = "") -> Iterator[ScoreLine]:
    """The scores that count: of the traces that fit, and, without a filter, of cases too."""
    names = _RuleNames(store)
    for records in _page_records(store, filter_):
        scores = store.traces.scores([each.key for each in records])
        for record in records:
            yield from (names.tell(record, each) for each in scores.get(record.key, ()))
    before = None
    while not filter_ and (found := store.reviews.all(limit=_PAGE, before=before)):
        yield from map(_tell_review, found)
        before = int(found[-1].id.removeprefix("s"))


def _page_records(store: Store, filter_: str) -> Iterator[Sequence[TraceRecord]]:
    query = parse_query(filter_, now=time.time())
    page = store.traces.page(query, limit=_AT_ONCE)
    while True:
        if page.items:
            yield page.items
        if page.next is None:
            return
        page = store.traces.page(query, after=page.next, limit=_AT_ONCE)


class _RuleNames:
    """What people call the rules behind scores."""

    def __init__(self, store: Store) -> None:
        self._names = {each.id: each.name for each in store.rules.list()}
        self._store = store
        self._numbers: dict[int, dict[int, int]] = {}

    def tell(self, record: TraceRecord, score: StoredScore) -> ScoreLine:
        rule = self._names.get(score.rule)
        number = None
        if rule is not None:
            if score.rule not in self._numbers:
                versions = self._store.rules.versions(rule)
                self._numbers[score.rule] = {each.id: each.number for each in versions}
            number = self._numbers[score.rule].get(score.rule_version)
        return ScoreLine(
            of="trace",
            trace_id=record.trace_id,
            trace_version=score.version,
            name=score.name,
            author=score.author or None,
            rule=rule,
            rule_version=number,
            value=score.value,
            label=score.label,
            reason=score.reason,
            error=score.error,
            metadata=score.metadata,
            cost=score.cost,
            created_at=score.at,
            at=score.at,
        )


def _tell_review(review: Review) -> ScoreLine:
    return ScoreLine(
        of="case",
        run=review.run,
        case=review.case,
        epoch=review.epoch,
        name=review.name,
        author=review.author,
        value=review.value,
        label=review.label,
        reason=review.comment or None,
        created_at=review.created_at,
        at=review.changed_at,
    )

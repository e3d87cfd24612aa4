"""Exports: all rows of a kind, for the API, the client and `tally export`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Meta

from tallymark.errors import BadRequest, InvalidInput, NotAllowed, Place, WorkFailed
from tallymark.runs.problems import show_result
from tallymark.runs.record import CaseResult, RunRecord
from tallymark.service.attempts import AttemptRecord, describe_attempt
from tallymark.service.callers import TEAM, check_role
from tallymark.service.operations import Resource, stream
from tallymark.service.runs import Runs, show_record
from tallymark.service.traces import describe_trace
from tallymark.service.visibility import (
    Live,
    find_visible,
    is_public,
    list_attempts,
    sees_live,
)
from tallymark.store.traces.trace_rows import TraceRecord
from tallymark.traces import Trace
from tallymark.traces.trace_query import parse_query

if TYPE_CHECKING:
    from tallymark.runs.reviews import Review
    from tallymark.store import Store
    from tallymark.store.traces.trace_scores import StoredScore

ExportKind = Literal["runs", "cases", "attempts", "board", "audit", "traces", "scores"]
_PAGE = 1000
_AT_ONCE = 100
_CHOSEN_BY = {
    "cases": "run",
    "attempts": "challenge",
    "board": "challenge",
    "traces": "filter",
    "scores": "filter",
}
"""The parameter that chooses what is exported; kinds without one are exported whole."""
_NEEDED = ("run", "challenge")


class ExportParameters(msgspec.Struct, kw_only=True):
    """Path and query of an export."""

    kind: ExportKind
    format: Literal["ndjson", "csv"] = "ndjson"
    run: Annotated[str, Meta(max_length=200)] | None = None
    challenge: Annotated[str, Meta(max_length=200)] | None = None
    filter: Annotated[
        str, Meta(max_length=2000, description="Which traces: `status:error since:2h`.")
    ] = ""
    live: Live = None


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
    """Author of the score; None for a rule."""
    rule: str | None = None
    rule_version: int | None = None
    value: float | None = None
    label: str | None = None
    reason: str | None = None
    """The reason, or the reviewer's comment."""
    error: str | None = None
    metadata: dict[str, Any] = {}
    cost: float | None = None
    created_at: float
    at: float


class Exports(Resource):
    """All rows of a kind. Attempts come oldest first, traces newest first."""

    @stream("/export/{kind}")
    def rows(
        self,
        kind: ExportKind,
        *,
        run: str | None = None,
        challenge: str | None = None,
        filter: str = "",  # noqa: A002 (its name)
        live: bool | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Read rows as the API shows them; a wrong request is refused before the first row."""
        chosen = {"run": run, "challenge": challenge, "filter": filter or None}
        if self.sender is not None:
            shown = {"live": None if live is None else str(live).lower()}
            query = {name: each for name, each in (chosen | shown).items() if each is not None}
            rows: Iterator[dict[str, Any]] = self.sender.read_rows(
                f"/export/{quote(kind, '')}?{urlencode(query)}"
            )
            return rows
        self._require_reader()
        public = is_public(self.caller, live)
        if kind == "audit" and not sees_live(self.caller):
            raise NotAllowed("the log is for organisers")
        _check_choice(kind, chosen)
        if kind == "runs":
            return (msgspec.to_builtins(show_record(each)) for each in self._page_runs())
        if kind == "cases":
            results = self.store.results(self.store.run(run or "").id)
            return (msgspec.to_builtins(show_result(each)) for each in results)
        if kind == "attempts":
            return map(msgspec.to_builtins, self.attempts(challenge or "", live=live))
        if kind == "board":
            name = find_visible(self.services, self.caller, challenge or "").challenge.name
            return map(msgspec.to_builtins, self._page_board(name, public=public))
        if kind == "audit":
            return map(msgspec.to_builtins, self._page_audit())
        if kind == "traces":
            return (
                msgspec.to_builtins(describe_trace(record)) | {"trace": trace.to_dict()}
                for record, trace in self.traces(filter)
            )
        return map(msgspec.to_builtins, self.scores(filter))

    def attempts(self, challenge: str, *, live: bool | None = None) -> Iterator[AttemptRecord]:
        """Read all attempts at a challenge that the caller may see, oldest first."""
        if self.sender is not None:
            rows = self.rows("attempts", challenge=challenge, live=live)
            return (_read_row(each, _read_attempt) for each in rows)
        self._require_reader()
        find_visible(self.services, self.caller, challenge)
        return self._page_attempts(challenge, live=live)

    def results(
        self, runs: Sequence[str] = (), on_run: Callable[[RunRecord], object] = lambda _: None
    ) -> Iterator[RunResult]:
        """Read all results of these runs, or of all, with traces.

        `on_run` is called with each run before its first result.
        """
        known = Runs(self.sender or self.services, self.caller)
        for each in runs or (run.id for run in known.list(order="asc")):
            record = known.read_record(each)
            on_run(record)
            for result in known.cases(record.id, traces=True):
                yield RunResult(record, result)

    def traces(self, filter: str = "") -> Iterator[KeptTrace]:  # noqa: A002 (its name)
        """Read the traces that fit, newest first, each in its newest version."""
        if self.sender is not None:
            return (_read_row(each, _read_trace) for each in self.rows("traces", filter=filter))
        self._require_reader()
        parse_query(filter, now=self.now)
        return self._load_traces(filter)

    def scores(self, filter: str = "") -> Iterator[ScoreLine]:  # noqa: A002 (its name)
        """Read the scores that count of the traces that fit, and without a filter of cases too."""
        if self.sender is not None:
            rows = self.rows("scores", filter=filter)
            return (_read_row(each, _read_score) for each in rows)
        self._require_reader()
        parse_query(filter, now=self.now)
        return self._load_scores(filter)

    def _require_reader(self) -> None:
        if self.caller is None:
            self.store.require()
        else:
            check_role(self.caller, TEAM)

    def _page_runs(self) -> Iterator[RunRecord]:
        after = None
        while found := self.store.runs(limit=_PAGE, after=after):
            yield from found
            last = found[-1]
            after = (last.created_at, last.created_at, last.id)

    def _page_attempts(self, challenge: str, *, live: bool | None) -> Iterator[AttemptRecord]:
        after = ""
        while found := list_attempts(
            self.services, self.caller, challenge, live=live, limit=_PAGE, after=after
        ):
            yield from map(describe_attempt, found)
            after = found[-1].id

    def _page_board(self, challenge: str, *, public: bool) -> Iterator[Any]:
        first, boards = 0, self.store.boards
        while found := boards.top(challenge, limit=_PAGE, offset=first, as_frozen=public):
            yield from found
            first += len(found)

    def _page_audit(self) -> Iterator[Any]:
        before = None
        while found := self.store.audit_log.entries(before=before, limit=_PAGE):
            yield from found
            before = found[-1].seq

    def _load_traces(self, filter_: str) -> Iterator[KeptTrace]:
        for records in self._page_records(filter_):
            by_key = {each.key: each for each in records}
            for key, _, trace in self.store.traces.load_many((key, 0) for key in by_key):
                yield KeptTrace(by_key[key], trace)

    def _load_scores(self, filter_: str) -> Iterator[ScoreLine]:
        names = _RuleNames(self.store)
        for records in self._page_records(filter_):
            scores = self.store.traces.scores([each.key for each in records])
            for record in records:
                yield from (names.describe(record, each) for each in scores.get(record.key, ()))
        before = None
        while not filter_ and (found := self.store.reviews.all(limit=_PAGE, before=before)):
            yield from map(_describe_review, found)
            before = int(found[-1].id.removeprefix("s"))

    def _page_records(self, filter_: str) -> Iterator[Sequence[TraceRecord]]:
        query, after = parse_query(filter_, now=self.now), None
        while True:
            page = self.store.traces.page(query, after=after, limit=_AT_ONCE)
            if page.items:
                yield page.items
            if (after := page.next) is None:
                return


def _check_choice(kind: ExportKind, chosen: dict[str, str | None]) -> None:
    wanted = _CHOSEN_BY.get(kind)
    for name, value in chosen.items():
        if value is not None and name != wanted:
            hint = "leave it out" if wanted is None else f"leave it out, and give {wanted}"
            message = f"an export of {kind} does not take it"
            raise InvalidInput(message, place=Place(source=name), hint=hint)
    if wanted in _NEEDED and chosen[wanted] is None:
        hint = f"name one with ?{wanted}="
        raise BadRequest("it is missing", place=Place(source=wanted), hint=hint)


def _read_row(row: dict[str, Any], read: Callable[[dict[str, Any]], Any]) -> Any:
    try:
        return read(row)
    except (msgspec.ValidationError, InvalidInput, KeyError):
        message = "the server's rows lack something that this command writes"
        raise WorkFailed(message, hint="its version may be older than this command's") from None


def _read_trace(row: dict[str, Any]) -> KeptTrace:
    trace = Trace.from_dict(row.pop("trace"))
    record = msgspec.convert({**row, "key": 0}, TraceRecord)
    return KeptTrace(record, trace)


def _read_attempt(row: dict[str, Any]) -> AttemptRecord:
    return msgspec.convert(row, AttemptRecord)


def _read_score(row: dict[str, Any]) -> ScoreLine:
    return msgspec.convert(row, ScoreLine)


class _RuleNames:
    """Names and version numbers of the rules that scored."""

    def __init__(self, store: Store) -> None:
        self._names = {each.id: each.name for each in store.rules.list()}
        self._store = store
        self._numbers: dict[int, dict[int, int]] = {}

    def describe(self, record: TraceRecord, score: StoredScore) -> ScoreLine:
        rule = self._names.get(score.rule)
        number = None
        if rule is not None:
            if score.rule not in self._numbers:
                versions = self._store.rules.versions(rule)
                self._numbers[score.rule] = {each.id: each.number for each in versions}
            number = self._numbers[score.rule].get(score.rule_version)
        return ScoreLine(
            of="trace",
            trace_id=record.id,
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


def _describe_review(review: Review) -> ScoreLine:
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

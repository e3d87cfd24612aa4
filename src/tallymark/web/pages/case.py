"""Page of a case: conversation, checks, scores and reviews."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.errors import FormulaError
from tallymark.runs.record import CaseResult, RunRecord
from tallymark.runs.reviews import COMMENT, VERDICT, Review
from tallymark.runs.run import scan_results
from tallymark.runs.tally import Tally
from tallymark.web.page import Outcome, Page, View
from tallymark.web.page_request import PageRequest
from tallymark.web.run_facts import (
    change_score,
    find_author,
    give_score,
    list_checks,
    withdraw_score,
)
from tallymark.web.span_lines import SpanLine, Turn, lay_out_spans, list_turns

if TYPE_CHECKING:
    from tallymark.service.runs import Runs

_MOST_COUNTED = 3_000
"""Most results of a run for which the effect of one case on the score is computed."""
_MOST_REVIEWS = 1000
SHOWN_SPANS = 100
"""Spans shown without script."""


class ScoreLoss(msgspec.Struct, frozen=True, kw_only=True):
    """Points that an aspect of this case cost the run's score."""

    what: str
    points: float


class ScoreFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A score with its origin."""

    name: str
    value: float | None
    label: str | None
    threshold: float | None
    version: str | None
    metadata: str


class CaseView(View, frozen=True, kw_only=True):
    """One result of a case."""

    run: RunRecord
    case: CaseResult
    epochs: list[int]
    turns: list[Turn]
    scores: list[ScoreFacts]
    losses: list[ScoreLoss]
    spans: list[SpanLine]
    seconds: float
    before: tuple[str, int] | None
    after: tuple[str, int] | None
    others: list[RunRecord]
    """Other runs of the suite, for comparison."""
    reviews: list[Review]
    """Oldest first."""
    edited: Review | None
    author: str | None
    """The author of the visitor's own scores; None if they may not give any."""
    names: list[str]
    """Suggested names for scores."""

    @property
    def mine(self) -> Review | None:
        """The visitor's own verdict."""
        own = (each for each in self.reviews if each.author == self.author)
        return next((each for each in own if each.name == VERDICT), None)

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each check."""
        return (msgspec.structs.asdict(each) for each in list_checks(self.case.checks))


def gather(request: PageRequest) -> CaseView:
    """Gather the case in the URL."""
    request.visitor.require_runs()
    runs, name = request.tally.runs, request.params["case"]
    record = runs.brief(request.params["run"])
    epoch = _read_epoch(request)
    result = runs.get_case(record.id, name, epoch)
    falls = lay_out_spans(result.trace)
    before, after = runs.find_neighbours(record.id, name, epoch)
    others = runs.newest(2, record.suite)
    newest = request.tally.scores.list(run=record.id, case=name, epoch=epoch, limit=_MOST_REVIEWS)
    said, author = newest.items[::-1], find_author(request)
    scores = _list_scores(result)
    return CaseView(
        title=result.name,
        run=record,
        case=result,
        epochs=list(range(record.epochs)) if record.epochs > 1 else [],
        turns=list_turns(result.input, result.output, result.trace),
        scores=scores,
        losses=_list_losses(runs, record, result),
        spans=falls.lines,
        seconds=falls.seconds,
        before=before,
        after=after,
        others=[each for each in others if each.id != record.id],
        reviews=said,
        edited=next(
            (each for each in said if each.author == author and each.id == request.get("edit")),
            None,
        ),
        author=author,
        names=sorted({*(each.name for each in scores), *(each.name for each in said)} - {COMMENT}),
    )


def _read_epoch(request: PageRequest) -> int:
    """Read the epoch: URLs count from 1, results from 0."""
    return request.read_number("epoch", 1, 1_000_000, least=1) - 1


def _stay(request: PageRequest) -> Outcome:
    return Outcome(address=f"{request.link(edit=None)}#people")


def _give(request: PageRequest) -> Outcome:
    give_score(request, request.params["run"], request.params["case"], _read_epoch(request))
    return _stay(request)


def _change(request: PageRequest) -> Outcome:
    change_score(request)
    return _stay(request)


def _withdraw(request: PageRequest) -> Outcome:
    withdraw_score(request)
    return _stay(request)


def _list_scores(result: CaseResult) -> list[ScoreFacts]:
    return [
        ScoreFacts(
            name=name,
            value=check.value,
            label=check.label,
            threshold=check.threshold,
            version=check.version,
            metadata="" if not check.metadata else msgspec.json.encode(check.metadata).decode(),
        )
        for name, check in result.scores.items()
    ]


def _list_losses(runs: Runs, record: RunRecord, result: CaseResult) -> list[ScoreLoss]:
    """Compute what failing, cost and latency took from the score of the run."""
    if record.passed + record.failed > _MOST_COUNTED or result.status == "error":
        return []
    results = list(scan_results(runs.load(record.id).results))
    found = []
    changes: list[tuple[str, dict[str, Any]]] = [("Cost", {"cost": 0.0})]
    changes.append(("Latency", {"latency": 0.0}))
    if result.status == "failed":
        changes.insert(0, ("Failing", {"status": "passed"}))
    now = _score(record, results)
    for what, change in changes:
        if change.keys() & {"cost", "latency"} and getattr(result, next(iter(change))) is None:
            continue
        changed = [
            msgspec.structs.replace(each, **change) if each.key == result.key else each
            for each in results
        ]
        then = _score(record, changed)
        if now is not None and then is not None and then != now:
            found.append(ScoreLoss(what=what, points=now - then))
    return found


def _score(record: RunRecord, results: list[CaseResult]) -> float | None:
    tally = Tally(results)
    try:
        return tally.score(tally.formula(record.score_formula, also=record.metrics)).score
    except FormulaError:
        return None


PAGE = Page(
    "/runs/{run}/cases/{case:path}",
    "case.html",
    gather,
    actions={"score": _give, "change": _change, "withdraw": _withdraw},
)

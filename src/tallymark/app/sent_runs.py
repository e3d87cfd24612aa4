"""Runs that were done elsewhere and are sent finished: checked, tallied and scored again here.

What a sender says of single cases is what it saw, and is kept; what these come to, whether checks
and cases passed, metrics and score, is computed by our own code, and where the sender said
otherwise, the answer tells.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from tallymark.errors import InvalidInput
from tallymark.runs.case_verdict import THRESHOLD_ROUNDING, find_error, judge_case
from tallymark.runs.ongoing_run import make_id
from tallymark.runs.record import CaseResult, CheckResult, RunRecord
from tallymark.runs.run import final_status, outcome
from tallymark.runs.tally import Tally
from tallymark.text import clean_line

if TYPE_CHECKING:
    from tallymark.store import Store

MOST_RUNS = 50
MOST_RESULTS = 200_000
"""In one document."""
_MOST_NAME = 500
_MOST_TAGS = 100
_OWN_TAGS = ("door", "folder", "chosen", "limit", "epochs", "rescored_from")
"""What tags of a run say to our own code: nobody else may."""
_DOORS = ("traces", "Python")
_BEYOND = 2.0**63
_COUNTED = ("passed", "failed", "errors")


class Difference(msgspec.Struct, frozen=True):
    """Where the sender said something else."""

    field: str
    sent: float | None
    computed: float | None


class SentRun(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of a run in the document of `tally run --json`; the rest is computed."""

    suite: str
    model: str
    results: list[CaseResult]
    score_formula: str | None = None
    formula: str | None = None
    """As a record calls it."""
    status: str | None = None
    score: float | None = None
    counts: dict[str, int] = {}
    metrics: dict[str, float | None] = {}
    epochs: int = 1
    total: int = 0
    definition_hash: str = ""
    started_at: float | None = None
    finished_at: float | None = None
    prompt: str | None = None
    tags: dict[str, Any] = {}


@dataclass(frozen=True)
class CheckedRun:
    """A run as it will be kept, and where its sender said otherwise."""

    record: RunRecord
    results: Sequence[CaseResult]
    differences: tuple[Difference, ...]


@dataclass(frozen=True)
class SentRuns:
    """Takes runs for one tenant."""

    store: Store
    clock: Callable[[], float] = field(default_factory=lambda: time.time)

    def check(self, document: Any) -> list[CheckedRun]:
        """What a document's runs come to; all that is wrong is said, nothing is kept."""
        runs = _list_runs(document)
        group = make_id("g") if len(runs) > 1 else None
        return [self._check(where, given, group) for where, given in runs]

    def keep(self, document: Any) -> list[CheckedRun]:
        """Keeps the runs of a document, each when all of its results are stored."""
        checked = self.check(document)
        for run in checked:
            # It has its status only when its results are there.
            self.store.create_run(replace(run.record, status="running"))
            with self.store.open_writer(run.record.id) as writer:
                for result in run.results:
                    writer.put(result)
            self.store.save_run(run.record)
        return checked

    def _check(self, where: str, given: Any, group: str | None) -> CheckedRun:
        sent = _read(where, given)
        results = [_judge_again(each) for each in sent.results]
        tally = Tally(results)
        text = sent.score_formula or sent.formula or "success_pct"
        try:
            formula = tally.formula(text)
        except InvalidInput as error:
            raise InvalidInput(f"{where}score_formula: {error}") from None
        missing = max(0, sent.counts.get("missing", 0))
        own = {name: value for name, value in sent.tags.items() if name not in _OWN_TAGS}
        if sent.tags.get("door") in _DOORS:
            own["door"] = sent.tags["door"]
        record = RunRecord(
            id=make_id("r"),
            suite=sent.suite,
            model=sent.model,
            group=group,
            definition_hash=sent.definition_hash,
            epochs=sent.epochs,
            created_at=self.clock(),
            started_at=sent.started_at,
            finished_at=sent.finished_at,
            total=max(sent.total, len(results) + missing),
            tags={**own, **({} if sent.prompt is None else {"prompt": sent.prompt})},
            **outcome(formula, tally),
        )
        stopped = sent.status in ("cancelled", "interrupted", "running", "queued")
        record = replace(record, status=final_status(record, stopped=stopped))
        return CheckedRun(record, results, tuple(_find_differences(sent, record)))


def _list_runs(document: Any) -> list[tuple[str, Any]]:
    """The runs of a document, each with what leads there."""
    if isinstance(document, dict) and isinstance(document.get("run"), dict):
        return [("run.", document["run"])]
    if isinstance(document, dict) and "runs" in document:
        runs = document["runs"]
        if not isinstance(runs, list) or not 1 <= len(runs) <= MOST_RUNS:
            raise InvalidInput(f"runs: a list of 1 to {MOST_RUNS} runs is taken at a time")
        return [(f"runs[{number}].", run) for number, run in enumerate(runs)]
    if isinstance(document, dict) and "results" in document:
        return [("", document)]
    raise InvalidInput(
        "the document has no runs", hint='send what `tally run --json` prints: {"runs": [...]}'
    )


def _read(where: str, given: Any) -> SentRun:
    try:
        sent = msgspec.convert(given, SentRun)
    except (msgspec.ValidationError, RecursionError) as error:
        what, _, place = str(error).partition(" - at `$")
        at = place.rstrip("`").lstrip(".") or "the run"
        raise InvalidInput(f"{where}{at}: {what[:1].lower()}{what[1:]}") from None
    for problem in _find_problems(sent):
        raise InvalidInput(f"{where}{problem}")
    return sent


def _find_problems(sent: SentRun) -> Iterator[str]:
    for name in ("suite", "model"):
        if (text := getattr(sent, name)) != clean_line(text, _MOST_NAME) or not text:
            yield f"{name}: one line of at most {_MOST_NAME} characters is taken"
    if len(sent.definition_hash) > _MOST_NAME or len(sent.tags) > _MOST_TAGS:
        yield f"definition_hash and tags: at most {_MOST_NAME} characters and {_MOST_TAGS} tags"
    if not 1 <= sent.epochs <= 1_000_000 or not 0 <= sent.total <= 1_000_000_000:
        yield "epochs and total: out of range"
    if not all(0 <= count <= 1_000_000_000 for count in sent.counts.values()):
        yield "counts: out of range"
    for name in ("started_at", "finished_at"):
        if not _is_measure(getattr(sent, name)):
            yield f"{name}: a time in seconds since 1970 is taken"
    if not 1 <= len(sent.results) <= MOST_RESULTS:
        yield f"results: 1 to {MOST_RESULTS:,} are taken at a time"
    yield from _find_problems_of_results(sent.results)


def _find_problems_of_results(results: Sequence[CaseResult]) -> Iterator[str]:
    known = set[tuple[str, int]]()
    for number, result in enumerate(results):
        at = f"results[{number}]"
        if not result.case or len(result.case) > _MOST_NAME:
            yield f"{at}.case: a name of at most {_MOST_NAME} characters is taken"
        if result.epoch < 0 or result.key in known:
            yield f"{at}: the case {result.case!r} is there twice with the epoch {result.epoch}"
        known.add(result.key)
        for name in ("latency", "cost", "input_tokens", "output_tokens"):
            if not _is_measure(getattr(result, name)):
                yield f"{at}.{name}: a number from 0 on is taken, or null where it is not known"


def _is_measure(value: float | None) -> bool:
    return value is None or (math.isfinite(value) and 0 <= value < _BEYOND)


def _judge_again(result: CaseResult) -> CaseResult:
    """The result with the status that its checks give it; one without checks keeps its own."""
    if not result.checks:
        error = (result.error or "it says not why") if result.status == "error" else None
        return replace(result, error=error)
    checks = tuple(map(_check_again, result.checks))
    status = judge_case(checks)
    error = find_error(checks) if status == "error" else None
    return replace(result, checks=checks, status=status, error=error)


def _check_again(check: CheckResult) -> CheckResult:
    """Whether a check passed, where its own numbers or parts tell."""
    parts = tuple(map(_check_again, check.parts))
    passed = check.passed and check.error is None
    if check.value is not None and check.threshold is not None:
        passed = check.error is None and check.value + THRESHOLD_ROUNDING >= check.threshold
    elif parts and check.kind == "or":
        passed = any(part.passed for part in parts)
    return replace(check, passed=passed, parts=parts)


def _find_differences(sent: SentRun, record: RunRecord) -> Iterator[Difference]:
    told = {name: sent.counts[name] for name in _COUNTED if name in sent.counts}
    pairs: list[tuple[str, float | None, float | None]] = [
        (f"counts.{name}", value, getattr(record, name)) for name, value in told.items()
    ]
    if sent.score is not None or sent.status is not None:
        pairs.insert(0, ("score", sent.score, record.score))
    pairs += [
        (f"metrics.{name}", value, record.metrics[name])
        for name, value in sent.metrics.items()
        if name in record.metrics
    ]
    for name, theirs, ours in pairs:
        if not _are_alike(theirs, ours):
            yield Difference(name, theirs, ours)


def _are_alike(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)

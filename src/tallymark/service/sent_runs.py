"""Finished runs sent from elsewhere: checked, counted and scored again here.

The sender's results of single cases are stored; metrics, passes and score are computed here, and
the answer lists where the sender's values differ.

A sender that names the run's id (`keep_as`) may send it again, or its results in parts: existing
results stay, new ones are added, and everything is counted again.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec.structs import replace

from tallymark.errors import Conflict, InvalidInput, NotFound
from tallymark.runs.case_verdict import THRESHOLD_ROUNDING, find_error, judge_case
from tallymark.runs.ongoing_run import derive_id, make_id
from tallymark.runs.record import NOTES_TAG, SENT_TAG, CaseResult, CheckResult, RunRecord
from tallymark.runs.run import Run, final_status, outcome
from tallymark.runs.tally import Tally
from tallymark.service.runs import Difference
from tallymark.text import clean_line

if TYPE_CHECKING:
    from tallymark.store import Store

MOST_RUNS = 50
MOST_RESULTS = 200_000
"""In one document."""
_MOST_NAME = 500
_MOST_TAGS = 100
_MOST_DEFINITION = 2_000_000
_OWN_TAGS = (
    *("door", "folder", "chosen", "limit", "epochs", "rescored_from"),
    *(NOTES_TAG, SENT_TAG),
)
"""Reserved tags, which senders may not set."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,200}").fullmatch
_ID = re.compile(r"[rg][0-9a-hjkmnp-tv-z]{10}").fullmatch
_DOORS = ("traces", "Python")
_BEYOND = 2.0**63
_COUNTED = ("passed", "failed", "errors")


class SentRun(msgspec.Struct, frozen=True, kw_only=True):
    """Fields read from a run in the document of `tally run --json`; the rest is computed."""

    suite: str
    model: str
    results: list[CaseResult]
    score_formula: str | None = None
    status: str | None = None
    score: float | None = None
    passed: int | None = None
    failed: int | None = None
    errors: int | None = None
    metrics: dict[str, float | None] = {}
    epochs: int = 1
    total: int = 0
    definition_hash: str = ""
    started_at: float | None = None
    finished_at: float | None = None
    prompt: str | None = None
    tags: dict[str, Any] = {}
    definition: str = ""
    """The suite as JSON text, for the order of its evals; it is never run."""
    group: str | None = None
    keep_as: str | None = None
    """The id that its sender has given it."""
    more: bool = False
    """Other results of it follow."""


class _Chosen(msgspec.Struct, frozen=True, omit_defaults=True):
    """Note on a partial run."""

    by: str
    cases: Annotated[int, msgspec.Meta(ge=0, lt=2**53)] = 0
    of: Annotated[int, msgspec.Meta(ge=0, lt=2**53)] = 0
    left_out: dict[str, str] = {}


class _Suite(msgspec.Struct, frozen=True):
    """Fields read from a definition."""

    evals: list[dict[str, Any]] = []
    score: Any = None


@dataclass(frozen=True)
class CheckedRun:
    """A run to store, and the differences from the sender's values."""

    sent: SentRun
    record: RunRecord
    results: Sequence[CaseResult]
    differences: tuple[Difference, ...]


@dataclass(frozen=True)
class SentRuns:
    """Takes runs for one tenant."""

    store: Store
    clock: Callable[[], float] = field(default_factory=lambda: time.time)

    def check(self, document: Any) -> list[CheckedRun]:
        """Runs of a document, with all mistakes; nothing is stored."""
        runs = _list_runs(document)
        group = make_id("g") if len(runs) > 1 else None
        return [self._check(where, given, group) for where, given in runs]

    def keep(self, document: Any, *, asked_as: str | None = None) -> list[CheckedRun]:
        """Store the runs of a document, each when all of its results are stored.

        With a request's key, runs stored before a server crash are not stored twice.
        """
        checked = self.check(document)
        if asked_as is not None:
            checked = [_name(each, asked_as, n) for n, each in enumerate(checked)]
        kept = []
        for run in checked:
            try:
                kept.append(self._keep(run, asked_as))
            except BaseException:
                self.store.leave_run(run.record.id)
                raise
        return kept

    def _keep(self, run: CheckedRun, asked_as: str | None) -> CheckedRun:
        record = run.record
        named = run.sent.keep_as is not None or asked_as is not None
        known = self._find_known(record) if named else None
        if known is None:
            # It has its status only when its results are there.
            self.store.create_run(replace(record, status="running"))
        elif run.sent.keep_as is None and known.status not in ("running", "interrupted"):
            return CheckedRun(run.sent, known, run.results, run.differences)
        else:
            self.store.claim_run(record.id)
            record = replace(record, created_at=known.created_at)
        with self.store.open_writer(record.id) as writer:
            for result in run.results:
                writer.put(result)
        told = run.differences
        if run.sent.keep_as is not None:
            tally = _count(record, self.store.counted_results(record.id))
            record = _sum_up(record, run.sent, tally)
            told = () if run.sent.more else tuple(_find_differences(run.sent, record))
        self.store.save_run(record)
        return CheckedRun(run.sent, record, run.results, told)

    def _find_known(self, record: RunRecord) -> RunRecord | None:
        """The run that was sent before under this id; another one's is not touched."""
        try:
            known = self.store.run(record.id)
        except NotFound:
            return None
        alike = ("suite", "model", "definition_hash", "score_formula", "started_at")
        if known.tags.get(SENT_TAG) != record.tags.get(SENT_TAG) or any(
            getattr(known, name) != getattr(record, name) for name in alike
        ):
            raise Conflict(f"there is already another run {record.id!r}")
        return known

    def _check(self, where: str, given: Any, group: str | None) -> CheckedRun:
        sent = _read(where, given)
        results = [_judge_again(each) for each in sent.results]
        record = RunRecord(
            id=sent.keep_as or make_id("r"),
            suite=sent.suite,
            model=sent.model,
            group=group if sent.keep_as is None else sent.group,
            definition=sent.definition,
            definition_hash=sent.definition_hash,
            epochs=sent.epochs,
            created_at=self.clock(),
            started_at=sent.started_at,
            finished_at=sent.finished_at,
            tags=_choose_tags(sent),
        )
        try:
            record = _sum_up(record, sent, _count(record, results))
        except InvalidInput as error:
            raise InvalidInput(f"{where}score_formula: {error}") from None
        return CheckedRun(sent, record, results, tuple(_find_differences(sent, record)))


def _name(run: CheckedRun, asked_as: str, number: int) -> CheckedRun:
    """By the request that brought it, unless its sender has named it."""
    if run.sent.keep_as is not None:
        return run
    group = run.record.group and derive_id("g", asked_as)
    name = derive_id("r", asked_as, number)
    record = replace(run.record, id=name, group=group)
    return CheckedRun(run.sent, record, run.results, run.differences)


def _choose_tags(sent: SentRun) -> dict[str, Any]:
    """Tags of a sender, and a tag for the origin."""
    own = {name: value for name, value in sent.tags.items() if name not in _OWN_TAGS}
    if sent.tags.get("door") in _DOORS:
        own["door"] = sent.tags["door"]
    if sent.prompt is not None:
        own["prompt"] = sent.prompt
    if sent.definition or sent.keep_as is not None:
        own[SENT_TAG] = True
    return own | _read_choice(sent.tags.get("chosen"))


def _count(record: RunRecord, results: Iterable[CaseResult]) -> Tally:
    return Run(record, ()).tell_origin(Tally(results))


def _sum_up(record: RunRecord, sent: SentRun, tally: Tally) -> RunRecord:
    """The record with the values from its results."""
    text = sent.score_formula or "success_pct"
    # Names of what never ran: they have no value.
    formula = tally.formula(text, also=filter(_NAME, sent.metrics))
    told = outcome(formula, tally, undefined=_find_undefined(sent))
    record = replace(record, **told, total=max(sent.total, tally.finished))
    stopped = sent.more or sent.status in ("cancelled", "interrupted", "running", "queued")
    return replace(record, status=final_status(record, stopped=stopped))


def _find_undefined(sent: SentRun) -> float | None:
    """The score that the suite gives where its formula has none."""
    score = msgspec.json.decode(sent.definition or "{}", type=_Suite).score
    value = score.get("undefined") if isinstance(score, dict) else None
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


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
    yield from _find_problems_of_origin(sent)
    for name in ("started_at", "finished_at"):
        if not _is_measure(getattr(sent, name)):
            yield f"{name}: a time in seconds since 1970 is taken"
    if not 1 <= len(sent.results) <= MOST_RESULTS:
        yield f"results: 1 to {MOST_RESULTS:,} are taken at a time"
    yield from _find_problems_of_results(sent.results)


def _find_problems_of_origin(sent: SentRun) -> Iterator[str]:
    if not _is_definition(sent.definition):
        yield "definition: a suite is taken, as JSON text"
    for name, letter in (("keep_as", "r"), ("group", "g")):
        text = getattr(sent, name)
        if text is not None and not (_ID(text) and text.startswith(letter)):
            yield f"{name}: an id is taken, {letter} and ten more characters"


def _is_definition(text: str) -> bool:
    try:
        msgspec.json.decode(text or "{}", type=_Suite)
    except (msgspec.MsgspecError, RecursionError):
        return False
    return len(text) <= _MOST_DEFINITION


def _read_choice(given: Any) -> dict[str, Any]:
    """The tag of a run of some cases, if it is one."""
    try:
        return {"chosen": msgspec.to_builtins(msgspec.convert(given, _Chosen))}
    except msgspec.ValidationError:
        return {}


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
    """The result with the status from its checks; without checks, its own."""
    if not result.checks:
        error = (result.error or "no reason was given") if result.status == "error" else None
        return replace(result, error=error)
    checks = tuple(map(_check_again, result.checks))
    status = judge_case(checks)
    error = find_error(checks) if status == "error" else None
    return replace(result, checks=checks, status=status, error=error)


def _check_again(check: CheckResult) -> CheckResult:
    """True if a check passed, where its numbers or parts determine it."""
    parts = tuple(map(_check_again, check.parts))
    passed = check.passed and check.error is None
    if check.value is not None and check.threshold is not None:
        passed = check.error is None and check.value + THRESHOLD_ROUNDING >= check.threshold
    elif parts and check.kind == "or":
        passed = any(part.passed for part in parts)
    return replace(check, passed=passed, parts=parts)


def _find_differences(sent: SentRun, record: RunRecord) -> Iterator[Difference]:
    pairs: list[tuple[str, float | None, float | None]] = [
        (name, value, getattr(record, name))
        for name in _COUNTED
        if (value := getattr(sent, name)) is not None
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

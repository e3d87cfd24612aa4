"""Scoring traces that already exist, one at a time, however many there are."""

from __future__ import annotations

import hashlib
import heapq
import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.errors import InvalidInput, Place, TraceError
from tallymark.runs.case_verdict import DEFAULT_THRESHOLD, judge_trace
from tallymark.runs.ongoing_run import OngoingRun, make_id, open_keeper
from tallymark.runs.problems import name_model
from tallymark.runs.record import RunRecord
from tallymark.runs.run import Run
from tallymark.runs.tally import Tally
from tallymark.scoring import Config, EvalContext, Expected, Scorer
from tallymark.scoring.score import show_value
from tallymark.suites.python_suites.answer_trace import check_trace
from tallymark.suites.python_suites.suite_and_test import (
    DEFAULT_TIMEOUT,
    pick_first,
    require_formula,
    require_name,
    require_scorer,
    require_threshold,
    require_timeout,
)
from tallymark.suites.python_suites.suite_document import (
    DEFAULT_FORMULA,
    parse_for_scorers,
    write_definition,
)
from tallymark.text import clean_line
from tallymark.traces import Trace
from tallymark.traces.trace_facts import StatedCase, read_case

if TYPE_CHECKING:
    from pathlib import Path

    from tallymark.runs.ongoing_run import RunKeeper
    from tallymark.runs.record import CaseResult, CaseStatus
    from tallymark.scoring import Score

RESULTS_SHOWN = 20
"""Results of each status held in memory when all traces are scored."""
MOST_CASES = 50_000
"""Traces that are counted one by one; others are counted together, which bounds the memory."""
_NOTHING = Expected()
_LONGEST_MODEL = 200
MOST_RUNS = 50
"""Models, each with a run of its own; each run takes a thread that stores its results."""


class TraceJudge:
    """Scores traces and yields their results."""

    def __init__(
        self,
        scorers: Sequence[Scorer],
        *,
        threshold: float | None = None,
        timeout: float | None = None,
        expected: Mapping[str, Expected] | None = None,
        on_broken: Callable[[TraceError], object] | None = None,
    ) -> None:
        """Traces in any form that `ScoredTraces` accepts."""
        own = require_threshold("scoring", threshold)
        seconds = require_timeout("scoring", timeout) or DEFAULT_TIMEOUT
        self.scorers = _require_scorers(scorers)
        self.thresholds = {
            each.name: pick_first(own, each.threshold, DEFAULT_THRESHOLD) for each in self.scorers
        }
        self._config = Config(
            timeout=None if math.isinf(seconds) else seconds,
            threshold=pick_first(own, DEFAULT_THRESHOLD),
        )
        told: Any = {} if expected is None else expected
        if not isinstance(told, Mapping):
            raise InvalidInput(f"expected is a mapping by trace id, not {show_value(told)}")
        self.expected: Mapping[str, Expected] = told
        self._on_broken = on_broken

    def score_all(self, traces: Iterable[Any]) -> Iterator[tuple[Trace, list[Score]]]:
        """Each trace with its scores, in the order of the traces."""
        scorers = self.scorers
        if all(scorer.inline for scorer in scorers):
            calls = [scorer.score for scorer in scorers]
            for ctx in self._make_contexts(traces):
                yield ctx.trace, [call(ctx) for call in calls]
            return
        from tallymark.suites.trace_loop import score_in_loop  # noqa: PLC0415 (asyncio is heavy)

        # Many traces at the same time, their results in the order of the traces.
        yield from score_in_loop(scorers, self._make_contexts(traces), self._config.timeout)

    def judge(self, case: str, epoch: int, trace: Trace, found: list[Score]) -> CaseResult:
        """The result of a trace by its scores."""
        try:
            return judge_trace(case, epoch, self.thresholds, trace, found)
        except (TypeError, AttributeError):
            check_trace(trace)  # names the value of a wrong type
            raise

    def _make_contexts(self, traces: Iterable[Any]) -> Iterator[EvalContext]:
        config = self._config
        for trace in traces:
            if not isinstance(trace, Trace):
                raise InvalidInput(f"{show_value(trace)} is not a Trace")
            try:
                expected = self._find_expectation(trace)
            except TraceError as error:
                if self._on_broken is None:
                    raise
                self._on_broken(error)
                continue
            yield EvalContext(trace, expected, trace.metadata, config)

    def _find_expectation(self, trace: Trace) -> Expected:
        known = self.expected.get(trace.trace_id)
        if known is not None:
            return known
        metadata: Any = trace.metadata
        told = metadata.get("expected") if isinstance(metadata, dict) else None
        if told is None:
            return _NOTHING
        try:
            return read_expectation(told)
        except InvalidInput as error:
            place = Place(source=f"trace {trace.trace_id or trace.name!r}")
            raise TraceError(error.problems[0].message, place=place) from None


class _ModelRun:
    """The run of one model while its traces come."""

    def __init__(self, ongoing: OngoingRun, stated: StatedCase | None) -> None:
        self.ongoing = ongoing
        self.prompt = None if stated is None else stated.prompt
        self.count = 0
        self.shown: dict[CaseStatus, list[tuple[float, int, CaseResult]]] = {}
        self.keys: set[str | tuple[str, int]] = set()
        """Key of a result: the case, and the epoch beyond the first."""
        self.last_epochs: dict[str, int] = {}
        """Cases named by traces."""

    def take_epoch(self, case: str, epoch: int) -> tuple[str, int]:
        """An epoch that is there already, as in the log of another run, is one more."""
        last = self.last_epochs.get(case, 0)
        if ((case, epoch) if epoch else case) in self.keys:
            epoch = last + 1
        self.keys.add((case, epoch) if epoch else case)
        self.last_epochs[case] = max(last, epoch)
        return case, epoch

    def add(self, result: CaseResult, furthest: float) -> None:
        """Counts and stores it; shown are the failed ones furthest below a threshold.

        Of the others, the first are. No threshold is higher than `furthest`.
        """
        self.count += 1
        self.ongoing.add(result)
        shown = self.shown.setdefault(result.status, [])
        # No value is under 0, so none is further below than the highest threshold.
        if len(shown) >= RESULTS_SHOWN and shown[0][0] >= furthest:
            return
        margin = 0.0
        if result.status == "failed":
            for check in result.checks:
                if check.value is not None and check.threshold is not None:
                    margin = max(margin, check.threshold - check.value)
        if len(shown) >= RESULTS_SHOWN and margin <= shown[0][0]:
            return
        # The number breaks ties, since results have no order: the earlier one wins.
        entry = (margin, -self.count, result)
        if len(shown) < RESULTS_SHOWN:
            heapq.heappush(shown, entry)
        else:
            heapq.heappushpop(shown, entry)

    def finish(self) -> None:
        """All its traces have come."""
        self.ongoing.ending = "finished"
        epochs = max(self.last_epochs.values(), default=0) + 1
        self.change(total=self.count, epochs=epochs)

    def change(self, **facts: Any) -> None:
        """Set the fields of the record when the run ends."""
        self.ongoing.record = msgspec.structs.replace(self.ongoing.record, **facts)

    def make_run(self) -> Run:
        """Metrics of the results so far, with the worst and the first of them."""
        shown = (
            [result for *_, result in sorted(self.shown.get(status, ()), reverse=True)]
            for status in ("failed", "error", "passed")
        )
        return self.ongoing.make_run([each for some in shown for each in some])


class ScoredTraces:
    """Iterating yields the result of each trace; `runs` has the runs with their scores.

    It is one run, except for traces that name a case and its model, like the results of an
    evaluation: each model has a run, and these share a group. It can be iterated once. With a
    `store`, the runs are stored as the traces arrive.
    """

    def __init__(  # noqa: PLR0913 (what a caller may set, all but the first two by keyword)
        self,
        traces: Iterable[Trace],
        scorers: Sequence[Scorer],
        *,
        name: str = "traces",
        formula: str | None = None,
        threshold: float | None = None,
        timeout: float | None = None,
        expected: Mapping[str, Expected] | None = None,
        store: RunKeeper | str | Path | None = None,
        on_broken: Callable[[TraceError], object] | None = None,
        chosen_by: str = "",
    ) -> None:
        """`expected` is by trace id; a trace may have it in `metadata["expected"]` too.

        Unreadable expectations are raised, or given to `on_broken` and skipped. `chosen_by`
        describes the selection if the traces are a part.
        """
        self._judge = TraceJudge(
            scorers, threshold=threshold, timeout=timeout, expected=expected, on_broken=on_broken
        )
        self._scorers = self._judge.scorers
        self._traces: Iterable[Any] = _require_list(traces, "traces")
        self._furthest = max(self._judge.thresholds.values())
        self._met: set[str] = set()
        self._store = store
        text = require_formula("scoring", formula) or DEFAULT_FORMULA
        names = [name for each in self._scorers for name in each.score_names] if formula else ()
        self._formula = parse_for_scorers(text, names)
        self._record = self._make_record(require_name("a run", name), chosen_by)
        self.goes_on = False
        """True if a run was started."""
        self.run_id = ""
        """The run of the result that came last."""
        self._runs: dict[tuple[str | None, str | None], _ModelRun] = {}
        """By model and prompt, in the order in which they came."""
        self._begun = False
        self._names: set[str] = set()
        """The run of traces that name no case."""
        self._count = 0
        self.same_ids: dict[str, int] = {}
        """Number of traces with the name and id of an earlier one, by its case."""

    def _make_record(self, name: str, chosen_by: str) -> RunRecord:
        now = time.time()
        definition = write_definition(name, [], self._scorers)
        return RunRecord(
            id=make_id("r"),
            suite=name,
            model="traces",
            status="running",
            definition=definition,
            definition_hash=hashlib.sha256(definition.encode()).hexdigest(),
            created_at=now,
            started_at=now,
            score_formula=self._formula.text,
            tags={"door": "traces", **({"chosen": {"by": chosen_by}} if chosen_by else {})},
        )

    def __iter__(self) -> Generator[CaseResult]:
        if self._begun:
            raise InvalidInput("these traces were scored already", hint="make new ScoredTraces")
        judged = self._judge_all()
        first = next(judged, None)
        if first is None:  # nothing happened, so there is nothing to keep
            return
        self._begun = True
        with open_keeper(self._store) as keeper, ExitStack() as running:
            for trace, judged_as in chain([first], judged):
                self._count += 1
                if trace.trace_id in self._judge.expected:
                    self._met.add(trace.trace_id)
                stated = read_case(trace)
                part = self._runs.get((None, None) if stated is None else stated[2:])
                if part is None:
                    part = self._begin(stated, keeper)
                    running.enter_context(part.ongoing)
                case, epoch = (
                    (self._name(trace), 0) if stated is None else part.take_epoch(*stated[:2])
                )
                result = msgspec.structs.replace(judged_as, case=case, epoch=epoch)
                part.add(result, self._furthest)
                self.run_id = part.ongoing.record.id
                yield result
            for part in self._runs.values():
                part.finish()

    @property
    def runs(self) -> list[Run]:
        """Runs so far: one for each model, in the order of their traces."""
        if not self._runs:
            return [Run(self._record, [], kept=False)]
        return [part.make_run() for part in self._runs.values()]

    @property
    def run(self) -> Run:
        """The only run."""
        runs = self.runs
        if len(runs) > 1:
            models = ", ".join(name_model(each.record) for each in runs)
            raise InvalidInput(f"each of {models} has a run of its own", hint="read `runs`")
        return runs[0]

    @property
    def unmet(self) -> int:
        """Number of expectations without a trace."""
        return len(self._judge.expected) - len(self._met)

    def _begin(self, stated: StatedCase | None, keeper: RunKeeper | None) -> _ModelRun:
        """Begins the run of a model; all there are become runs of one group."""
        if len(self._runs) >= MOST_RUNS:
            raise InvalidInput(
                f"the traces are of more than {MOST_RUNS} models and prompts",
                hint="score them in several commands",
            )
        record = msgspec.structs.replace(self._record, id=make_id("r"))
        if stated is not None and stated.model is not None:
            record = msgspec.structs.replace(record, model=clean_line(stated.model, _LONGEST_MODEL))
        record, is_kept = self._claim(record, stated)
        tally = Tally(most_cases=MOST_CASES)
        part = _ModelRun(OngoingRun(record, self._formula, keeper=keeper, tally=tally), stated)
        self._runs[(None, None) if stated is None else stated[2:]] = part
        parts = list(self._runs.values())
        if len(parts) > 1:
            group = parts[0].ongoing.record.group or make_id("g")
            several = len({each.prompt for each in parts}) > 1
            for each in parts:
                prompt = {"prompt": each.prompt} if several and each.prompt is not None else {}
                each.change(group=group, tags={**each.ongoing.record.tags, **prompt})
        if keeper is not None and not is_kept:
            keeper.create_run(part.ongoing.record)
        return part

    def _claim(self, record: RunRecord, stated: StatedCase | None) -> tuple[RunRecord, bool]:  # noqa: ARG002
        """The record of a new run, and whether it is stored already."""
        return record, False

    def _judge_all(self) -> Iterator[tuple[Trace, CaseResult]]:
        for trace, scores in self._judge.score_all(self._traces):
            yield trace, self._judge.judge("", 0, trace, scores)

    def _name(self, trace: Trace) -> str:
        """The case of a trace that names none."""
        row = trace.trace_id or str(self._count)
        case = name_trace(trace, row)
        if self._store is None:
            return case
        if case in self._names:  # an id that is used twice must not cost a result
            self.same_ids[case] = self.same_ids.get(case, 0) + 1
            case = f"{trace.name}[{row} {self._count}]" if trace.name else f"#{row} {self._count}"
        self._names.add(case)
        return case


class JudgedTraces(ScoredTraces):
    """The results of traces scored elsewhere."""

    def __init__(self, scorers: Sequence[Scorer], **options: Any) -> None:
        """`options` are those of `ScoredTraces`."""
        super().__init__((), scorers, **options)
        self.results: Iterable[CaseResult] = ()
        """Results in the order of the traces."""
        self.claim: Callable[[RunRecord, StatedCase | None], tuple[RunRecord, bool]] = (
            super()._claim
        )
        """Gives for a new run the one that was begun before, and whether that is stored."""

    @property
    def scorers(self) -> tuple[Scorer, ...]:
        """The scorers."""
        return self._scorers

    @property
    def record(self) -> RunRecord:
        """A run as it begins."""
        return self._record

    def _claim(self, record: RunRecord, stated: StatedCase | None) -> tuple[RunRecord, bool]:
        record, is_kept = self.claim(record, stated)
        self.goes_on = self.goes_on or is_kept
        return record, is_kept

    def _judge_all(self) -> Iterator[tuple[Trace, CaseResult]]:
        for result in self.results:
            yield Trace() if result.trace is None else result.trace, result


def name_trace(trace: Trace, row: str = "") -> str:
    """The case named by a trace, or the row of the eval with its name: `refunds[t-17]`."""
    stated = read_case(trace)
    if stated is not None:
        return stated.case
    row = row or trace.trace_id
    return f"{trace.name}[{row}]" if trace.name else f"#{row}"


def read_expectation(told: object) -> Expected:
    """The expectations in a trace; a value that is no object is the expected output."""
    return Expected.read(told)


def read_expectations(lines: Iterable[str], source: str) -> dict[str, Expected]:
    """Expectations by trace id, from JSON lines such as `{"trace_id": "t-1", "output": "..."}`."""
    found: dict[str, Expected] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = Place(source=source, line=number)
        try:
            told = msgspec.json.decode(line, type=dict[str, Any])
            trace_id = told.pop("trace_id", None) or told.pop("traceId", None)
            known = read_expectation(told.get("expected", told))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidInput(f"not a JSON object: {error}", place=place) from None
        except InvalidInput as error:
            raise InvalidInput(error.problems[0].message, place=place) from None
        if not isinstance(trace_id, str):
            raise InvalidInput("a line needs the key 'trace_id', a text", place=place)
        if trace_id in found:
            raise InvalidInput(f"the trace {trace_id!r} has two lines", place=place)
        found[trace_id] = known
    return found


def _require_list(given: Any, what: str) -> Any:
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping):
        return given
    raise InvalidInput(f"{what} must be a list of {what}, not {show_value(given)}")


def _require_scorers(given: Sequence[Scorer]) -> tuple[Scorer, ...]:
    scorers = [require_scorer(each, "scoring") for each in _require_list(given, "scorers")]
    names = [scorer.name for scorer in scorers]
    if not names:
        raise InvalidInput("there is no scorer to score with")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        hint = f'give one another name, as in {twice}(name="{twice}_2")'
        raise InvalidInput(f"more than one scorer is named {twice!r}", hint=hint)
    return tuple(scorers)

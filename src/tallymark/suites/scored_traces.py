"""Scoring traces that already exist, one at a time, however many there are."""

from __future__ import annotations

import hashlib
import heapq
import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.errors import InvalidInput, Place, TraceError
from tallymark.runs.case_verdict import DEFAULT_THRESHOLD, judge_trace
from tallymark.runs.ongoing_run import OngoingRun, make_id, open_keeper
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
from tallymark.traces import Trace
from tallymark.traces.lenient_json import as_count, as_label, as_mapping

if TYPE_CHECKING:
    from pathlib import Path

    from tallymark.runs.ongoing_run import RunKeeper
    from tallymark.runs.record import CaseResult, CaseStatus
    from tallymark.scoring import Score

RESULTS_SHOWN = 20
"""How many results of each status are at hand when all are scored."""
MOST_CASES = 50_000
"""Traces that are counted one by one; others are counted together, which bounds the memory."""
_NOTHING = Expected()
_MOST_EPOCHS = 1_000_000
"""What counts further counts something else."""


class TraceJudge:
    """Scores traces, and says what came of each."""

    def __init__(
        self,
        scorers: Sequence[Scorer],
        *,
        threshold: float | None = None,
        timeout: float | None = None,
        expected: Mapping[str, Expected] | None = None,
        on_broken: Callable[[TraceError], object] | None = None,
    ) -> None:
        """As `ScoredTraces` takes them."""
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
            check_trace(trace)  # says which of its values is of the wrong kind
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


class ScoredTraces:
    """Iterating gives the result of each trace in turn; `run` tells what they come to.

    It can be iterated once. With a `store`, the run is kept there as the traces come.
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
        """`expected` is by trace id; a trace may also say it itself, in `metadata["expected"]`.

        Expectations that cannot be read are raised, or given to `on_broken` and passed over.
        `chosen_by` is told where the traces are some of more.
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
        """Whether the run was begun before."""
        self._ongoing: OngoingRun | None = None
        self._shown: dict[CaseStatus, list[tuple[float, int, CaseResult]]] = {}
        self._keys: set[str | tuple[str, int]] = set()
        """What there is a result of: a case, or beyond its first epoch both."""
        self._last_epochs: dict[str, int] = {}
        """Of the cases that traces say."""
        self._count = 0
        self.same_ids: dict[str, int] = {}
        """How many traces have the name and id of one before them, by the case of that one."""

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
            formula=self._formula.text,
            tags={"door": "traces", **({"chosen": {"by": chosen_by}} if chosen_by else {})},
        )

    def __iter__(self) -> Generator[CaseResult]:
        if self._ongoing is not None:
            raise InvalidInput("these traces were scored already", hint="make new ScoredTraces")
        judged = self._judge_all()
        first = next(judged, None)
        if first is None:  # nothing happened, so there is nothing to keep
            return
        with open_keeper(self._store) as keeper:
            tally = Tally(most_cases=MOST_CASES)
            ongoing = self._ongoing = OngoingRun(
                self._record, self._formula, keeper=keeper, tally=tally
            )
            if keeper is not None and not self.goes_on:
                keeper.create_run(self._record)
            with ongoing:
                for result in chain([first], judged):
                    self._show(result)
                    ongoing.add(result)
                    yield result
                ongoing.ending = "finished"
                epochs = max(self._last_epochs.values(), default=0) + 1
                ongoing.record = msgspec.structs.replace(
                    ongoing.record, total=self._count, epochs=epochs
                )

    @property
    def run(self) -> Run:
        """What the results so far come to, with the worst and the first of them."""
        if self._ongoing is None:
            return Run(self._record, [], kept=False)
        shown = (
            [result for *_, result in sorted(self._shown.get(status, ()), reverse=True)]
            for status in ("failed", "error", "passed")
        )
        return self._ongoing.make_run([each for some in shown for each in some])

    @property
    def unmet(self) -> int:
        """How many of the expectations were for traces that have not come."""
        return len(self._judge.expected) - len(self._met)

    def _judge_all(self) -> Iterator[CaseResult]:
        for trace, scores in self._judge.score_all(self._traces):
            yield self._judge.judge(*self._find_key(trace), trace, scores)

    def _find_key(self, trace: Trace) -> tuple[str, int]:
        """The case of a trace, and which of its epochs it is."""
        self._count += 1
        if trace.trace_id in self._judge.expected:
            self._met.add(trace.trace_id)
        stated = read_case(trace)
        if stated is not None:
            return self._take_epoch(*stated)
        row = trace.trace_id or str(self._count)
        case = name_trace(trace, row)
        if self._store is None:
            return case, 0
        if case in self._keys:  # an id that is used twice must not cost a result
            self.same_ids[case] = self.same_ids.get(case, 0) + 1
            case = f"{trace.name}[{row} {self._count}]" if trace.name else f"#{row} {self._count}"
        self._keys.add(case)
        return case, 0

    def _take_epoch(self, case: str, epoch: int) -> tuple[str, int]:
        """An epoch that is there already, as in the log of another run, is one more."""
        last = self._last_epochs.get(case, 0)
        if ((case, epoch) if epoch else case) in self._keys:
            epoch = last + 1
        self._keys.add((case, epoch) if epoch else case)
        self._last_epochs[case] = max(last, epoch)
        return case, epoch

    def _show(self, result: CaseResult) -> None:
        """Keeps the failed ones furthest below a threshold, and the first of the others."""
        shown = self._shown.setdefault(result.status, [])
        # No value is under 0, so none is further below than the highest threshold.
        if len(shown) >= RESULTS_SHOWN and shown[0][0] >= self._furthest:
            return
        margin = 0.0
        if result.status == "failed":
            for check in result.checks:
                if check.value is not None and check.threshold is not None:
                    margin = max(margin, check.threshold - check.value)
        if len(shown) >= RESULTS_SHOWN and margin <= shown[0][0]:
            return
        # The number settles ties, since results have no order: of equals, the earlier is kept.
        entry = (margin, -self._count, result)
        if len(shown) < RESULTS_SHOWN:
            heapq.heappush(shown, entry)
        else:
            heapq.heappushpop(shown, entry)


class JudgedTraces(ScoredTraces):
    """The same for traces that are judged elsewhere."""

    def __init__(self, scorers: Sequence[Scorer], **options: Any) -> None:
        """`options` are those of `ScoredTraces`."""
        super().__init__((), scorers, **options)
        self.results: Iterable[CaseResult] = ()
        """Of the traces, in their order."""

    @property
    def scorers(self) -> tuple[Scorer, ...]:
        """What judges them."""
        return self._scorers

    @property
    def record(self) -> RunRecord:
        """The run as it begins."""
        return self._record

    def go_on(self, record: RunRecord, *, is_kept: bool = True) -> None:
        """Has it be a run that was begun before; what is kept is not made again."""
        self._record, self.goes_on = record, is_kept

    def _judge_all(self) -> Iterator[CaseResult]:
        for result in self.results:
            trace = Trace() if result.trace is None else result.trace
            case, epoch = self._find_key(trace)
            yield msgspec.structs.replace(result, case=case, epoch=epoch)


def read_case(trace: Trace) -> tuple[str, int] | None:
    """The case that a trace says it is of, with its epoch; None where it does not say both.

    Sources count epochs from 1, results from 0.
    """
    told = as_mapping(trace.metadata)
    if "case" not in told:
        return None
    case, epoch = as_label(told["case"]), as_count(told.get("epoch"))
    if case is None or epoch is None or epoch > _MOST_EPOCHS:
        return None
    return case, max(0, epoch - 1)


def name_trace(trace: Trace, row: str = "") -> str:
    """The case that a trace says, or a row of the eval that it has the name of: `refunds[t-17]`."""
    stated = read_case(trace)
    if stated is not None:
        return stated[0]
    row = row or trace.trace_id
    return f"{trace.name}[{row}]" if trace.name else f"#{row}"


def read_expectation(told: object) -> Expected:
    """What a trace's author expects; what is no object is the expected output."""
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

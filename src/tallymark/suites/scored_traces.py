"""Scoring traces that already exist, one at a time, however many there are."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.errors import InvalidInput, Place, TraceError
from tallymark.runs.metrics import (
    FormulaScore,
    MetricValues,
    RunMetrics,
    apply_formula,
    formula_facts,
    sum_spending,
)
from tallymark.runs.scorer_summary import ScorerSummary, ScorerTally
from tallymark.scoring import Config, EvalContext, Expected, Scorer
from tallymark.scoring.score import make_json_safe
from tallymark.suites.python_suites.suite_and_test import (
    DEFAULT_THRESHOLD,
    DEFAULT_TIMEOUT,
    pick_first,
    require_threshold,
    require_timeout,
)
from tallymark.suites.python_suites.suite_report import TestResult, judge_trace
from tallymark.suites.report_text import render_stored
from tallymark.traces import Trace

if TYPE_CHECKING:
    from tallymark.formula import Formula
    from tallymark.scoring import Score

WORST_SHOWN = 10
"""How many of the traces that did not pass the summary shows."""
_NOTHING = Expected()


class StoredSummary(msgspec.Struct, frozen=True):
    """What the scores of stored traces come to."""

    traces: int
    passed: int
    scorers: dict[str, ScorerSummary]
    thresholds: dict[str, float]
    metrics: MetricValues
    worst: list[TestResult]
    """The worst of those that did not pass, worst first."""
    formula: FormulaScore | None = None

    def render(self) -> str:
        """The summary for people, at most 80 columns where names allow."""
        return render_stored(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values that any JSON writer takes."""
        return {
            "traces": self.traces,
            "passed": self.passed,
            "scorers": make_json_safe(self.scorers),
            "thresholds": self.thresholds,
            "metrics": self.metrics,
            **formula_facts(self.formula),
            "worst": [
                {"trace_id": each.trace.trace_id, **each.to_dict(trace=False)}
                for each in self.worst
            ],
        }


class ScoredTraces:
    """Iterating gives the result of each trace in turn; `summary` tells what they come to."""

    def __init__(
        self,
        traces: Iterable[Trace],
        scorers: Sequence[Scorer],
        *,
        threshold: float | None = None,
        timeout: float | None = None,
        expected: Mapping[str, Expected] | None = None,
        on_broken: Callable[[TraceError], object] | None = None,
    ) -> None:
        """`expected` is by trace id; a trace may also say it itself, in `metadata["expected"]`.

        Expectations that cannot be read are raised, or given to `on_broken` and passed over.
        """
        own = require_threshold("scoring", threshold)
        seconds = require_timeout("scoring", timeout) or DEFAULT_TIMEOUT
        self._traces = traces
        self._scorers = _require_scorers(scorers)
        self._thresholds = {
            each.name: pick_first(own, each.threshold, DEFAULT_THRESHOLD) for each in self._scorers
        }
        self._config = Config(
            timeout=None if math.isinf(seconds) else seconds,
            threshold=pick_first(own, DEFAULT_THRESHOLD),
        )
        self._expected = expected or {}
        self._met: set[str] = set()
        self._on_broken = on_broken
        self._tallies = [ScorerTally(each.origin) for each in self._scorers]
        self._metrics = RunMetrics()
        self._worst: list[tuple[float, int, TestResult]] = []

    def __iter__(self) -> Iterator[TestResult]:
        if all(scorer.inline for scorer in self._scorers):
            return self._score_in_place()
        return self._score_in_loop()

    def summary(self, formula: Formula | None = None) -> StoredSummary:
        """What the results so far come to."""
        scorers = {
            each.name: tally.summary()
            for each, tally in zip(self._scorers, self._tallies, strict=True)
        }
        means = {name: each.mean for name, each in scorers.items()}
        return StoredSummary(
            self._metrics.cases,
            self._metrics.passed,
            scorers,
            self._thresholds,
            self._metrics.values(),
            [result for *_, result in sorted(self._worst, reverse=True)],
            None if formula is None else apply_formula(formula, self._metrics, means),
        )

    @property
    def unmet(self) -> int:
        """How many of the expectations were for traces that have not come."""
        return len(self._expected) - len(self._met)

    def _score_in_place(self) -> Iterator[TestResult]:
        scorers = self._scorers
        for ctx in self._make_contexts():
            yield self._judge_trace(ctx.trace, [scorer.score(ctx) for scorer in scorers])

    def _score_in_loop(self) -> Iterator[TestResult]:
        """Many traces at the same time, their results in the order of the traces."""
        from tallymark.suites.trace_loop import score_in_loop  # noqa: PLC0415 (asyncio is heavy)

        scored = score_in_loop(self._scorers, self._make_contexts(), self._config.timeout)
        for trace, scores in scored:
            yield self._judge_trace(trace, scores)

    def _make_contexts(self) -> Iterator[EvalContext]:
        config = self._config
        for trace in self._traces:
            try:
                expected = self._find_expectation(trace)
            except TraceError as error:
                if self._on_broken is None:
                    raise
                self._on_broken(error)
                continue
            yield EvalContext(trace, expected, trace.metadata, config)

    def _find_expectation(self, trace: Trace) -> Expected:
        known = self._expected.get(trace.trace_id)
        if known is not None:
            self._met.add(trace.trace_id)
            return known
        told = trace.metadata.get("expected")
        if told is None:
            return _NOTHING
        try:
            return read_expectation(told)
        except InvalidInput as error:
            place = Place(source=f"trace {trace.trace_id or trace.name!r}")
            raise TraceError(error.problems[0].message, place=place) from None

    def _judge_trace(self, trace: Trace, found: list[Score]) -> TestResult:
        result = judge_trace(trace.name, 1, self._thresholds, trace, found)
        for tally, score in zip(self._tallies, found, strict=True):
            tally.add(score)
        passed = True if result.passed else None if result.status == "error" else False
        self._metrics.add(passed=passed, duration_ms=trace.duration_ms, cost=sum_spending(trace)[0])
        if not passed:
            self._note_bad(result)
        return result

    def _note_bad(self, result: TestResult) -> None:
        """Keep the worst: those furthest below a threshold, and last those without a value."""
        margin = -1.0
        for name, score in result.scores.items():
            if score.value is not None:
                margin = max(margin, self._thresholds[name] - score.value)
        # The number settles ties, since results have no order: of equals, the earlier is kept.
        entry = (margin, -self._metrics.cases, result)
        if len(self._worst) < WORST_SHOWN:
            heapq.heappush(self._worst, entry)
        else:
            heapq.heappushpop(self._worst, entry)


def read_expectation(told: object) -> Expected:
    """What a trace's author expects; a text alone is the expected output."""
    if isinstance(told, str):
        return Expected(output=told)
    if not isinstance(told, Mapping):
        raise InvalidInput(f"expected must be an object or a text, not {type(told).__name__}")
    return Expected.from_dict(told, "expected")


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


def _require_scorers(scorers: Sequence[Scorer]) -> tuple[Scorer, ...]:
    names = [scorer.name for scorer in scorers]
    if not names:
        raise InvalidInput("there is no scorer to score with")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        hint = f'give one another name, as in {twice}(name="{twice}_2")'
        raise InvalidInput(f"more than one scorer is named {twice!r}", hint=hint)
    return tuple(scorers)

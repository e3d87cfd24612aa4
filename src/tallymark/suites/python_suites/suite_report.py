"""What a run gave: a `TestResult` for every test and epoch, and the `Report` over all of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from tallymark.runs.metrics import FormulaScore, RunMetrics, apply_formula, parse_formula
from tallymark.runs.scorer_summary import ScorerSummary, ScorerTally
from tallymark.scoring.score import Score, make_json_safe
from tallymark.suites.report_text import attribute_error, render_report
from tallymark.traces import Trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tallymark.scoring import Origin

TestStatus = Literal["passed", "failed", "error"]
THRESHOLD_ROUNDING = 1e-9
"""A value this little below its threshold reaches it: weighted sums round."""


def score_facts(score: Score) -> dict[str, Any]:
    """A score as it is written beside many others: its config stands once, in the summary."""
    return {
        "value": score.value,
        "label": score.label,
        "reason": score.reason,
        "error": score.error,
        "metadata": score.metadata,
        "version": None if score.origin is None else score.origin.version,
    }


class TestResult(msgspec.Struct, frozen=True, gc=False):
    """One test's outcome in one epoch."""

    __test__: ClassVar[bool] = False  # pytest: this is not one of your tests

    name: str
    epoch: int
    passed: bool
    scores: dict[str, Score]
    thresholds: dict[str, float]
    """The value that each scorer has to reach."""
    trace: Trace
    error: str | None = None
    """Why the test could not be judged: what the agent, or a scorer, did wrong."""

    @property
    def output(self) -> str:
        """What the agent answered."""
        return self.trace.last_output

    @property
    def duration_ms(self) -> float:
        """How long the agent took."""
        return self.trace.duration_ms

    @property
    def cost(self) -> float | None:
        """US dollars; None when no span knows its cost."""
        return self.trace.cost

    @property
    def tokens(self) -> int | None:
        """Input and output tokens together; None when no span knows them."""
        return self.trace.tokens

    @property
    def status(self) -> TestStatus:
        """An error is not a fail: a test fails when a scorer's value is below its threshold."""
        if self.passed:
            return "passed"
        return "failed" if any(map(self.missed, self.scores)) else "error"

    def missed(self, scorer: str) -> bool:
        """True when the scorer gave a value below its threshold."""
        value = self.scores[scorer].value
        return value is not None and value + THRESHOLD_ROUNDING < self.thresholds[scorer]

    def problems(self) -> list[str]:
        """One line for everything that kept the test from passing."""
        lines = [] if self.error is None or self.scores else [self.error]
        for name, score in self.scores.items():
            if self.missed(name):
                said = f": {score.reason}" if score.reason else ""
                lines.append(f"{name} {score.value:.2f} < {self.thresholds[name]:.2f}{said}")
            elif score.error is not None:
                lines.append(attribute_error(name, score.error))
        return lines

    def to_dict(self, *, trace: bool = True) -> dict[str, Any]:
        """Plain values that any JSON writer takes; the trace if wanted."""
        plain: dict[str, Any] = {
            "name": self.name,
            "epoch": self.epoch,
            "status": self.status,
            "passed": self.passed,
            "scores": {name: score_facts(each) for name, each in self.scores.items()},
            "thresholds": self.thresholds,
            "output": self.output,
            "duration_ms": self.duration_ms,
            "cost": self.cost,
            "tokens": self.tokens,
            "error": self.error,
        }
        if trace:
            plain["trace"] = self.trace.to_dict()
        safe: dict[str, Any] = make_json_safe(plain)
        return safe


def judge_trace(
    name: str, epoch: int, thresholds: dict[str, float], trace: Trace, found: Iterable[Score]
) -> TestResult:
    """The result of a trace that was scored: it passes when every score reaches its threshold.

    A failed score keeps it from passing; a label without a number has nothing to reach.
    """
    scores = dict(zip(thresholds, found, strict=True))
    passed = True
    error = None
    for scorer, score in scores.items():
        value = score.value
        if value is None:
            error = error or score.error
            passed &= score.error is None
        elif value + THRESHOLD_ROUNDING < thresholds[scorer]:
            passed = False
    return TestResult(name, epoch, passed, scores, thresholds, trace, error)


class Report(msgspec.Struct, frozen=True):
    """A whole run: its results, in the order of the tests, and what they come to."""

    suite: str
    results: list[TestResult]
    scorers: dict[str, ScorerSummary]
    duration_ms: float
    planned: int
    """How many results there would be if nobody had stopped the run."""

    @property
    def interrupted(self) -> bool:
        """True when the run was stopped before its end."""
        return len(self.results) < self.planned

    @property
    def passed(self) -> bool:
        """True when every test ran and passed."""
        return not self.interrupted and all(result.passed for result in self.results)

    @property
    def counts(self) -> dict[TestStatus, int]:
        """How many results passed, failed, or could not be judged."""
        found = Counter(result.status for result in self.results)
        return {"passed": found["passed"], "failed": found["failed"], "error": found["error"]}

    @property
    def pass_rate(self) -> float | None:
        """The share of results that passed; None when there are none."""
        return self.counts["passed"] / len(self.results) if self.results else None

    @property
    def metrics(self) -> RunMetrics:
        """The run-wide metrics."""
        metrics = RunMetrics()
        for result in self.results:
            passed = None if result.status == "error" else result.passed
            metrics.add(passed=passed, duration_ms=result.duration_ms, cost=result.cost)
        return metrics

    def score(self, formula: str) -> FormulaScore:
        """What a formula over the run-wide metrics and the scorers' means gives."""
        means = {name: each.mean for name, each in self.scorers.items()}
        return apply_formula(parse_formula(formula, means), self.metrics, means)

    def render(self) -> str:
        """The report for people, at most 80 columns where names allow."""
        return render_report(self)

    def to_dict(self, *, traces: bool = True) -> dict[str, Any]:
        """Everything as plain values that any JSON writer takes; the traces if wanted."""
        return {
            "suite": self.suite,
            "passed": self.passed,
            "interrupted": self.interrupted,
            "planned": self.planned,
            "counts": dict(self.counts),
            "pass_rate": self.pass_rate,
            "duration_ms": self.duration_ms,
            "scorers": make_json_safe(self.scorers),
            "metrics": self.metrics.values(),
            "results": [result.to_dict(trace=traces) for result in self.results],
        }


def summarise_scorers(
    results: Iterable[TestResult], origins: Mapping[str, Origin | None]
) -> dict[str, ScorerSummary]:
    """Each scorer, by its name, over all results that it was to judge."""
    tallies = {name: ScorerTally(origin) for name, origin in origins.items()}
    for result in results:
        for name in result.thresholds:
            score = result.scores.get(name)
            if score is None:
                tallies[name].miss(result.error or "it was not scored")
            else:
                tallies[name].add(score, cluster=result.name)
    return {name: tally.summary() for name, tally in tallies.items()}

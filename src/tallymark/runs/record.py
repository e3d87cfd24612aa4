"""Stored records of a run, which the store writes and reports and comparisons read.

A run is one suite against one model or agent, or a set of scored traces; several models in one
command make several runs that share a `group`. A case result is stored as soon as it exists, so
these are structs without validation; they cannot form cycles, so the garbage collector can skip
them.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from tallymark.judging.spending import JudgeSpending
from tallymark.runs.repeats import Repeats
from tallymark.runs.scorer_summary import ScorerSummary
from tallymark.traces import Trace

RunStatus = Literal[
    "queued", "running", "completed", "partial_failure", "failed", "cancelled", "interrupted"
]
"""`interrupted` is a run that has no worker and did not end."""
SENT_TAG = "sent"
"""Tag of rescored runs whose suite now asks other questions."""
NOTES_TAG = "rescore_notes"
"""A tag of runs rescored by a suite: where its questions are others than those that were asked."""
CaseStatus = Literal["passed", "failed", "error"]


class CheckResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Result of one check."""

    kind: str
    """Type as in the suite: `match`, `max_tokens`, `scorer`, `or`."""
    passed: bool
    reason: str = ""
    name: str | None = None
    """Of a `scorer` check: its name in formulas."""
    value: float | None = None
    """Of a `scorer` check: its value."""
    label: str | None = None
    """Of a `scorer` check: its label, with or without a value."""
    threshold: float | None = None
    """Of a `scorer` check: its threshold."""
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    """Of a `scorer` check: its metadata."""
    version: str | None = None
    """Of a `scorer` check: its version, or a hash of its code."""
    error: str | None = None
    """Why the check itself could not be done; unless another check failed, the case is an error."""
    parts: tuple[CheckResult, ...] = ()
    """Results of the alternatives of an `or`."""
    judge: JudgeSpending | None = None
    """Cost of judges; None if none was called."""


class CaseResult(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One case, run once."""

    case: str
    """The case's name, or `#3` for the third case when it has none."""
    name: str = ""
    """The case as people call it; filled in where a result is shown."""
    epoch: int = 0
    status: CaseStatus
    input: str = ""
    """The prompt with templates filled in; of a conversation, the user's turns."""
    output: str = ""
    checks: tuple[CheckResult, ...] = ()
    latency: float | None = None
    """Seconds."""
    cost: float | None = None
    """US dollars; None when the price is not known."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    tokens_counted_by: Literal["provider", "local"] | None = None
    error: str | None = None
    tries: int = 1
    """Number of attempts; in a conversation, of the turn that needed most."""
    trace: Trace | None = None

    @property
    def key(self) -> tuple[str, int]:
        """Identity of a result within a run."""
        return (self.case, self.epoch)

    @property
    def passed(self) -> bool:
        """True when it ran and every check passed."""
        return self.status == "passed"

    @property
    def scores(self) -> dict[str, CheckResult]:
        """Scores by name, including each of several scores of one call."""
        found = {check.name: check for check in self.checks if check.name is not None}
        for check in self.checks:
            if check.parts and check.kind == "scorer":
                found |= {part.name: part for part in check.parts if part.name is not None}
        return found

    @property
    def tokens(self) -> int | None:
        """Input and output tokens together; None when neither is known."""
        known = [each for each in (self.input_tokens, self.output_tokens) if each is not None]
        return sum(known) if known else None


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One run, summed up: a suite against a model or an agent, or traces by scorers."""

    id: str
    suite: str
    model: str
    status: RunStatus = "queued"
    group: str | None = None
    """Shared by the runs of one command."""
    definition: str = ""
    """The suite as JSON without filled-in templates, so that it contains no secrets; empty unless
    requested.
    """
    definition_hash: str = ""
    epochs: int = 1
    created_at: float = 0.0
    """Unix time in seconds, UTC; so are the next two."""
    started_at: float | None = None
    finished_at: float | None = None
    score_formula: str = "success_pct"
    score: float | None = None
    score_error: str | None = None
    """Why there is no score, in words."""
    score_low: float | None = None
    """The 95 % interval of the score."""
    score_high: float | None = None
    metrics: dict[str, float | None] = msgspec.field(default_factory=dict)
    """Every name that the formula could use, with its value."""
    passed: int = 0
    failed: int = 0
    errors: int = 0
    total: int = 0
    """Expected number of results; 0 if unknown before the end."""
    error: str | None = None
    """Why the run as a whole failed."""
    tags: dict[str, Any] = msgspec.field(default_factory=dict)

    @property
    def ran(self) -> int:
        """Results that passed or failed."""
        return self.passed + self.failed

    @property
    def finished(self) -> int:
        """Results, errors included."""
        return self.ran + self.errors

    @property
    def expected(self) -> int:
        """Results that it has or should have."""
        return max(self.total, self.finished)

    @property
    def seconds(self) -> float | None:
        """Time from start to end."""
        if self.started_at is None or self.finished_at is None:
            return None
        return self.finished_at - self.started_at

    @property
    def cost(self) -> float | None:
        """US dollars."""
        return self.metrics.get("total_cost")

    @property
    def latency(self) -> float | None:
        """Mean seconds."""
        return self.metrics.get("avg_latency")

    def explain_no_score(self) -> str:
        """Why there is no score, in words."""
        ran = self.passed or self.failed
        reason = "it was not scored" if ran else "the run has no result yet"
        return self.score_error or self.error or reason

    @property
    def may_repeat(self) -> bool:
        """True if cases may run more than once, by the run or by an eval."""
        return self.epochs > 1 or '"epochs":' in self.definition


class RepeatedCases(msgspec.Struct, frozen=True, kw_only=True):
    """Mean, pass@k and pass^k of repeated cases."""

    all: Repeats | None
    cases: dict[str, Repeats]


class RunDetails(RunRecord, frozen=True, kw_only=True):
    """A run with what was computed from its results."""

    score_interval_error: str | None = None
    """Reason why the score has no interval."""
    scorers: dict[str, ScorerSummary] = msgspec.field(default_factory=dict)
    explanation: dict[str, Any] | None = None
    """The formula with the values of the run, and the contribution of each term."""
    repeats: RepeatedCases | None = None
    """None if every case ran once."""

"""Runs: executed here or sent finished, listed, compared, scored again."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from tallymark.wire.parts import Asked, Listed, Moment, Numbers, Told

Model = Annotated[
    str, Field(min_length=1, max_length=500, description="As `-m` takes it: provider/name.")
]
Status = Literal[
    "queued",
    "running",
    "completed",
    "partial_failure",
    "failed",
    "cancelled",
    "interrupted",
]


class NewRun(Asked):
    """A suite to execute, or a run that was executed elsewhere with its results."""

    suite: str | dict[str, Any] | None = Field(
        None,
        description="The suite, as YAML text or as its JSON.",
        examples=["evals:\n  - prompt: Say hello\n    checks: [{match: '*hello*'}]\n"],
    )
    name: str | None = Field(
        None, min_length=1, max_length=500, description="Of a suite that gives itself none."
    )
    models: list[Model] = Field(default_factory=list, max_length=20, examples=[["echo/me"]])
    limit: int | None = Field(None, ge=1, description="At most so many cases.")
    epochs: int | None = Field(None, ge=1, le=1000)
    threads: int | None = Field(None, ge=1, le=1000, description="Most requests at once.")
    timeout: float | None = Field(None, gt=0, le=1e6, description="Seconds for a request.")
    budget: float | None = Field(None, gt=0, description="US dollars, judges included.")
    judge: Model | None = None
    vars: dict[str, str] = Field(default_factory=dict, max_length=1000)
    run: dict[str, Any] | None = Field(
        None,
        description="A finished run, as `tally run --json` gives it: record and `results`. With"
        " an id of yours in `keep_as` it may be sent again, or in parts: `more` says that others"
        " follow.",
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> NewRun:
        if (self.suite is None) == (self.run is None):
            raise ValueError("give either 'suite', to execute it, or 'run', finished elsewhere")
        return self


class RunChange(Asked):
    """What is changed of a run that has ended."""

    name: str = Field(min_length=1, max_length=200, description="Shown beside its id.")
    reason: str = Field("", max_length=2000, description="Why; kept in the log.")


class Interval(Told):
    """A 95 % interval."""

    low: float
    high: float


class RunCounts(Told):
    """How many results ended in which way."""

    passed: int
    failed: int
    errors: int
    missing: int


class Run(Told):
    """One run, summed up."""

    id: str
    suite: str
    model: str
    prompt: str | None = Field(None, description="Which of a suite's prompts, where it has some.")
    status: Status
    group: str | None = None
    score: float | None
    score_formula: str
    score_error: str | None = None
    score_interval: Interval | None = None
    score_interval_error: str | None = Field(None, description="Why there is none.")
    success_pct: float | None = None
    total_cost: float | None = None
    counts: RunCounts
    metrics: Numbers
    scorers: dict[str, Any] = Field(default_factory=dict)
    explanation: dict[str, Any] | None = None
    repeats: dict[str, Any] | None = Field(None, description="How sure repeated cases are.")
    epochs: int
    definition_hash: str = ""
    created_at: Moment
    started_at: Moment | None = None
    finished_at: Moment | None = None
    error: str | None = None
    tags: dict[str, Any] = Field(default_factory=dict)
    record: dict[str, Any] | None = Field(
        None, description="With `kept`: the run field by field, as it is kept."
    )


class OneRun(Told):
    """A run."""

    run: Run


class StartedRuns(Told):
    """What was stored or queued: the first run, all of them, and the job that does it."""

    run: Run
    runs: list[Run]
    job: str | None = None
    jobs: list[str] = Field(default_factory=list)
    differences: list[list[dict[str, Any]]] = Field(
        default_factory=list,
        description="Of each run that was sent, where it said other numbers than its results.",
    )


class RunPage(Listed[Run]):
    """Runs, newest first unless sorted otherwise."""


class Case(Told):
    """One case of a run, asked once."""

    case: str
    name: str
    epoch: int
    status: Literal["passed", "failed", "error"]
    input: str
    output: str
    checks: list[dict[str, Any]]
    latency: float | None
    cost: float | None
    input_tokens: int | None = None
    output_tokens: int | None = None
    tokens_counted_by: Literal["provider", "local"] | None = None
    error: str | None
    tries: int = 1
    trace: dict[str, Any] | None = Field(None, description="With `traces`: what the agent did.")


class CasePage(Listed[Case]):
    """Results in the order of case names and epochs."""


class RunRescore(Asked):
    """Another formula, or another suite, for a run's results. No model is asked."""

    formula: str | None = Field(None, min_length=1, max_length=4096, examples=["success_pct"])
    suite: str | dict[str, Any] | None = None

    @model_validator(mode="after")
    def _one_at_least(self) -> RunRescore:
        if self.formula is None and self.suite is None:
            raise ValueError("give 'formula' or 'suite'")
        return self


class RescoredRun(Told):
    """A run as it was and as it is by another rule; `saved_as` names the new run.

    `notes` say where another suite asks something else than the run did.
    """

    before: Run
    after: Run
    saved_as: str | None
    notes: list[str] = Field(default_factory=list)


class Comparison(Told):
    """Runs against the first of them."""

    comparisons: list[dict[str, Any]]

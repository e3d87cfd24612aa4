"""Tools of those who measure agents: formulas, runs of suites, comparisons."""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated, Any

import msgspec
from mcp.server.mcpserver import Context
from pydantic import BaseModel, Field, WithJsonSchema

from tallymark.mcp.competing import Key
from tallymark.mcp.tool_server import make_tool, open_call
from tallymark.runs.record import CaseResult, CaseStatus, RunRecord
from tallymark.service.callers import ORGANISERS, PUBLIC, TEAM
from tallymark.service.formulas import Formulas
from tallymark.service.jobs import WAIT_SECONDS
from tallymark.service.runs import Runs

Ctx = Context[Any, Any]
Formula = Annotated[
    str, Field(min_length=1, max_length=4096, examples=["success_pct - 100 * cost"])
]
RunId = Annotated[str, Field(max_length=200, description="A run's id, or `latest`.")]
_NOT_PASSED: tuple[CaseStatus, ...] = ("failed", "error")
_WAITING = ("queued", "running")
_MOST_CASES = 20
_MOST_CHANGES = 50
_MOST_TEXT = 1000
"""Characters of a prompt and of an answer."""


class FormulaChecked(BaseModel):
    """Mistakes in a formula, or the range of its scores."""

    valid: bool
    formula: str
    names: list[str]
    problems: list[str]
    findings: list[str]


class FormulaExplained(BaseModel):
    """A formula with values."""

    formula: str
    substituted: str = Field(description="The formula with numbers in the place of names.")
    score: float | None
    score_error: str | None
    terms: list[dict[str, Any]] = Field(description="What each term contributes, and its share.")


ShownRun = Annotated[
    dict[str, Any],
    WithJsonSchema(msgspec.json.schema_components([RunRecord])[1]["RunRecord"]),
]


class RunList(BaseModel):
    """Runs of a suite, one for each model and prompt."""

    runs: list[ShownRun]
    finished: bool
    next_step: str


class RunRead(BaseModel):
    """A run, and the first cases that did not pass."""

    run: ShownRun
    not_passed: list[dict[str, Any]] = Field(
        description="Each with `case`, `status`, `error` and `checks` with the reason of each."
    )


class Comparisons(BaseModel):
    """Runs against the first of them: `verdict.outcome`, `verdict.reason` and `changes` of each."""

    comparisons: list[dict[str, Any]]


def check_formula(
    ctx: Ctx,
    formula: Formula,
    names: Annotated[
        list[str] | None,
        Field(description="Named evals that it may use in addition to the metrics of a run."),
    ] = None,
) -> FormulaChecked:
    """Check a scoring formula before anything runs: what is wrong with it and where, or what its
    scores can be and which surprises it holds (division by zero, a score that rises with cost).
    """
    with open_call(ctx, PUBLIC) as call:
        found = Formulas(call.services, call.caller).check(formula, names or ())
        return FormulaChecked(
            valid=found.valid,
            formula=found.formula,
            names=found.names,
            problems=[_write_problem(each) for each in msgspec.to_builtins(found.problems)],
            findings=[_write_problem(each) for each in msgspec.to_builtins(found.findings)],
        )


def explain_formula(
    ctx: Ctx,
    formula: Formula,
    values: Annotated[
        dict[str, float | None],
        Field(description='Numbers for its names, null for unknown: {"success_pct": 80}.'),
    ],
) -> FormulaExplained:
    """Work out a formula with values, and see what each of its terms contributes to the score."""
    with open_call(ctx, PUBLIC) as call:
        found = msgspec.to_builtins(Formulas(call.services, call.caller).explain(formula, values))
        return FormulaExplained(**{name: found[name] for name in FormulaExplained.model_fields})


async def run_suite(  # noqa: PLR0913, PLR0917 (what a run has; tools are called by name)
    ctx: Ctx,
    suite: Annotated[str, Field(description="The suite as YAML text: `evals:` and its cases.")],
    models: Annotated[
        list[str] | None,
        Field(description="provider/name each; leave it out if the suite names one."),
    ] = None,
    limit: Annotated[int | None, Field(ge=1, description="Run only the first N cases.")] = None,
    epochs: Annotated[int | None, Field(ge=1, le=1000)] = None,
    budget: Annotated[float | None, Field(gt=0, description="US dollars.")] = None,
    idempotency_key: Key = None,
) -> RunList:
    """Run an eval suite against one or more models and get the scores. It waits up to 30 seconds;
    longer runs continue, and read_run shows their progress. compare_runs compares two.
    """
    with open_call(ctx, ORGANISERS, "work") as call:
        runs = Runs(call.services, call.caller)
        create = partial(
            runs.create_once,
            idempotency_key,
            suite=suite,
            models=models or [],
            limit=limit,
            epochs=epochs,
            budget=budget,
        )
        queued = await call.run(create)
        deadline = time.monotonic() + WAIT_SECONDS
        for job in queued.jobs:
            await call.services.jobs.await_end(job, max(0.0, deadline - time.monotonic()))
        found = [await call.run(runs.get, each.id, patient=True) for each in queued.runs]
        finished = all(each.status not in _WAITING for each in found)
        step = "call read_run for what failed" if finished else "call read_run in a while"
        return RunList(runs=[_encode(each) for each in found], finished=finished, next_step=step)


def list_runs(
    ctx: Ctx,
    suite: Annotated[str | None, Field(max_length=500, description="Of this suite alone.")] = None,
    limit: Annotated[int, Field(ge=1, le=100)] = 20,
) -> RunList:
    """List runs of eval suites, newest first, with their ids and scores."""
    with open_call(ctx, TEAM) as call:
        found = Runs(call.services, call.caller).list(suite, limit=limit).items
        finished = all(each.status not in _WAITING for each in found)
        step = "call read_run or compare_runs"
        return RunList(runs=[_encode(each) for each in found], finished=finished, next_step=step)


def read_run(ctx: Ctx, run: RunId) -> RunRead:
    """Read one run: its status, score and counts, and the first cases that did not pass and why."""
    with open_call(ctx, TEAM) as call:
        runs = Runs(call.services, call.caller)
        found = runs.get(run)
        missed = [
            case
            for status in _NOT_PASSED
            for case in runs.cases(found.id, status, limit=_MOST_CASES).items
        ]
        return RunRead(
            run=_encode(found), not_passed=[_encode(_cut(each)) for each in missed[:_MOST_CASES]]
        )


def compare_runs(
    ctx: Ctx,
    runs: Annotated[
        list[str], Field(min_length=2, max_length=6, description="Ids; the first is the baseline.")
    ],
    formula: Annotated[
        str | None, Field(max_length=4096, description="Score all of them by this one.")
    ] = None,
) -> Comparisons:
    """Compare runs with the first of them: which cases got better or worse, and whether the
    difference of the scores is real or chance.
    """
    with open_call(ctx, TEAM, "work") as call:
        found = Runs(call.services, call.caller).compare(runs, formula)
        return Comparisons(
            comparisons=[
                {**each, "changes": each["changes"][:_MOST_CHANGES]} for each in found.comparisons
            ]
        )


TOOLS = (
    make_tool(check_formula, title="Check a formula"),
    make_tool(explain_formula, title="Explain a formula"),
    make_tool(run_suite, title="Run a suite", writes=True),
    make_tool(list_runs, title="List runs"),
    make_tool(read_run, title="Read a run"),
    make_tool(compare_runs, title="Compare runs"),
)


def _write_problem(problem: dict[str, Any]) -> str:
    place = problem.get("place") or problem
    where = f"column {place['column']}: " if place.get("column") else ""
    hint = f"; {problem['hint']}" if problem.get("hint") else ""
    return f"{where}{problem['message']}{hint}"


def _encode(record: msgspec.Struct) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(record)
    return plain


def _cut(case: CaseResult) -> CaseResult:
    return msgspec.structs.replace(
        case, input=case.input[:_MOST_TEXT], output=case.output[:_MOST_TEXT]
    )

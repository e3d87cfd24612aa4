"""Tools of those who measure agents: formulas, runs of suites, comparisons."""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from mcp.server.mcpserver import Context
from pydantic import Field

from tallymark.errors import TallymarkError, WorkFailed
from tallymark.mcp.competing import Key
from tallymark.mcp.results import (
    Comparisons,
    FailedCase,
    FormulaChecked,
    FormulaExplained,
    RunComparison,
    RunRead,
    Runs,
    ToldRun,
)
from tallymark.mcp.tool_server import Call, make_tool, open_call
from tallymark.runs.comparison import compare_all
from tallymark.runs.reports.json_report import describe_run
from tallymark.runs.run import Run
from tallymark.runs.tally import Tally
from tallymark.service.callers import ORGANISERS, PUBLIC, TEAM
from tallymark.service.formulas import Formulas
from tallymark.service.jobs import WAIT_SECONDS, name_owner
from tallymark.service.remote_runs import RunWish
from tallymark.store.accounts.idempotent_answers import KeptAnswer
from tallymark.text import clean_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tallymark.runs.record import CaseResult, RunRecord

Ctx = Context[Any, Any]
Formula = Annotated[
    str, Field(min_length=1, max_length=4096, examples=["success_pct - 100 * cost"])
]
RunId = Annotated[str, Field(max_length=200, description="A run's id, or `latest`.")]
_WAITING = ("queued", "running")
_MOST_CASES = 20
_MOST_CHANGES = 50


def check_formula(
    ctx: Ctx,
    formula: Formula,
    names: Annotated[
        list[str] | None, Field(description="Named evals that it may use besides a run's metrics.")
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
    limit: Annotated[int | None, Field(ge=1, description="Only so many cases.")] = None,
    epochs: Annotated[int | None, Field(ge=1, le=1000)] = None,
    budget: Annotated[float | None, Field(gt=0, description="US dollars.")] = None,
    idempotency_key: Key = None,
) -> Runs:
    """Run an eval suite against one or more models and get the scores. It waits up to 30 seconds;
    what takes longer goes on, and read_run tells how it stands. compare_runs compares two.
    """
    with open_call(ctx, ORGANISERS, "work") as call:
        wish = RunWish(epochs=epochs, limit=limit, budget=budget)
        queued = await call.run(_submit_once, call, suite, models or [], wish, idempotency_key)
        deadline = time.monotonic() + WAIT_SECONDS
        for job in queued.jobs:
            await call.services.jobs.await_end(job, max(0.0, deadline - time.monotonic()))
        read = call.services.store.run
        told = [_tell_run(await call.run(read, each, patient=True)) for each in queued.runs]
        finished = all(each.status not in _WAITING for each in told)
        step = "call read_run for what failed" if finished else "call read_run in a while"
        return Runs(runs=told, finished=finished, next_step=step)


def list_runs(
    ctx: Ctx,
    suite: Annotated[str | None, Field(max_length=500, description="Of this suite alone.")] = None,
    limit: Annotated[int, Field(ge=1, le=100)] = 20,
) -> Runs:
    """List runs of eval suites, newest first, with their ids and scores."""
    with open_call(ctx, TEAM) as call:
        found = call.services.store.runs(suite=suite, limit=limit)
        told = [_tell_run(each) for each in found]
        finished = all(each.status not in _WAITING for each in told)
        return Runs(runs=told, finished=finished, next_step="call read_run or compare_runs")


def read_run(ctx: Ctx, run: RunId) -> RunRead:
    """Read one run: its status, score and counts, and the first cases that did not pass and why."""
    with open_call(ctx, TEAM) as call:
        store = call.services.store
        record = store.run(run)
        missed = [
            _tell_case(each)
            for status in ("failed", "error")
            for each in store.results_after(
                record.id, after=None, limit=_MOST_CASES, status=status, with_traces=False
            )
        ]
        return RunRead(run=_tell_run(record), not_passed=missed[:_MOST_CASES])


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
    difference of the scores is real or luck.
    """
    with open_call(ctx, TEAM, "work") as call:
        loaded = [call.services.app.load_run(each) for each in runs]
        found = compare_all(loaded, formula=formula)
        told = []
        for each in found:
            plain: dict[str, Any] = msgspec.to_builtins(each.to_dict())
            verdict = plain.pop("verdict")
            plain["changes"] = plain["changes"][:_MOST_CHANGES]
            told.append(
                RunComparison(
                    first=each.first.id,
                    second=each.second.id,
                    verdict=verdict["outcome"],
                    passes=verdict["passes"],
                    reason=verdict["reason"],
                    details=plain,
                )
            )
        return Comparisons(comparisons=told)


TOOLS = (
    make_tool(check_formula, title="Check a formula"),
    make_tool(explain_formula, title="Explain a formula"),
    make_tool(run_suite, title="Run a suite", writes=True),
    make_tool(list_runs, title="List runs"),
    make_tool(read_run, title="Read a run"),
    make_tool(compare_runs, title="Compare runs"),
)


class _Queued(msgspec.Struct, frozen=True):
    """Runs, and the jobs that do them."""

    runs: list[str]
    jobs: list[str]


def _submit_once(
    call: Call, suite: str, models: Sequence[str], wish: RunWish, key: str | None
) -> _Queued:
    """Queued once however often it is called with the same key."""
    answers, caller = call.services.store.idempotent_answers, call.caller
    who = caller.asker
    if key is not None:
        asked = msgspec.json.encode(["run_suite", suite, models, wish])
        known = answers.begin(who, key, hashlib.sha256(asked).hexdigest(), at=call.now)
        if known is not None:
            return msgspec.json.decode(known.body, type=_Queued)
    try:
        asked_as = None if key is None else answers.find_name(who, key)
        found = call.services.remote_runs.submit(
            suite, models, wish, owner=name_owner(caller), asked_as=asked_as
        )
    except BaseException as error:
        if key is not None:
            refused = isinstance(error, TallymarkError) and not isinstance(error, WorkFailed)
            (answers.forget if refused else answers.leave)(who, key)
        raise
    queued = _Queued([record.id for record, _ in found], [job for _, job in found])
    if key is not None:
        body = msgspec.json.encode(queued)
        answers.finish(who, key, KeptAnswer(status=202, headers={}, body=body))
    return queued


def _write_problem(problem: dict[str, Any]) -> str:
    place = problem.get("place") or problem
    where = f"column {place['column']}: " if place.get("column") else ""
    hint = f"; {problem['hint']}" if problem.get("hint") else ""
    return f"{where}{problem['message']}{hint}"


def _tell_run(record: RunRecord) -> ToldRun:
    told = describe_run(Run(record, (), Tally()))
    named = {name: told[name] for name in ToldRun.model_fields if name in told}
    return ToldRun(run=record.id, **told["counts"], **named)


def _tell_case(result: CaseResult) -> FailedCase:
    return FailedCase(case=result.case, status=result.status, reason=_find_reason(result))


def _find_reason(result: CaseResult) -> str:
    failed = (each.reason for each in result.checks if not each.passed)
    return clean_line(result.error or next(failed, None) or "", 500)

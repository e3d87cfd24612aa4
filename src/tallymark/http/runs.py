"""`/runs` and `/compare`: executed here or sent finished; read, compared, scored again."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from fastapi import Query, Request, Response
from msgspec.structs import replace

from tallymark.errors import NotAllowed
from tallymark.http.access import ORGANISERS, REPORTERS, TEAM, Services, Who, may
from tallymark.http.answers import (
    Cursor,
    Fields,
    Limit,
    ValidateOnly,
    answer,
    encode,
    find_unchanged,
    make_etag,
    pick,
    pick_each,
)
from tallymark.http.api_route import make_router
from tallymark.runs.comparison import RegressionRule, compare_all
from tallymark.runs.record import RunRecord
from tallymark.runs.reports.json_report import describe_case, describe_run
from tallymark.runs.run import Run
from tallymark.runs.tally import Tally
from tallymark.service.cursors import read_cursor, write_cursor
from tallymark.service.jobs import name_owner
from tallymark.service.remote_runs import RunWish
from tallymark.wire import runs as wire

router = make_router("runs")
Sort = Literal["created_at", "started_at", "finished_at", "score", "suite", "model", "status"]


Kept = Annotated[bool, Query(description="Each with `record`: all its fields, as it is kept.")]


def describe_record(record: RunRecord, *, kept: bool = False) -> dict[str, Any]:
    """A run by its record alone, which costs the same however many results it has."""
    told = describe_run(Run(record, (), Tally()))
    return told | ({"record": msgspec.structs.asdict(record)} if kept else {})


@router.post(
    "/runs",
    response_model=wire.StartedRuns,
    status_code=201,
    dependencies=[may(REPORTERS, "work")],
    responses={202: {"model": wire.StartedRuns, "description": "It is queued."}},
)
def create_run(
    body: wire.NewRun,
    request: Request,
    caller: Who,
    services: Services,
    validate_only: ValidateOnly = False,
) -> Response:
    """Execute a suite, or keep a run that was executed elsewhere.

    What is sent finished is tallied and scored again from its results.
    """
    key, answers = request.headers.get("idempotency-key"), services.store.idempotent_answers
    asked_as = None if key is None else answers.find_name(caller.asker, key)
    if body.run is not None:
        sent = services.sent_runs
        kept = sent.check(body.run) if validate_only else sent.keep(body.run, asked_as=asked_as)
        told = [describe_record(each.record) for each in kept]
        differences = [each.differences for each in kept]
        return answer({"run": told[0], "runs": told, "differences": differences}, 201)
    if caller.role not in ORGANISERS:
        raise NotAllowed("a reporter's key may send finished runs, not start any")
    suite = body.suite if isinstance(body.suite, str) else encode(body.suite).decode()
    names = ("epochs", "limit", "threads", "timeout", "budget", "judge", "vars")
    wish = RunWish(**{name: getattr(body, name) for name in names})
    queued = services.remote_runs.submit(
        suite, body.models, wish, owner=name_owner(caller), name=body.name, asked_as=asked_as
    )
    told = [describe_record(record) for record, _ in queued]
    jobs = [job for _, job in queued]
    document = {"run": told[0], "runs": told, "job": jobs[0], "jobs": jobs}
    return answer(document, 202, location=f"/api/v1/jobs/{jobs[0]}")


@router.get("/runs", response_model=wire.RunPage, dependencies=[may(TEAM)])
def list_runs(
    services: Services,
    suite: Annotated[str | None, Query(max_length=500)] = None,
    model: Annotated[str | None, Query(max_length=500)] = None,
    status: wire.Status | None = None,
    group: Annotated[str | None, Query(max_length=100)] = None,
    since: Annotated[float | None, Query(description="Seconds since 1970.")] = None,
    min_score: float | None = None,
    sort: Sort = "created_at",
    order: Literal["asc", "desc"] = "desc",
    limit: Limit = 50,
    cursor: Cursor = None,
    fields: Fields = None,
    kept: Kept = False,
) -> Response:
    """List runs, newest first."""
    kind = str if sort in ("suite", "model", "status") else float | None
    place = read_cursor(cursor, kind, float, str)
    found = services.store.runs(
        sort=sort,
        descending=order == "desc",
        limit=limit + 1,
        after=None if place is None else (place[0], place[1], place[2]),
        suite=suite,
        model=model,
        status=status,
        group=group,
        since=since,
        min_score=min_score,
    )
    last = found[limit - 1] if len(found) > limit else None
    more = None if last is None else write_cursor(getattr(last, sort), last.created_at, last.id)
    # Of many, a suite each would be too much.
    told = (describe_record(replace(each, definition=""), kept=kept) for each in found[:limit])
    return answer({"items": pick_each(told, fields, wire.Run), "next": more})


@router.get("/runs/{run}", response_model=wire.OneRun, dependencies=[may(TEAM)])
def get_run(
    run: str, request: Request, services: Services, fields: Fields = None, kept: Kept = False
) -> Response:
    """One run: by its id or a beginning of it, by a name that only one has, or `latest`."""
    record = services.store.run(run)
    etag = make_etag(record, fields, kept)
    document = {"run": pick(describe_record(record, kept=kept), fields, wire.Run)}
    return find_unchanged(request, etag) or answer(document, etag=etag, cache_control="no-cache")


@router.get("/runs/{run}/cases", response_model=wire.CasePage, dependencies=[may(TEAM)])
def list_cases(
    run: str,
    services: Services,
    status: Literal["passed", "failed", "error"] | None = None,
    traces: Annotated[bool, Query(description="With what the agent did.")] = False,
    limit: Limit = 100,
    cursor: Cursor = None,
    fields: Fields = None,
) -> Response:
    """The results of a run by case and epoch."""
    after = read_cursor(cursor, str, int)
    record = services.store.run(run)
    found = services.store.results_after(
        record.id,
        after=None if after is None else (after[0], after[1]),
        limit=limit + 1,
        status=status,
        with_traces=traces,
    )
    last = found[limit - 1] if len(found) > limit else None
    items = pick_each(map(describe_case, found[:limit]), fields, wire.Case)
    return answer({"items": items, "next": None if last is None else write_cursor(*last.key)})


@router.post(
    "/runs/{run}/cancel", response_model=wire.OneRun, dependencies=[may(ORGANISERS, "write")]
)
def cancel_run(run: str, services: Services, validate_only: ValidateOnly = False) -> Response:
    """Stop a run that is queued or goes on; what it has so far is kept."""
    return answer({"run": describe_record(services.remote_runs.cancel(run))})


@router.patch("/runs/{run}", response_model=wire.OneRun, dependencies=[may(ORGANISERS, "write")])
def change_run(
    run: str, body: wire.RunChange, services: Services, validate_only: ValidateOnly = False
) -> Response:
    """Give a run that has ended a name, shown beside its id."""
    changed = services.store.rename_run(run, body.name, at=services.now, reason=body.reason)
    return answer({"run": describe_record(changed)})


@router.delete("/runs/{run}", response_model=wire.OneRun, dependencies=[may(ORGANISERS, "write")])
def delete_run(
    run: str,
    services: Services,
    reason: Annotated[str, Query(max_length=2000, description="Why; kept in the log.")] = "",
) -> Response:
    """Delete a run that has ended, with its results and reviews; the log says that it was there."""
    deleted = services.store.remove_run(run, at=services.now, reason=reason)
    return answer({"run": describe_record(deleted)})


@router.post(
    "/runs/{run}/rescore",
    response_model=wire.RescoredRun,
    dependencies=[may(ORGANISERS, "write")],
    responses={201: {"model": wire.RescoredRun, "description": "It is kept as a new run."}},
)
def rescore_run(
    run: str,
    body: wire.RunRescore,
    services: Services,
    preview: Annotated[bool, Query(description="Show it and keep nothing.")] = False,
    validate_only: ValidateOnly = False,
) -> Response:
    """A run by another formula or suite, kept as a new run beside it. No model is asked."""
    suite = body.suite if isinstance(body.suite, str | None) else encode(body.suite).decode()
    before, after = services.remote_runs.rescore(run, formula=body.formula, suite=suite)
    keep = not (preview or validate_only)
    saved = services.app.runs.save_as_new(after).id if keep else None
    told = {
        "before": describe_run(before),
        "after": describe_run(after),
        "saved_as": saved,
        "notes": list(after.rescore_notes),
    }
    return answer(told, 201 if keep else 200)


@router.get("/compare", response_model=wire.Comparison, dependencies=[may(TEAM, "work")])
def compare_runs(
    services: Services,
    run: Annotated[list[str], Query(min_length=2, max_length=6, description="Two to six runs.")],
    formula: Annotated[str | None, Query(max_length=4096)] = None,
    alpha: Annotated[float, Query(ge=0.005, le=0.5)] = 0.05,
    tolerance: Annotated[
        str, Query(max_length=40, description="Points of the score, or % of the first run's.")
    ] = "1%",
    strict: bool = False,
) -> Response:
    """Runs against the first of them: what changed, and whether the difference is real."""
    loaded = [services.app.load_run(each) for each in run]
    found = compare_all(loaded, formula=formula, rule=RegressionRule(alpha, tolerance, strict))
    return answer({"comparisons": [msgspec.to_builtins(each.to_dict()) for each in found]})

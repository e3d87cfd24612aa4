"""`/rules`: what scores traces as they come."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import Path, Query, Response

from tallymark.api.access import ORGANISERS, TEAM, Services, Who, may
from tallymark.api.answers import Cursor, Limit, ValidateOnly, answer, read_cursor, write_cursor
from tallymark.api.api_route import make_router
from tallymark.service.jobs import name_owner
from tallymark.service.rules import describe_backfill, describe_version
from tallymark.wire import rules as wire

router = make_router("rules")
Name = Annotated[str, Path(max_length=60)]
WRITE = [may(ORGANISERS, "write")]


@router.post("/rules", response_model=wire.OneRule, status_code=201, dependencies=WRITE)
def add_rule(
    body: wire.NewRule, services: Services, caller: Who, validate_only: ValidateOnly = False
) -> Response:
    """Make a rule; it scores what comes from now on."""
    given = body.model_dump(exclude_unset=True, exclude_none=True)
    made = services.rules.add(given, owner=name_owner(caller))
    return answer({"rule": made.to_dict()}, 201)


@router.post("/rules/check", response_model=wire.TriedRule, dependencies=[may(ORGANISERS, "work")])
def try_rule(
    body: wire.RuleDraft, services: Services, validate_only: ValidateOnly = False
) -> Response:
    """Try a rule on the newest kept traces: nothing is stored, and no model is asked."""
    given = body.model_dump(exclude_unset=True, exclude_none=True)
    return answer(services.rules.try_out(given).to_dict())


@router.get("/rules", response_model=wire.RulePage, dependencies=[may(TEAM)])
def list_rules(services: Services) -> Response:
    """Rules by name, each with what it decided and spent."""
    return answer({"items": [each.to_dict() for each in services.rules.list()], "next": None})


@router.get("/rules/{name}", response_model=wire.OneWholeRule, dependencies=[may(TEAM)])
def get_rule(name: Name, services: Services) -> Response:
    """A rule with its versions, backfills and days."""
    told = services.rules.get(name).to_dict()
    told["versions"] = [describe_version(each) for each in services.rules.versions(name)]
    told["backfills"] = [describe_backfill(each) for each in services.rules.backfills(name)]
    told["days"] = msgspec.to_builtins(services.rules.spending(name))
    return answer({"rule": told})


@router.post(
    "/rules/{name}/versions", response_model=wire.OneRule, status_code=201, dependencies=WRITE
)
def edit_rule(
    name: Name, body: wire.RuleVersion, services: Services, validate_only: ValidateOnly = False
) -> Response:
    """Make a new version, which counts from now on: what older ones scored stays."""
    given = body.model_dump(exclude_unset=True, exclude_none=True)
    return answer({"rule": services.rules.edit(name, given).to_dict()}, 201)


@router.post("/rules/{name}/pause", response_model=wire.OneRule, dependencies=WRITE)
def pause_rule(name: Name, services: Services, validate_only: ValidateOnly = False) -> Response:
    """Neither look nor score until it is resumed."""
    return answer({"rule": services.rules.pause(name).to_dict()})


@router.post("/rules/{name}/resume", response_model=wire.OneRule, dependencies=WRITE)
def resume_rule(name: Name, services: Services, validate_only: ValidateOnly = False) -> Response:
    """Go on, first with what still waits."""
    return answer({"rule": services.rules.resume(name).to_dict()})


@router.delete("/rules/{name}", response_model=wire.OneRule, dependencies=WRITE)
def delete_rule(name: Name, services: Services) -> Response:
    """Archive a rule: its scores and decisions stay, and its name is free."""
    return answer({"rule": services.rules.archive(name).to_dict()})


@router.get("/rules/{name}/decisions", response_model=wire.DecisionPage, dependencies=[may(TEAM)])
def list_decisions(
    name: Name,
    services: Services,
    decision: Annotated[
        str | None,
        Query(max_length=40, description="scored, failed, filtered, not_drawn, capped, waiting."),
    ] = None,
    trace: Annotated[str | None, Query(max_length=200)] = None,
    limit: Limit = 50,
    cursor: Cursor = None,
) -> Response:
    """What it decided of each trace and why, newest first."""
    place: Any = read_cursor(cursor, float, int, int, int)
    found = services.rules.decisions(
        name, decision=decision, trace=trace, before=place, limit=limit + 1
    )
    more = write_cursor(*found[limit - 1].place) if len(found) > limit else None
    items = [msgspec.to_builtins(each) for each in found[:limit]]
    for each in items:
        del each["place"]
    return answer({"items": items, "next": more})


@router.get("/rules/{name}/spending", response_model=wire.RuleSpending, dependencies=[may(TEAM)])
def get_spending(
    name: Name,
    services: Services,
    since: Annotated[str | None, Query(pattern=r"^\d{4}-\d{2}-\d{2}$")] = None,
) -> Response:
    """What it decided and what its judges cost, day by day (UTC), newest first."""
    days = services.rules.spending(name, since=since)
    told = [msgspec.to_builtins(each) for each in days]
    return answer({"rule": name, "spent": sum(each.spent for each in days), "days": told})


@router.post(
    "/rules/{name}/backfill", response_model=wire.OneBackfill, status_code=202, dependencies=WRITE
)
def backfill_rule(
    name: Name,
    body: wire.NewBackfill,
    services: Services,
    preview: Annotated[bool, Query(description="Only say what it would come to.")] = False,
    validate_only: ValidateOnly = False,
) -> Response:
    """Score kept traces of a span of time; `?preview=true` says its count and cost first."""
    span = (float(body.since), float(body.until))
    said = services.rules.preview_backfill(name, *span)
    if preview or validate_only:
        return answer({"backfill": None, "preview": msgspec.to_builtins(said)})
    made = services.rules.start_backfill(name, *span)
    told = {"backfill": describe_backfill(made), "preview": msgspec.to_builtins(said)}
    return answer({**told, "job": made.job}, 202, location=f"/api/v1/jobs/{made.job}")


@router.get("/rules/{name}/backfills", response_model=wire.BackfillPage, dependencies=[may(TEAM)])
def list_backfills(name: Name, services: Services) -> Response:
    """Backfills of a rule, newest first, and how far each is."""
    items = [describe_backfill(each) for each in services.rules.backfills(name)]
    return answer({"items": items, "next": None})


@router.get(
    "/rules/{name}/backfills/{number}", response_model=wire.FoundBackfill, dependencies=[may(TEAM)]
)
def get_backfill(
    name: Name, number: Annotated[int, Path(ge=1, le=2**53)], services: Services
) -> Response:
    """How far a backfill is."""
    return answer({"backfill": describe_backfill(services.rules.find_backfill(name, number))})

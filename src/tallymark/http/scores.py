"""`/scores`: what people say of cases, each their own to change and to withdraw."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import Query, Response

from tallymark.http.access import REPORTERS, TEAM, Services, Who, may
from tallymark.http.answers import Cursor, Limit, ValidateOnly, answer
from tallymark.http.api_route import make_router
from tallymark.service.cursors import read_cursor, write_cursor
from tallymark.store.reviews.reviews import CaseKey, GivenScore, read_number
from tallymark.wire import scores as wire

router = make_router("scores")


@router.get("/scores", response_model=wire.ScorePage, dependencies=[may(TEAM)])
def list_scores(
    services: Services,
    run: Annotated[str | None, Query(max_length=200)] = None,
    case: Annotated[str | None, Query(max_length=10_000)] = None,
    name: Annotated[str | None, Query(max_length=60)] = None,
    author: Annotated[str | None, Query(max_length=200)] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """What people said of cases, newest first."""
    before = read_cursor(cursor, int)
    found = services.store.reviews.all(
        run=None if run is None else services.store.run(run).id,
        case=case,
        name=name,
        author=author,
        before=before[0] if before else None,
        limit=limit + 1,
    )
    more = write_cursor(read_number(found[limit - 1].id)) if len(found) > limit else None
    return answer({"items": found[:limit], "next": more})


@router.post(
    "/scores",
    response_model=wire.OneScore,
    dependencies=[may(REPORTERS, "write")],
    responses={201: {"model": wire.OneScore, "description": "It is new."}},
)
def give_score(
    body: wire.NewScore, services: Services, caller: Who, validate_only: ValidateOnly = False
) -> Response:
    """Score a case yourself; said again by the same name, it takes the place of the last."""
    key = CaseKey(services.store.run(body.run).id, body.case, body.epoch)
    given = GivenScore(name=body.name, value=body.value, label=body.label, comment=body.comment)
    score, new = services.reviews.give(caller, key, given)
    return answer({"score": score}, 201 if new else 200)


@router.patch(
    "/scores/{score}", response_model=wire.OneScore, dependencies=[may(REPORTERS, "write")]
)
def change_score(
    score: str,
    body: wire.ScoreWords,
    services: Services,
    caller: Who,
    validate_only: ValidateOnly = False,
) -> Response:
    """Say otherwise what you said; another's stays as it is."""
    changed = services.reviews.change(caller, score, msgspec.convert(body.model_dump(), GivenScore))
    return answer({"score": changed})


@router.delete(
    "/scores/{score}", response_model=wire.OneScore, dependencies=[may(REPORTERS, "write")]
)
def withdraw_score(score: str, services: Services, caller: Who) -> Response:
    """Take back what you said; the log keeps that you had."""
    return answer({"score": services.reviews.withdraw(caller, score)})

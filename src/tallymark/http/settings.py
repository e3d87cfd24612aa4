"""`/limits` and `/audit`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import Query, Request, Response

from tallymark.formula import Limits as FormulaLimits
from tallymark.http.access import ORGANISERS, PUBLIC, Services, Who, find_service, may
from tallymark.http.answers import Cursor, Limit, answer
from tallymark.http.api_route import make_router
from tallymark.http.envelope import BODIES, VALUES
from tallymark.http.otlp import AGENT_BYTES, AGENT_VALUES
from tallymark.service.cursors import read_cursor, write_cursor
from tallymark.service.json_lines import MOST_LINES
from tallymark.store.contests.attempt_rows import AGENT_BYTES_A_DAY
from tallymark.store.traces.witness import MOST_BYTES as MOST_WITNESSED_BYTES
from tallymark.store.traces.witness import MOST_SPANS as MOST_WITNESSED
from tallymark.traces.span_limits import LIMITS
from tallymark.wire import accounts as wire

router = make_router("settings")


@router.get("/limits", response_model=wire.Limits, dependencies=[may(PUBLIC)])
def get_limits(request: Request, caller: Who) -> Response:
    """What the server takes of you, before you find out."""
    formula = FormulaLimits()
    return answer(
        {
            "bodies": dict(BODIES),
            "values": dict(VALUES),
            "lines": MOST_LINES,
            "traces": LIMITS._asdict()
            | {
                "spans_per_attempt": MOST_WITNESSED,
                "bytes_per_attempt": MOST_WITNESSED_BYTES,
                "bytes_per_agents_request": AGENT_BYTES,
                "values_per_agents_request": AGENT_VALUES,
                "bytes_per_agent_and_day": AGENT_BYTES_A_DAY,
            },
            "rates": msgspec.to_builtins(find_service(request).limits.look(caller)),
            "formula": {
                "characters": formula.characters,
                "levels": formula.levels,
                "nodes": formula.nodes,
            },
        }
    )


@router.get("/audit", response_model=wire.LogPage, dependencies=[may(ORGANISERS)])
def list_log(
    services: Services,
    challenge: Annotated[str | None, Query(max_length=200)] = None,
    agent: Annotated[str | None, Query(max_length=40)] = None,
    actor: Annotated[str | None, Query(max_length=200)] = None,
    event: Annotated[str | None, Query(max_length=40)] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """What was done, by whom, why and from where; newest first."""
    before = read_cursor(cursor, int)
    found = services.store.audit_log.entries(
        challenge=challenge,
        agent=agent,
        actor=actor,
        event=event,
        before=before[0] if before else None,
        limit=limit + 1,
    )
    more = write_cursor(found[limit - 1].seq) if len(found) > limit else None
    return answer({"items": msgspec.to_builtins(found[:limit]), "next": more})

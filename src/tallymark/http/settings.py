"""`/vars`, `/secrets`, `/limits` and `/audit`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import Path, Query, Request, Response

from tallymark.formula import Limits as FormulaLimits
from tallymark.http.access import ORGANISERS, PUBLIC, TEAM, Services, Who, find_service, may
from tallymark.http.answers import Cursor, Limit, ValidateOnly, answer
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
Name = Annotated[str, Path(max_length=200)]


@router.get("/vars", response_model=wire.Variables, dependencies=[may(TEAM)])
def list_vars(services: Services) -> Response:
    """Variables that suites use."""
    return answer({"vars": services.store.vars()})


@router.put("/vars/{name}", response_model=wire.Variables, dependencies=[may(ORGANISERS, "write")])
def set_var(
    name: Name, body: wire.Variable, services: Services, validate_only: ValidateOnly = False
) -> Response:
    """Set a variable."""
    services.store.set_var(name, body.value)
    return answer({"vars": services.store.vars()})


@router.delete(
    "/vars/{name}", response_model=wire.Variables, dependencies=[may(ORGANISERS, "write")]
)
def delete_var(name: Name, services: Services) -> Response:
    """Remove a variable."""
    services.store.delete_var(name)
    return answer({"vars": services.store.vars()})


@router.get("/secrets", response_model=wire.SecretNames, dependencies=[may(ORGANISERS)])
def list_secrets(services: Services) -> Response:
    """The names of secrets; no route gives a value."""
    return answer({"secrets": services.store.secret_names()})


@router.put(
    "/secrets/{name}", response_model=wire.SecretNames, dependencies=[may(ORGANISERS, "write")]
)
def set_secret(
    name: Name, body: wire.Secret, services: Services, validate_only: ValidateOnly = False
) -> Response:
    """Set a secret, which is encrypted before it is kept."""
    services.store.set_secret(name, body.value)
    return answer({"secrets": services.store.secret_names()})


@router.delete(
    "/secrets/{name}", response_model=wire.SecretNames, dependencies=[may(ORGANISERS, "write")]
)
def delete_secret(name: Name, services: Services) -> Response:
    """Remove a secret."""
    services.store.delete_secret(name)
    return answer({"secrets": services.store.secret_names()})


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

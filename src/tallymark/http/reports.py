"""`/challenges/{name}/reports`: attempts that a trusted system saw, singly or by the thousand.

The way of most writes, so it is short: the body is decoded by msgspec, the service scores it, and
the answer comes when the batch that it went with is committed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec
from fastapi import Query, Request, Response
from starlette.responses import StreamingResponse

from tallymark.challenges.agent_names import check_handle
from tallymark.challenges.attempt import Attempt, Metrics
from tallymark.errors import Conflict, InvalidInput, Place, TallymarkError
from tallymark.http.access import REPORTERS, Allow, Services, find_service, may
from tallymark.http.answers import ValidateOnly, answer, encode
from tallymark.http.api_route import check_key, keeps_idempotency, make_router
from tallymark.http.problems import RequestProblem, describe_error, find_status, refuse
from tallymark.http.quick_routes import QuickRoute, is_plain_json
from tallymark.service.competition import AttemptReport, PreparedReport
from tallymark.service.fair_threads import name_share
from tallymark.service.json_lines import split_lines
from tallymark.service.tenant import TenantServices
from tallymark.store.actors import act_as
from tallymark.store.rehearsals import is_rehearsal
from tallymark.text import shorten
from tallymark.wire import attempts as wire
from tallymark.wire.problems import Problem

router = make_router("reports")
NDJSON = "application/x-ndjson"
MOST_ATOMIC = 5_000
MOST_BYTES = 100_000
"""Of one report."""
_AT_ONCE = 500
_LONGEST_KEY = 240
"""In bulk: the number of a line comes behind it."""
_LINE = {"$ref": "#/components/schemas/Report"}
_BODIES = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": _LINE},
            NDJSON: {
                # No type: on the wire it is lines, and each is answered by itself.
                "schema": {"description": "A report a line."},
                "example": '{"agent": "sherlock-1", "metrics": {"succeeded": true}}\n',
            },
        },
    }
}
_KNOWN = frozenset(Metrics.__struct_fields__) - {"more"}


class _Report(msgspec.Struct, forbid_unknown_fields=True):
    agent: str
    metrics: dict[str, Any]
    """Of numbers, and of truth values: each is looked at by name."""
    key: Annotated[str, msgspec.Meta(min_length=1, max_length=255)] | None = None


_decode = msgspec.json.Decoder(_Report).decode
_read_number = partial(msgspec.convert, type=int | float | None)


@router.post(
    "/challenges/{name}/reports",
    response_model=wire.Submitted,
    status_code=201,
    dependencies=[may(REPORTERS, "report")],
    openapi_extra=_BODIES,
    responses={
        200: {
            "description": "In bulk: what became of each line, in order.",
            "content": {NDJSON: {"schema": {"type": "string"}}},
        },
        422: {
            "model": Problem,
            "description": "Something in it is wrong; all or none in bulk: which lines.",
            "content": {NDJSON: {"schema": {"type": "string"}}},
        },
    },
)
@keeps_idempotency
async def report(
    name: str,
    request: Request,
    services: Services,
    validate_only: ValidateOnly = False,
    atomic: Annotated[bool, Query(description="In bulk: all lines or none.")] = False,
) -> Response:
    """Report an attempt, or as NDJSON many, each answered by itself and in order."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    body = await request.body()
    if kind == NDJSON:
        return await _report_many(request, services, name, body, validate_only, atomic)
    if validate_only:
        sent = read_report(name, body, key=check_key(request.headers.get("idempotency-key")))
        report_it = partial(services.competition.report, name, *sent[1:3], key=sent.key)
        await find_service(request).run_in_thread(request.state.caller, report_it)
        return answer({"valid": True})
    return await _report_one(request, services, name, body)


async def report_quickly(request: Request, name: str) -> Response:
    """The same for one attempt."""
    services = find_service(request).tenant(request.state.caller.tenant)
    return await _report_one(request, services, name, await request.body())


async def _report_one(
    request: Request, services: TenantServices, name: str, body: bytes
) -> Response:
    sent = read_report(name, body, key=check_key(request.headers.get("idempotency-key")))
    attempt = await services.competition.areport(name, sent.agent, sent.metrics, key=sent.key)
    return answer(_describe(attempt), 202 if attempt.state == "submitted" else 201)


QUICK = QuickRoute(
    "POST", "/challenges/{name}/reports", Allow(REPORTERS, "report"), report_quickly, is_plain_json
)


def read_report(challenge: str, text: bytes, *, key: str | None = None) -> AttemptReport:
    """One report from its JSON; what is wrong with it says its field."""
    if len(text) > MOST_BYTES:  # it is read in the event loop
        message = f"a report has at most {MOST_BYTES:,} bytes, and this one {len(text):,}"
        raise InvalidInput(message, hint="report fewer metrics")
    try:
        read = _decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _explain(error) from None
    check_handle(read.agent)
    metrics = read.metrics
    own = {name: metrics.pop(name) for name in metrics.keys() - _KNOWN}
    try:
        known = msgspec.convert(metrics, Metrics)
    except msgspec.ValidationError as error:
        raise _explain(error, "metrics") from None
    if own:
        for name, value in own.items():
            try:
                own[name] = float(value) if isinstance(value, bool) else _read_number(value)
            except msgspec.ValidationError as error:
                raise _explain(error, f"metrics.{shorten(name, 60)}") from None
        known = msgspec.structs.replace(known, more=own)
    return AttemptReport(challenge, read.agent, known, key if read.key is None else read.key)


def _explain(error: Exception, under: str = "") -> Exception:
    said, _, path = str(error).partition(" - at `$")
    field = f"{under}{path.strip('`')}".strip(".").removesuffix("[...]")
    if isinstance(error, msgspec.ValidationError):
        return InvalidInput(said[:1].lower() + said[1:], place=Place(source=field or "body"))
    return refuse(400, f"the body is not JSON: {said}")


async def _report_many(
    request: Request,
    services: TenantServices,
    name: str,
    body: bytes,
    validate_only: bool,
    atomic: bool,
) -> Response:
    sent = split_lines(body)
    numbers, lines = [n for n, _ in sent], [line for _, line in sent]
    if atomic and len(lines) > MOST_ATOMIC:
        raise refuse(413, f"all or none of at most {MOST_ATOMIC:,} lines", "send it in parts")
    request_id = str(request.scope.get("tally.request_id", "-"))
    service, caller = find_service(request), request.state.caller
    # Each counts: the request itself was counted as one.
    service.limits.check(caller, "report", max(0, len(lines) - 1))
    key = check_key(request.headers.get("idempotency-key"), _LONGEST_KEY)
    # What was cut off goes on where it ended: each line has its own part of the key.
    keys = [None if key is None else f"{key} {n}" for n in range(1, len(lines) + 1)]
    competition = services.competition
    run = partial(service.run_in_thread, caller)

    def read(some: slice) -> list[AttemptReport | TallymarkError]:
        return [_read_line(name, *each) for each in zip(lines[some], keys[some], strict=True)]

    def do_whole() -> list[Attempt | TallymarkError]:
        some = read(slice(None))
        good = [each for each in some if isinstance(each, AttemptReport)]
        if atomic and len(good) < len(some):
            return _refuse_others(numbers, some)
        done = competition.report_many(good, all_or_none=atomic)
        return _refuse_others(numbers, done) if atomic else _fill_in(some, done)

    if validate_only or atomic:
        done = await run(do_whole)
        failed = atomic and any(isinstance(each, TallymarkError) for each in done)
        told = b"".join(_tell_line(*each, request_id) for each in zip(numbers, done, strict=True))
        return Response(told, 422 if failed else 200, media_type=NDJSON)

    def prepare(some: slice) -> tuple[list[AttemptReport | TallymarkError], list[PreparedReport]]:
        found = read(some)
        good = [each for each in found if isinstance(each, AttemptReport)]
        return found, competition.prepare_reports(good)

    async def do_part(start: int) -> bytes:
        """Only the first part of a body may be refused because others wait."""
        some, begun = slice(start, start + _AT_ONCE), start > 0
        async with service.bulk_turns.take(name_share(caller), patient=begun):
            with act_as(caller.actor):
                found, prepared = await run(prepare, some, patient=True)
                done = _fill_in(found, await competition.areport_many(prepared))
        told = zip(numbers[some], done, strict=True)
        return b"".join(_tell_line(*each, request_id) for each in told)

    async def stream(first: bytes) -> AsyncIterator[bytes]:
        yield first
        for start in range(_AT_ONCE, len(lines), _AT_ONCE):
            yield await do_part(start)

    # A challenge that is not there is said before the first line.
    await run(services.store.challenges.find, name)
    return StreamingResponse(stream(await do_part(0)), media_type=NDJSON)


def _fill_in(
    read: Sequence[AttemptReport | TallymarkError], done: Sequence[Attempt | TallymarkError]
) -> list[Attempt | TallymarkError]:
    """What became of each line: why it could not be read, or what was done with it."""
    told = iter(done)
    return [each if isinstance(each, TallymarkError) else next(told) for each in read]


def _refuse_others(numbers: Sequence[int], some: Sequence[Any]) -> list[Attempt | TallymarkError]:
    """All or none: where one is refused, the others were not done either."""
    told = zip(numbers, some, strict=True)
    wrong = next((n for n, each in told if isinstance(each, TallymarkError)), None)
    if wrong is None:
        return list(some)
    undone = Conflict(f"it was not done, as line {wrong} is refused", hint="mend that line")
    return [each if isinstance(each, TallymarkError) else undone for each in some]


def _read_line(name: str, line: bytes, key: str | None) -> AttemptReport | TallymarkError:
    try:
        return read_report(name, line, key=key)
    except TallymarkError as error:
        return error
    except RequestProblem as error:
        return InvalidInput(error.parts)


def _tell_line(line: int, done: Attempt | TallymarkError, request_id: str) -> bytes:
    if isinstance(done, TallymarkError):
        problem = describe_error(done, request_id)
        return encode({"line": line, "status": find_status(done), "problem": problem}) + b"\n"
    if is_rehearsal():
        return encode({"line": line, "status": 200, "valid": True}) + b"\n"
    score = None if done.outcome is None else done.outcome.score
    status = 202 if done.state == "submitted" else 201
    told: dict[str, Any] = {"line": line, "status": status, "attempt": done.id, "score": score}
    if done.outcome is not None and done.outcome.error is not None:
        told["error"] = done.outcome.error
    return encode(told) + b"\n"


def _describe(attempt: Attempt) -> dict[str, Any]:
    told = attempt.to_public()
    return {
        "attempt": told,
        "score": told["score"],
        "result": told.get("result"),
        "score_breakdown": told.get("score_breakdown"),
        "submission_warnings": told.get("submission_warnings", []),
        "constraint_violations": told.get("constraint_violations", []),
        "harness_warning": told.get("harness_warning"),
        "rating": None,
        "rank": None,
    }

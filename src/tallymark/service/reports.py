"""Reports: attempts that a trusted system saw, sent singly or by the thousand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from tallymark.challenges.agent_names import check_handle
from tallymark.challenges.attempt import Attempt, Metrics
from tallymark.errors import (
    BadRequest,
    Busy,
    Conflict,
    InvalidInput,
    Place,
    TallymarkError,
    TooLarge,
    WorkFailed,
)
from tallymark.service.attempts import SubmittedAttempt, describe_scored
from tallymark.service.callers import REPORTERS
from tallymark.service.competition import AttemptReport
from tallymark.service.limits import Lines, split_lines
from tallymark.service.operations import Page, Resource, operation
from tallymark.service.problems import Problem, describe_error, find_status
from tallymark.service.server_logs import current_request
from tallymark.store.dry_run import is_dry_run
from tallymark.text import shorten

MOST_ATOMIC = 5_000
MOST_BYTES = 100_000
"""Size of one report: it is read in the event loop."""
_AT_ONCE = 500
_LONGEST_KEY = 240
"""In bulk: the number of a line follows it."""
_KNOWN = frozenset(Metrics.__struct_fields__) - {"more"}
_read_number = partial(msgspec.convert, type=int | float | None)

Key = Annotated[
    str, Meta(min_length=1, max_length=255, description="An idempotency key, for a line in bulk.")
]


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    agent: str
    metrics: dict[str, Any]
    key: Key | None = None


_decode_line = msgspec.json.Decoder(_Line).decode


class ReportedLine(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of one line."""

    line: Annotated[int, Meta(description="Its number in the body, from 1.")]
    status: Annotated[int, Meta(description="The status that the report alone would have had.")]
    attempt: str | None = None
    score: float | None = None
    error: Annotated[str | None, Meta(description="Why it could not be scored.")] = None
    problem: Annotated[Problem | None, Meta(description="Why it was refused.")] = None


class ReportedLines(Page[ReportedLine]):
    """Outcomes of lines, in their order."""

    done: Annotated[bool, Meta(description="False if `atomic` refused all of them.")] = True


class Reports(Resource):
    """Attempts that a trusted system reports: entered and submitted at once."""

    @operation(
        "POST /challenges/{name}/reports",
        REPORTERS,
        rate="report",
        status=lambda told: 202 if told.attempt.state == "submitted" else 201,
        find_max_bytes=MOST_BYTES,
    )
    async def send(
        self,
        name: str,
        agent: Annotated[str, Meta(min_length=1, max_length=200)],
        metrics: Annotated[
            dict[str, Any],
            Meta(
                description="Numbers and truth values: `succeeded`, `tokens_total`, `elapsed_ms`,"
                " `rating`, `created_at` (milliseconds since 1970), `cost`, `calls`, and those that"
                " the challenge declares.",
                examples=[{"succeeded": True, "tokens_total": 1200}],
            ),
        ],
        key: Key | None = None,
        idempotency_key: str | None = None,
    ) -> SubmittedAttempt:
        """Report an attempt."""
        report = _make_report(name, agent, metrics, key or idempotency_key)
        competition, given = self.services.competition, (name, agent, report.metrics)
        if is_dry_run():
            run = partial(competition.report, *given, key=report.key)
            return describe_scored(await self.services.run_in_thread(self.caller, run))
        return describe_scored(await competition.areport(*given, key=report.key))

    @operation(
        "POST /challenges/{name}/reports",
        REPORTERS,
        rate="report",
        status=lambda told: 200 if told.done else 422,
        query=["atomic"],
        body="lines",
    )
    async def send_many(
        self,
        name: str,
        lines: Lines,
        atomic: Annotated[bool, Meta(description="All lines or none.")] = False,
        idempotency_key: str | None = None,
    ) -> ReportedLines:
        """Report many attempts, one as JSON in each line; each line has its own outcome.

        What was cut off can be sent again: with an idempotency key, each line has its own part.
        """
        if idempotency_key is not None and len(idempotency_key) > _LONGEST_KEY:
            raise BadRequest(
                "it is too long for a body of lines",
                place=Place(source="Idempotency-Key"),
                hint=f"give 1 to {_LONGEST_KEY} characters",
            )
        services, caller = self.services, self.caller
        sent = await services.run_in_thread(caller, self._split, name, lines)
        if atomic and len(sent) > MOST_ATOMIC:
            raise TooLarge(f"all or none of at most {MOST_ATOMIC:,} lines", hint="send it in parts")
        # Each counts: the request itself was counted as one.
        services.charge(caller, "report", max(0, len(sent) - 1))
        keys = [
            None if idempotency_key is None else f"{idempotency_key} {nth}"
            for nth in range(1, len(sent) + 1)
        ]
        texts = [text for _, text in sent]
        found: list[Attempt | TallymarkError | None] = []
        if atomic or is_dry_run():
            work = partial(self._report_together, name, texts, keys, atomic=atomic)
            async with services.take_bulk_turn(caller, patient=False):
                found += await services.run_in_thread(caller, work, patient=True)
        else:
            for start in range(0, len(sent), _AT_ONCE):
                some = slice(start, start + _AT_ONCE)
                found += await self._report_part(name, texts[some], keys[some], begun=start > 0)
        refused = (nth for nth, each in enumerate(found) if isinstance(each, TallymarkError))
        wrong = next(refused, None) if atomic else None
        if wrong is not None:
            why = Conflict(
                f"it was not done, as line {sent[wrong][0]} is refused", hint="correct that line"
            )
            found = [each if isinstance(each, TallymarkError) else why for each in found]
        items = [
            _describe_line(number, each, services.hide_database)
            for (number, _), each in zip(sent, found, strict=True)
        ]
        return ReportedLines(items=items, done=wrong is None)

    def _split(self, name: str, lines: bytes) -> list[tuple[int, bytes]]:
        """Lines with their numbers; a challenge that is not there is refused before the first."""
        found = split_lines(lines)
        self.store.challenges.find(name)
        return found

    async def _report_part(
        self, name: str, texts: Sequence[bytes], keys: Sequence[str | None], *, begun: bool
    ) -> list[Attempt | TallymarkError]:
        """Only the first part of a body may be refused because others wait."""
        services, competition = self.services, self.services.competition

        def prepare() -> tuple[list[AttemptReport | TallymarkError], list[Any]]:
            read = _read_lines(name, texts, keys)
            good = [each for each in read if isinstance(each, AttemptReport)]
            return read, competition.prepare_reports(good)

        async with services.take_bulk_turn(self.caller, patient=begun):
            read, prepared = await services.run_in_thread(self.caller, prepare, patient=True)
            try:
                done = await competition.areport_many(prepared)
            except Busy as error:
                if not begun:
                    raise
                done = [error] * len(prepared)
        return _fill_in(read, done)

    def _report_together(
        self, name: str, texts: Sequence[bytes], keys: Sequence[str | None], *, atomic: bool
    ) -> Sequence[Attempt | TallymarkError | None]:
        """All lines in one go; None for those that were not tried since another is refused."""
        read = _read_lines(name, texts, keys)
        good = [each for each in read if isinstance(each, AttemptReport)]
        if atomic and len(good) < len(read):
            return [each if isinstance(each, TallymarkError) else None for each in read]
        return _fill_in(read, self.services.competition.report_many(good, all_or_none=atomic))


def _read_lines(
    name: str, texts: Sequence[bytes], keys: Sequence[str | None]
) -> list[AttemptReport | TallymarkError]:
    found: list[AttemptReport | TallymarkError] = []
    for text, key in zip(texts, keys, strict=True):
        try:
            found.append(_read_line(name, text, key))
        except TallymarkError as error:
            found.append(error)
    return found


def _read_line(name: str, text: bytes, key: str | None) -> AttemptReport:
    if len(text) > MOST_BYTES:
        message = f"a report has at most {MOST_BYTES:,} bytes, and this one {len(text):,}"
        raise InvalidInput(message, hint="report fewer metrics")
    try:
        line = _decode_line(text)
    except msgspec.ValidationError as error:
        raise _explain(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the line is not JSON: {error}") from None
    return _make_report(name, line.agent, line.metrics, line.key or key)


def _make_report(
    name: str, agent: str, metrics: Mapping[str, Any], key: str | None
) -> AttemptReport:
    """A report with its metrics; a wrong one is refused by its name."""
    check_handle(agent)
    own = {each: metrics[each] for each in metrics.keys() - _KNOWN}
    try:
        known = msgspec.convert({each: metrics[each] for each in metrics.keys() & _KNOWN}, Metrics)
    except msgspec.ValidationError as error:
        raise _explain(error, "metrics") from None
    for each, value in own.items():
        try:
            own[each] = float(value) if isinstance(value, bool) else _read_number(value)
        except msgspec.ValidationError as error:
            raise _explain(error, f"metrics.{shorten(each, 60)}") from None
    if own:
        known = msgspec.structs.replace(known, more=own)
    return AttemptReport(name, agent, known, key)


def _explain(error: msgspec.ValidationError, under: str = "") -> InvalidInput:
    message, _, path = str(error).partition(" - at `$")
    field = f"{under}{path.strip('`')}".strip(".").removesuffix("[...]")
    return InvalidInput(message[:1].lower() + message[1:], place=Place(source=field or "body"))


def _fill_in(
    read: Sequence[AttemptReport | TallymarkError], done: Sequence[Attempt | TallymarkError]
) -> list[Attempt | TallymarkError]:
    """The outcome of each line: why it could not be read, or what was done with it."""
    left = iter(done)
    return [each if isinstance(each, TallymarkError) else next(left) for each in read]


def _describe_line(
    number: int, done: Attempt | TallymarkError | None, hide_database: Callable[[str], str]
) -> ReportedLine:
    if isinstance(done, TallymarkError):
        document = msgspec.json.encode(describe_error(done, current_request.get() or "-"))
        if isinstance(done, WorkFailed):
            document = hide_database(document.decode()).encode()
        problem = msgspec.json.decode(document, type=Problem)
        return ReportedLine(line=number, status=find_status(done), problem=problem)
    if done is None or is_dry_run():
        return ReportedLine(line=number, status=200)
    outcome = done.outcome
    return ReportedLine(
        line=number,
        status=202 if done.state == "submitted" else 201,
        attempt=done.id,
        score=None if outcome is None else outcome.score,
        error=None if outcome is None else outcome.error,
    )

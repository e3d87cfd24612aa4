"""`Challenges`: boards of challenges, and entering them."""

# Written by `make client` from client/aio/challenges.py: change that one.

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, TypeAlias, Unpack

import msgspec

from tallymark.client.exchange import Call, CallOptions, leave_out_none, write_path
from tallymark.client.sync.resource import Resource
from tallymark.service.operations import Event
from tallymark.wire import attempts, versus

_LINES = "application/x-ndjson"
ReportLines: TypeAlias = list[attempts.ReportLine]


class Challenges(Resource):
    """Boards of challenges, and entering them."""

    def board(
        self,
        name: str,
        *,
        limit: int = 100,
        around: str | None = None,
        each: int | None = None,
        side: Literal["red", "blue"] | None = None,
        live: bool | None = None,
        **options: Unpack[CallOptions],
    ) -> attempts.Board:
        """The first so many places, or those around an agent."""
        params = {"limit": limit, "around": around, "each": each, "side": side, "live": live}
        path = ("challenges", name, "leaderboard")
        return self._ask(attempts.Board, "GET", *path, params=params, **options)

    def standings(
        self,
        name: str,
        *,
        limit: int | None = None,
        side: Literal["red", "blue"] | None = None,
        live: bool | None = None,
        **options: Unpack[CallOptions],
    ) -> Iterator[attempts.Standing]:
        """Every place of a board from the first down."""
        path, params = ("challenges", name, "leaderboard"), {"side": side, "live": live}
        return self._page(attempts.Standing, *path, limit=limit, params=params, **options)

    def what_if(
        self,
        name: str,
        *,
        formula: str | None = None,
        weights: Mapping[str, float] | None = None,
        config: Mapping[str, Any] | None = None,
        around: str | None = None,
        limit: int | None = None,
        **options: Unpack[CallOptions],
    ) -> attempts.Supposed:
        """The board by another rule; nothing changes."""
        body = leave_out_none(formula=formula, weights=weights, config=config)
        body |= leave_out_none(around=around, limit=limit)
        path = ("challenges", name, "what-if")
        return self._ask(attempts.Supposed, "POST", *path, body=body, **options)

    def settle_sides(
        self, name: str, *, again: bool = False, **options: Unpack[CallOptions]
    ) -> versus.SidesSettled:
        """In red against blue, judges what was left without a verdict."""
        path, body = ("challenges", name, "settle"), {"again": again}
        return self._ask(versus.SidesSettled, "POST", *path, body=body, **options)

    def events(
        self, name: str, *, after: int | None = None, **options: Unpack[CallOptions]
    ) -> Iterator[Event]:
        """What changes on a board, for as long as somebody listens."""
        return self._listen("challenges", name, "events", after=after, ends=False, **options)

    def enter(
        self,
        name: str,
        *,
        agent: str | None = None,
        memoryless: bool = False,
        attempt: str | None = None,
        **options: Unpack[CallOptions],
    ) -> attempts.Entered:
        """Enters: the clock starts, and goal and data are yours; an open `attempt` once more."""
        path, body = ("challenges", name, "attempts"), leave_out_none(agent=agent, attempt=attempt)
        body["memoryless"] = memoryless
        return self._ask(attempts.Entered, "POST", *path, body=body, **options)

    def list_attempts(
        self,
        name: str,
        *,
        agent: str | None = None,
        state: str | None = None,
        live: bool | None = None,
        limit: int | None = None,
        **options: Unpack[CallOptions],
    ) -> Iterator[attempts.AttemptState]:
        """Attempts at a challenge, newest first."""
        path = ("challenges", name, "attempts")
        params = {"agent": agent, "state": state, "live": live}
        return self._page(attempts.AttemptState, *path, limit=limit, params=params, **options)

    def report(
        self, name: str, agent: str, metrics: Mapping[str, Any], **options: Unpack[CallOptions]
    ) -> attempts.Submitted:
        """Reports an attempt that a trusted system saw."""
        path, body = ("challenges", name, "reports"), {"agent": agent, "metrics": metrics}
        return self._ask(attempts.Submitted, "POST", *path, body=body, **options)

    def report_many(
        self,
        name: str,
        reports: Iterable[Mapping[str, Any]],
        *,
        atomic: bool = False,
        **options: Unpack[CallOptions],
    ) -> ReportLines:
        """Reports many; what became of each, in order. A transfer cut off is sent again whole."""
        call = Call(
            method="POST",
            path=write_path("challenges", name, "reports"),
            params={"atomic": atomic},
            body=b"\n".join(map(msgspec.json.encode, reports)),
            content_type=_LINES,
            headers={"Accept": _LINES},
            **options,
        )
        answer = self._connection.send(call)
        lines = answer.content.splitlines()
        return [self._connection.parse(attempts.ReportLine, line) for line in lines]

    def take_side(
        self,
        name: str,
        side: Literal["red", "blue"],
        content: Any,
        *,
        agent: str | None = None,
        **options: Unpack[CallOptions],
    ) -> versus.Sided:
        """Submits an attack to red or a defence to blue."""
        path, body = ("challenges", name, "sides", side), leave_out_none(agent=agent)
        body["content"] = content
        return self._ask(versus.Sided, "POST", *path, body=body, **options)

    def submissions(
        self,
        name: str,
        *,
        agent: str | None = None,
        side: Literal["red", "blue"] | None = None,
        limit: int | None = None,
        **options: Unpack[CallOptions],
    ) -> Iterator[versus.SideItem]:
        """In red against blue, one's own attacks and defences, newest first; organisers: all."""
        path, params = ("challenges", name, "submissions"), {"agent": agent, "side": side}
        return self._page(versus.SideItem, *path, limit=limit, params=params, **options)

    def submission(
        self, name: str, submission: int, **options: Unpack[CallOptions]
    ) -> versus.WholeSide:
        """One with its content, for who sent it and for organisers, and how it fared."""
        path = ("challenges", name, "submissions", str(submission))
        return (self._ask(versus.OneSide, "GET", *path, **options)).submission

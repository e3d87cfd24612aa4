"""`AsyncAttempts`: attempts, one's own and others'; and one that goes on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Unpack

from tallymark.client.aio.resource import AsyncResource
from tallymark.client.exchange import (
    Call,
    CallOptions,
    leave_out_none,
    write_path,
    write_spans,
)
from tallymark.traces import Span
from tallymark.wire import attempts as wire


class AsyncAttempts(AsyncResource):
    """Attempts, one's own and others'."""

    async def get(
        self, attempt: str, *, live: bool | None = None, **options: Unpack[CallOptions]
    ) -> wire.WholeAttempt:
        """One attempt with all that bears its score out."""
        params = {"live": live}
        asked = self._ask(wire.OneAttempt, "GET", "attempts", attempt, params=params, **options)
        return (await asked).attempt

    async def token(
        self, attempt: str, *, agent: str | None = None, **options: Unpack[CallOptions]
    ) -> str:
        """What makes spans the witnessed trajectory of an open attempt."""
        path, params = ("attempts", attempt, "token"), {"agent": agent}
        return (await self._ask(wire.AttemptToken, "GET", *path, params=params, **options)).token

    async def form(
        self, attempt: str, *, agent: str | None = None, **options: Unpack[CallOptions]
    ) -> wire.AttemptForm:
        """In which form, and how large, its answer is taken."""
        path, params = ("attempts", attempt, "form"), {"agent": agent}
        return await self._ask(wire.AttemptForm, "GET", *path, params=params, **options)

    async def submission(
        self, attempt: str, **options: Unpack[CallOptions]
    ) -> wire.SubmissionState:
        """What was submitted: for the agent that sent it and for organisers."""
        path = ("attempts", attempt, "submission")
        return (await self._ask(wire.OneSubmission, "GET", *path, **options)).submission

    async def submit(
        self,
        attempt: str,
        answer: Any,
        *,
        metadata: Mapping[str, Any] | None = None,
        trajectory: Any = None,
        agent: str | None = None,
        wait: bool = True,
        **options: Unpack[CallOptions],
    ) -> wire.Submitted:
        """Hands an answer in. Without `wait` it is scored later, and `job` says where to look."""
        call = Call(
            method="POST",
            path=write_path("attempts", attempt, "submission"),
            body=_write_submission(answer, metadata, trajectory, agent),
            headers={} if wait else {"Prefer": "respond-async"},
            **options,
        )
        return await self._connection.ask(wire.Submitted, call)

    async def validate(
        self,
        attempt: str,
        answer: Any,
        *,
        metadata: Mapping[str, Any] | None = None,
        trajectory: Any = None,
        **options: Unpack[CallOptions],
    ) -> wire.Checked:
        """Raises what is wrong with an answer, without handing it in; what else is to be said."""
        path, params = ("attempts", attempt, "submission"), {"validate_only": True}
        body = _write_submission(answer, metadata, trajectory)
        return await self._ask(wire.Checked, "POST", *path, params=params, body=body, **options)

    async def send_spans(self, token: str, spans: Iterable[Span]) -> None:
        """Shows the server steps of an open attempt that have just ended: it has seen them then."""
        await self._connection.send(write_spans(spans, token))

    async def withdraw(
        self,
        attempt: str,
        *,
        agent: str | None = None,
        reason: str | None = None,
        **options: Unpack[CallOptions],
    ) -> wire.AttemptState:
        """Gives up, which is a loss."""
        body = leave_out_none(agent=agent, reason=reason)
        return await self._act(attempt, "withdraw", body, **options)

    async def void(
        self, attempt: str, *, reason: str, **options: Unpack[CallOptions]
    ) -> wire.AttemptState:
        """Takes an attempt out of boards and ratings."""
        return await self._act(attempt, "void", {"reason": reason}, **options)

    async def unvoid(
        self, attempt: str, *, reason: str, **options: Unpack[CallOptions]
    ) -> wire.AttemptState:
        """Puts it back."""
        return await self._act(attempt, "unvoid", {"reason": reason}, **options)

    async def _act(
        self, attempt: str, act: str, body: Mapping[str, Any], **options: Unpack[CallOptions]
    ) -> wire.AttemptState:
        path = ("attempts", attempt, act)
        return (await self._ask(wire.OneAttempt, "POST", *path, body=body, **options)).attempt


def _write_submission(
    answer: Any, metadata: Mapping[str, Any] | None, trajectory: Any, agent: str | None = None
) -> dict[str, Any]:
    body = {"answer": answer, "metadata": metadata or {}, "trajectory": trajectory}
    return body | leave_out_none(agent=agent)


@dataclass
class AsyncOpenAttempt:
    """An attempt that goes on: what is asked, what it is given, and handing the answer in."""

    _attempts: AsyncAttempts
    entered: wire.Entered
    outcome: wire.Submitted | None = None

    @property
    def id(self) -> str:
        """By which the server knows it."""
        return self.entered.attempt.id

    @property
    def goal(self) -> str:
        """What is asked."""
        return self.entered.goal

    @property
    def data(self) -> dict[str, Any]:
        """Names and contents of the files to work with."""
        return self.entered.data

    @property
    def rules(self) -> dict[str, Any]:
        """The challenge: the form of an answer with its schema, limits, how it is scored."""
        return self.entered.challenge

    @property
    def token(self) -> str:
        """Spans that carry it as `tally.attempt` are the witnessed trajectory."""
        return self.entered.token

    @property
    def expires_at(self) -> float:
        """Until when an answer is taken, by the server's clock."""
        return self.entered.attempt.expires_at

    async def send_spans(self, spans: Iterable[Span]) -> None:
        """Shows the server steps that have just ended, so that it has seen them itself."""
        await self._attempts.send_spans(self.token, spans)

    async def validate(self, answer: Any, **more: Any) -> wire.Checked:
        """Raises what is wrong with an answer, without handing it in; what else is to be said."""
        return await self._attempts.validate(self.id, answer, **more)

    async def submit(self, answer: Any, **more: Any) -> wire.Submitted:
        """Hands the answer in, once."""
        self.outcome = await self._attempts.submit(self.id, answer, **more)
        return self.outcome

"""`AsyncTraces`: production traces, what they come to, and what people think of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any, TypeAlias, Unpack

import msgspec

from tallymark.client.aio.resource import AsyncResource
from tallymark.client.exchange import Call, CallOptions, leave_out_none, write_path
from tallymark.traces.trace import Trace
from tallymark.wire import traces as wire

Lines: TypeAlias = list[bytes]
_AT_ONCE = 4_000_000
"""Bytes of traces in one request."""


class AsyncTraces(AsyncResource):
    """Production traces. A `filter` is written as in `status:error tool:search since:2h`."""

    def list(
        self,
        filter: str = "",  # noqa: A002 (as users say it)
        *,
        limit: int | None = None,
        **options: Unpack[CallOptions],
    ) -> AsyncIterator[wire.TraceItem]:
        """Traces that fit, newest first; spans are not in it."""
        params = {"filter": filter}
        return self._page(wire.TraceItem, "traces", limit=limit, params=params, **options)

    async def page(
        self,
        filter: str = "",  # noqa: A002
        *,
        limit: int = 50,
        cursor: str | None = None,
        **options: Unpack[CallOptions],
    ) -> wire.TracePage:
        """One page of them, with how many were looked at for it and where the next begins."""
        params = {"filter": filter, "limit": limit, "cursor": cursor}
        return await self._ask(wire.TracePage, "GET", "traces", params=params, **options)

    async def get(
        self, trace: str, *, version: int | None = None, **options: Unpack[CallOptions]
    ) -> wire.WholeTrace:
        """One trace with its spans and scores; an older `version` as it was then."""
        path, params = ("traces", trace), {"version": version}
        return (await self._ask(wire.OneTrace, "GET", *path, params=params, **options)).trace

    async def load(
        self, traces: Iterable[Trace], **options: Unpack[CallOptions]
    ) -> wire.LoadedTraces:
        """Keeps whole traces, some at a time. Sent again, they add nothing."""
        told: list[wire.LoadedTraces] = []
        size = 0
        lines: Lines = []
        for trace in traces:
            line = msgspec.json.encode(trace.to_dict())
            if lines and size + len(line) > _AT_ONCE:
                told.append(await self._send(lines, **options))
                lines, size = [], 0
            lines.append(line)
            size += len(line)
        if lines:
            told.append(await self._send(lines, **options))
        names = wire.LoadedTraces.model_fields
        return wire.LoadedTraces(
            **{name: sum(getattr(each, name) for each in told) for name in names}
        )

    async def _send(self, lines: Lines, **options: Unpack[CallOptions]) -> wire.LoadedTraces:
        kind = "application/x-ndjson"
        body = b"\n".join(lines)
        call = Call(method="POST", path="/traces", body=body, content_type=kind, **options)
        return await self._connection.ask(wire.LoadedTraces, call)

    async def remove(self, trace: str, **options: Unpack[CallOptions]) -> None:
        """Removes a trace with all that is known of it."""
        call = Call(method="DELETE", path=write_path("traces", trace), **options)
        await self._connection.send(call)

    async def sums(
        self,
        filter: str = "",  # noqa: A002
        *,
        by: str | None = None,
        every: str | float | None = None,
        measure: str | None = None,
        **options: Unpack[CallOptions],
    ) -> wire.TraceSums:
        """Counts, costs and means: of all that fit, by what they have in common, or over time."""
        params = {"filter": filter, "by": by, "every": every, "measure": measure}
        return await self._ask(wire.TraceSums, "GET", "traces", "sums", params=params, **options)

    async def compare(
        self, first: str, second: str, measure: str, **options: Unpack[CallOptions]
    ) -> wire.TraceComparison:
        """Two filters by one measure, with the interval of the difference."""
        params = {"first": first, "second": second, "measure": measure}
        path = ("traces", "compare")
        told = await self._ask(wire.OneComparison, "GET", *path, params=params, **options)
        return told.comparison

    async def worst(
        self,
        score: str,
        filter: str = "",  # noqa: A002
        *,
        limit: int = 100,
        best: bool = False,
        **options: Unpack[CallOptions],
    ) -> wire.WorstTraces:
        """The traces with the lowest scores of a name, or the highest."""
        params = {"score": score, "filter": filter, "limit": limit, "best": best}
        path = ("traces", "worst")
        return await self._ask(wire.WorstTraces, "GET", *path, params=params, **options)

    async def choices(self, **options: Unpack[CallOptions]) -> wire.TraceChoices:
        """What filters can name."""
        return await self._ask(wire.TraceChoices, "GET", "traces", "choices", **options)

    async def session(self, name: str, **options: Unpack[CallOptions]) -> wire.TraceSession:
        """A session as a whole."""
        path = ("traces", "sessions", name)
        return (await self._ask(wire.OneSession, "GET", *path, **options)).session

    async def score(
        self,
        trace: str,
        name: str,
        value: float | None = None,
        *,
        label: str | None = None,
        reason: str | None = None,
        expected: str | None = None,
        **options: Unpack[CallOptions],
    ) -> wire.TraceScore:
        """Gives a trace a score of your own; another one replaces it."""
        body = leave_out_none(value=value, label=label, reason=reason, expected=expected)
        body["name"] = name
        path = ("traces", trace, "scores")
        return (await self._ask(wire.OneTraceScore, "POST", *path, body=body, **options)).score

    async def make_suite(
        self,
        filter: str = "",  # noqa: A002
        *,
        traces: Iterable[str] | None = None,
        name: str = "from-production",
        scorers: Iterable[str] = (),
        limit: int = 100,
        **options: Unpack[CallOptions],
    ) -> wire.TracedSuite:
        """A suite whose cases ask what these traces were asked."""
        chosen = None if traces is None else [*traces]
        body = {"filter": filter, "name": name, "scorers": [*scorers], "limit": limit}
        body |= leave_out_none(traces=chosen)
        path = ("traces", "suite")
        return await self._ask(wire.TracedSuite, "POST", *path, body=body, **options)

    async def settings(self, **options: Unpack[CallOptions]) -> wire.KeptTraceSettings:
        """What is kept of traces, and what is taken out of them."""
        path = ("traces", "settings")
        return (await self._ask(wire.OneTraceSettings, "GET", *path, **options)).settings

    async def change_settings(
        self, changes: dict[str, Any], **options: Unpack[CallOptions]
    ) -> wire.KeptTraceSettings:
        """Changes them, as in `TraceSettings`: what is not named stays, and None keeps for ever."""
        path = ("traces", "settings")
        told = await self._ask(wire.OneTraceSettings, "PATCH", *path, body=changes, **options)
        return told.settings

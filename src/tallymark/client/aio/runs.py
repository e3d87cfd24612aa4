"""`AsyncRuns`: runs of suites."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, Literal, Unpack

from tallymark.client.aio.resource import AsyncResource
from tallymark.client.exchange import CallOptions, Event, leave_out_none
from tallymark.wire import runs as wire


class AsyncRuns(AsyncResource):
    """Runs of suites."""

    def list(  # noqa: PLR0913 (the filters of a list)
        self,
        *,
        suite: str | None = None,
        model: str | None = None,
        status: wire.Status | None = None,
        group: str | None = None,
        since: float | None = None,
        min_score: float | None = None,
        sort: str | None = None,
        order: Literal["asc", "desc"] | None = None,
        kept: bool | None = None,
        limit: int | None = None,
        **options: Unpack[CallOptions],
    ) -> AsyncIterator[wire.Run]:
        """Runs, newest first; with `kept`, each has all its fields in `record`."""
        params: dict[str, Any] = {"suite": suite, "model": model, "status": status, "group": group}
        params |= {"since": since, "min_score": min_score, "sort": sort, "order": order}
        params["kept"] = kept
        return self._page(wire.Run, "runs", limit=limit, params=params, **options)

    async def get(
        self, run: str, *, kept: bool | None = None, **options: Unpack[CallOptions]
    ) -> wire.Run:
        """One run: by its id, by a beginning of it, or `latest`."""
        path, params = ("runs", run), {"kept": kept}
        return (await self._ask(wire.OneRun, "GET", *path, params=params, **options)).run

    async def execute(
        self,
        suite: str | Mapping[str, Any],
        models: Iterable[str],
        *,
        wishes: Mapping[str, Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> wire.StartedRuns:
        """Has the server run a suite: text of YAML, or its JSON. `wishes` are as in `NewRun`."""
        body = {**leave_out_none(**(wishes or {})), "suite": suite, "models": list(models)}
        return await self._ask(wire.StartedRuns, "POST", "runs", body=body, **options)

    async def keep(
        self, run: Mapping[str, Any], **options: Unpack[CallOptions]
    ) -> wire.StartedRuns:
        """Keeps a run that was done elsewhere, with its results, as `tally run --json` gives it."""
        return await self._ask(wire.StartedRuns, "POST", "runs", body={"run": run}, **options)

    async def rename(
        self, run: str, name: str, *, reason: str = "", **options: Unpack[CallOptions]
    ) -> wire.Run:
        """Gives a run that has ended a name, shown beside its id."""
        body = {"name": name, "reason": reason}
        return (await self._ask(wire.OneRun, "PATCH", "runs", run, body=body, **options)).run

    async def delete(
        self, run: str, *, reason: str | None = None, **options: Unpack[CallOptions]
    ) -> wire.Run:
        """Deletes a run that has ended, with its results."""
        path, params = ("runs", run), {"reason": reason}
        return (await self._ask(wire.OneRun, "DELETE", *path, params=params, **options)).run

    def cases(
        self,
        run: str,
        *,
        status: str | None = None,
        traces: bool = False,
        limit: int | None = None,
        **options: Unpack[CallOptions],
    ) -> AsyncIterator[wire.Case]:
        """The results of a run by case and epoch."""
        # What agents did may be long, and a page of it is an answer as any other.
        params = {"status": status, "traces": traces, "limit": 100 if traces else None}
        return self._page(wire.Case, "runs", run, "cases", limit=limit, params=params, **options)

    def events(
        self, run: str, *, after: int | None = None, **options: Unpack[CallOptions]
    ) -> AsyncIterator[Event]:
        """What happens in a run, until it has ended."""
        return self._listen("runs", run, "events", after=after, ends=True, **options)

    async def cancel(self, run: str, **options: Unpack[CallOptions]) -> wire.Run:
        """Stops a run; what it has so far is kept."""
        return (await self._ask(wire.OneRun, "POST", "runs", run, "cancel", **options)).run

    async def rescore(
        self,
        run: str,
        *,
        formula: str | None = None,
        suite: str | Mapping[str, Any] | None = None,
        preview: bool = False,
        **options: Unpack[CallOptions],
    ) -> wire.RescoredRun:
        """The run by another formula or suite, kept as a new one unless it is a preview."""
        params, body = {"preview": preview}, leave_out_none(formula=formula, suite=suite)
        path = ("runs", run, "rescore")
        return await self._ask(wire.RescoredRun, "POST", *path, params=params, body=body, **options)

    async def compare(
        self,
        run: str,
        *others: str,
        formula: str | None = None,
        alpha: float | None = None,
        tolerance: float | str | None = None,
        strict: bool = False,
        **options: Unpack[CallOptions],
    ) -> wire.Comparison:
        """Runs against the first of them."""
        params: dict[str, Any] = {"run": [run, *others], "formula": formula, "alpha": alpha}
        params |= {"tolerance": tolerance, "strict": strict}
        return await self._ask(wire.Comparison, "GET", "compare", params=params, **options)

"""`AsyncJobs`: work that takes longer than a request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Unpack

from tallymark.client.aio.resource import AsyncResource
from tallymark.client.exchange import CallOptions
from tallymark.wire import accounts as wire


class AsyncJobs(AsyncResource):
    """Work that takes longer than a request."""

    def list(
        self,
        *,
        state: wire.JobStates | None = None,
        kind: str | None = None,
        limit: int | None = None,
        **options: Unpack[CallOptions],
    ) -> AsyncIterator[wire.JobState]:
        """Jobs, newest first."""
        params = {"state": state, "kind": kind}
        return self._page(wire.JobState, "jobs", limit=limit, params=params, **options)

    async def get(self, job: str, **options: Unpack[CallOptions]) -> wire.JobState:
        """One job."""
        return (await self._ask(wire.OneJob, "GET", "jobs", job, **options)).job

    async def cancel(self, job: str, **options: Unpack[CallOptions]) -> wire.JobState:
        """Stops it."""
        return (await self._ask(wire.OneJob, "POST", "jobs", job, "cancel", **options)).job

    async def retry(self, job: str, **options: Unpack[CallOptions]) -> wire.JobState:
        """Has it done again."""
        return (await self._ask(wire.OneJob, "POST", "jobs", job, "retry", **options)).job

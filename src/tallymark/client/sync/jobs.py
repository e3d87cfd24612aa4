"""`Jobs`: work that takes longer than a request."""

# Written by `make client` from client/aio/jobs.py: change that one.

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack

from tallymark.client.exchange import CallOptions
from tallymark.client.sync.resource import Resource
from tallymark.wire import accounts as wire


class Jobs(Resource):
    """Work that takes longer than a request."""

    def list(
        self,
        *,
        state: wire.JobStates | None = None,
        kind: str | None = None,
        limit: int | None = None,
        **options: Unpack[CallOptions],
    ) -> Iterator[wire.JobState]:
        """Jobs, newest first."""
        params = {"state": state, "kind": kind}
        return self._page(wire.JobState, "jobs", limit=limit, params=params, **options)

    def get(self, job: str, **options: Unpack[CallOptions]) -> wire.JobState:
        """One job."""
        return (self._ask(wire.OneJob, "GET", "jobs", job, **options)).job

    def cancel(self, job: str, **options: Unpack[CallOptions]) -> wire.JobState:
        """Stops it."""
        return (self._ask(wire.OneJob, "POST", "jobs", job, "cancel", **options)).job

    def retry(self, job: str, **options: Unpack[CallOptions]) -> wire.JobState:
        """Has it done again."""
        return (self._ask(wire.OneJob, "POST", "jobs", job, "retry", **options)).job

"""Jobs."""

from __future__ import annotations

from typing import Any, Literal

from tallymark.wire.parts import Moment, Told

JobStates = Literal["queued", "running", "done", "failed", "set_aside", "cancelled"]


class JobState(Told):
    """A piece of work that takes longer than a request."""

    id: str
    kind: str
    state: JobStates
    created_at: Moment
    result: Any = None
    error: str | None = None


class OneJob(Told):
    """A job."""

    job: JobState

"""Variables, secrets and jobs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from tallymark.wire.parts import Asked, Listed, Moment, Told

Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.-]{0,99}$", examples=["ENDPOINT"])]


class Variable(Asked):
    """The value of a variable."""

    value: str = Field(max_length=100_000)


class Secret(Asked):
    """The value of a secret."""

    value: str = Field(min_length=1, max_length=100_000)


class Variables(Told):
    """Variables by name."""

    vars: dict[str, str]


class SecretNames(Told):
    """Names of secrets; their values are shown to nobody."""

    secrets: list[str]


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


class JobPage(Listed[JobState]):
    """Jobs, newest first."""

"""`TraceSum`: several traces taken together, and the labels that traces can be grouped by."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

GROUPS = ("service", "version", "session", "user", "name", "status", "model", "tool", "tag")


class TraceSum(msgspec.Struct, frozen=True, kw_only=True):
    """Counts, costs and means of several traces."""

    group: Annotated[
        str | float | None, Meta(description="A label, or the time at which a step begins.")
    ]
    traces: int
    errors: int
    cost: float | None
    tokens: int | None
    duration: Annotated[float | None, Meta(description="The mean, in seconds.")]
    measured: Annotated[int, Meta(description="Traces that have the measure.")] = 0
    mean: float | None = None
    low: Annotated[float | None, Meta(description="With `high`, 95 % interval of the mean.")] = None
    high: float | None = None

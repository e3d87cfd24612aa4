"""How long a tenant stores its data, and what it does not store at all: settings, not removal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from tallymark.documents.shapes import parse_duration
from tallymark.errors import InvalidInput, suggest

if TYPE_CHECKING:
    from collections.abc import Iterable


FOREVER = "forever"
_DAY = 86_400.0
_Days = Annotated[float, msgspec.Meta(gt=0, le=36_500)]
_WholeDays = Annotated[float, msgspec.Meta(ge=1, le=36_500)]


class Retention(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Days for which a tenant stores each kind of data; None is forever. Traces are apart."""

    runs: _Days | None = None
    """Runs with their results and reviews, after they ended."""
    jobs: _Days | None = 7.0
    """Jobs, after they ended."""
    answers: _WholeDays | None = 1.0
    """Answers to requests under an Idempotency-Key, which are given again for a day."""
    sessions: _Days | None = 1.0
    """Sessions, after they were over."""
    deliveries: _Days | None = 30.0
    """Messages to webhooks, after they were accepted or have failed."""
    registrations: _WholeDays | None = 2.0
    """From which addresses agents were registered, which counts for a day."""


def read_days(texts: Iterable[str]) -> dict[str, float | None]:
    """Parse days by kind from texts such as `runs=90d`; None is forever."""
    known = Retention.__struct_fields__
    found: dict[str, float | None] = {}
    for text in texts:
        kind, _, time = text.partition("=")
        if kind not in known:
            near = suggest(kind, known)
            hint = f"did you mean {near!r}?" if near else f"there is {', '.join(known)}"
            own = "for traces, see: tally traces settings"
            raise InvalidInput(
                f"there is no retention setting {kind!r}", hint=own if kind == "traces" else hint
            )
        seconds = None if time == FOREVER else parse_duration(time)
        if time != FOREVER and not seconds:
            raise InvalidInput(f"{kind}: {time!r} is no time", hint=f"write 90d, 36h or {FOREVER}")
        found[kind] = None if seconds is None else seconds / _DAY
    return found


QUIET_S = 10.0
"""Seconds without new spans after which a trace whose root has ended is settled."""
ROOTLESS_QUIET_S = 60.0
"""Seconds without new spans after which a trace without a root is finalised."""
_Seconds = Annotated[float, msgspec.Meta(ge=0.1, le=86_400)]
_TraceDays = Annotated[float, msgspec.Meta(gt=0, le=36_500)]
_Megabytes = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]


class TraceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a tenant for its traces."""

    quiet_s: _Seconds = QUIET_S
    """Seconds without new spans after which a trace whose root has ended is settled."""
    keep_days: _TraceDays | None = 90.0
    """Days after their arrival until traces are removed; None stores them forever."""
    keep_mb: _Megabytes | None = None
    """The oldest are removed when all together are larger, compressed; None is any size."""
    redact_attributes: tuple[str, ...] = ()
    """Names of attributes, with * and ?, whose values are not stored."""
    redact_patterns: tuple[str, ...] = ()
    """Regular expressions: matching text is not stored, in any field."""

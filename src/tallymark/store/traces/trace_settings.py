"""What a tenant says about its traces: what is not stored, how long they are kept."""

from __future__ import annotations

from typing import Annotated

import msgspec

from tallymark.store.traces.trace_items import QUIET_S

_Seconds = Annotated[float, msgspec.Meta(ge=0.1, le=86_400)]
_Days = Annotated[float, msgspec.Meta(gt=0, le=36_500)]
_Megabytes = Annotated[int, msgspec.Meta(ge=1, le=1_000_000_000)]


class TraceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of them have defaults."""

    quiet_s: _Seconds = QUIET_S
    """Seconds without new spans after which a trace whose root has ended is settled."""
    keep_days: _Days | None = 90.0
    """Traces are removed so many days after they came; None keeps them."""
    keep_mb: _Megabytes | None = None
    """The oldest are removed when all together are larger, compressed; None is any size."""
    redact_attributes: tuple[str, ...] = ()
    """Names of attributes, with * and ?, whose values are not stored."""
    redact_patterns: tuple[str, ...] = ()
    """Regular expressions: what fits is not stored, in whichever text it stands."""

"""`Limits` of one run of untrusted code, and the endings that count against an agent."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal

from tallymark.errors import InvalidInput
from tallymark.text import format_number

DEFAULT_PLUGIN_TIMEOUT_S = 5.0
"""Default time limit of one plugin call; a challenge may set another (`timeout:`)."""

PAUSE_AFTER = 5
"""Number of processes after which an agent whose attempts end them is paused."""
DEADLY = frozenset({"timeout", "memory", "crashed", "refused"})
"""Ways for a plugin's call to end that cost a process."""
NOT_LOADED: Literal["not loaded"] = "not loaded"
"""The plugin ended before it began an attempt: no competitor is to blame."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one run; code that exceeds one is ended, and the outcome names it."""

    wall_s: float = DEFAULT_PLUGIN_TIMEOUT_S
    cpu_s: float | None = None
    """Seconds of processor time; as the wall time unless set."""
    memory_mb: int = 256
    processes: int = 1
    open_files: int = 64
    output_mb: float = 1.0
    disk_mb: float = 16.0

    def __post_init__(self) -> None:
        """Refuse limits that limit nothing."""
        for name in (each.name for each in fields(self)):
            value = getattr(self, name)
            if value is None and name == "cpu_s":
                continue
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not (number and 0 < value < math.inf):
                raise InvalidInput(f"the limit {name} is a number above 0, not {value!r}")

    def describe(self) -> str:
        """All of them, in a few words."""
        cpu = "" if self.cpu_s is None else f" ({format_number(self.cpu_s)} s of a processor)"
        parts = (
            f"{format_number(self.wall_s)} s{cpu}",
            f"{format_number(self.memory_mb)} MB of memory",
            f"{format_number(self.disk_mb)} MB of disk",
            f"{format_number(self.output_mb)} MB of output",
            f"{self.open_files} open files",
            f"{self.processes} process{'' if self.processes == 1 else 'es'}",
        )
        return ", ".join(parts)

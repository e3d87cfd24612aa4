"""Limits that the kernel keeps for one process: memory, processor time, files, output."""

from __future__ import annotations

import math
import resource
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tallymark.sandbox.limits import Limits

_MB = 2**20


def apply(limits: Limits) -> None:
    """Bind this process and its children, for good; a tighter limit already in force stays."""
    seconds = math.ceil(limits.wall_s if limits.cpu_s is None else limits.cpu_s)
    # The soft limit ends it with a signal of its own, the hard one in any case.
    _lower(resource.RLIMIT_CPU, seconds, seconds + 1)
    _lower(resource.RLIMIT_AS, limits.memory_mb * _MB)
    _lower(resource.RLIMIT_FSIZE, int(limits.disk_mb * _MB))
    _lower(resource.RLIMIT_NOFILE, limits.open_files)
    _lower(resource.RLIMIT_NPROC, limits.processes)
    for none in (resource.RLIMIT_CORE, resource.RLIMIT_MEMLOCK, resource.RLIMIT_MSGQUEUE):
        _lower(none, 0)


def _lower(which: int, soft: int, hard: int | None = None) -> None:
    ceiling = resource.getrlimit(which)[1]
    if ceiling == resource.RLIM_INFINITY:
        ceiling = max(soft, hard or soft)
    hard = min(ceiling, soft if hard is None else hard)
    resource.setrlimit(which, (min(soft, hard), hard))

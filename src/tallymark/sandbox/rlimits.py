"""Limits that the kernel enforces for a process: memory, files, output.

Processor time is not among those of a plugin: it has one thread, so its deadline bounds that too.
"""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tallymark.sandbox.limits import Limits

_MB = 2**20


def apply(limits: Limits) -> None:
    """Bind this process and its children, for good; a tighter limit already in force stays."""
    lower(resource.RLIMIT_AS, limits.memory_mb * _MB)
    lower(resource.RLIMIT_FSIZE, int(limits.disk_mb * _MB))
    for none in (resource.RLIMIT_CORE, resource.RLIMIT_MEMLOCK, resource.RLIMIT_MSGQUEUE):
        lower(none, 0)


def apply_to_files(most: int) -> None:
    """Limit this process's open files.

    Not part of `apply`: descriptors in transit from all guests of a user together may not exceed
    this, so a guest, which sends some, needs a looser limit than its children.
    """
    lower(resource.RLIMIT_NOFILE, most)


def lower(which: int, most: int) -> None:
    """Bind this process to one limit, for good, and never looser than what holds already."""
    # Below the hard limit of processor time, the soft one sends a signal of its own.
    hard = most + 1 if which == resource.RLIMIT_CPU else most
    ceiling = resource.getrlimit(which)[1]
    if ceiling != resource.RLIM_INFINITY:
        most, hard = min(most, ceiling), min(hard, ceiling)
    resource.setrlimit(which, (most, hard))

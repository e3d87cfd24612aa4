"""The child of a guest: locks itself in, serves one call, and ends."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import NoReturn

from tallymark.sandbox import landlock, rlimits, seccomp
from tallymark.sandbox.plugins.serving import serve_attempts

LINK = 3
"""The descriptor over which attempts come and answers go."""
NOT_LOCKED_IN, NO_MEMORY, BROKEN = 113, 114, 115
"""How it exits when it cannot say more."""


@dataclass(frozen=True, slots=True)
class Walls:
    """What keeps a child in besides what it inherits, made ready ahead by its guest."""

    scratch: str
    rules: int | None
    """Landlock's, as a descriptor."""
    filter: bytes | None
    """Seccomp's."""
    open_files: int


def run_child(link: int, progress: memoryview, walls: Walls) -> NoReturn:
    """All that a child does. It never returns to the guest's code, whatever happens."""
    leave, code = os._exit, NOT_LOCKED_IN
    try:
        _lock_in(link, walls)
        code = BROKEN
        serve_attempts(LINK, progress)
        code = 0
    except MemoryError:
        code = NO_MEMORY
    except BaseException:  # noqa: BLE001, S110 (the exit code tells)
        pass
    finally:
        leave(code)


def _lock_in(link: int, walls: Walls) -> None:
    os.chdir(walls.scratch)
    if (tempfile := sys.modules.get("tempfile")) is not None:
        vars(tempfile)["tempdir"] = walls.scratch
    if walls.rules is not None:
        landlock.enforce(walls.rules)
    os.dup2(link, LINK)
    # The guest's descriptors, those of its other children among them, are not this child's.
    os.closerange(LINK + 1, 256)
    rlimits.apply_to_files(walls.open_files)
    if walls.filter is None:
        os.setsid()  # so that its guest can end those it starts
    else:
        # Last, because it takes away the calls by which the other walls were put up.
        seccomp.load(walls.filter)

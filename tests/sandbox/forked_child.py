"""A forked child of the test, to put a wall around."""

from __future__ import annotations

import os
from collections.abc import Callable


def in_a_child(work: Callable[[], object]) -> int:
    """How a forked child ends that does the work: 0, the errno of what was refused, or a signal."""
    child = os.fork()
    if child == 0:
        code = 255
        try:
            work()
            code = 0
        except OSError as error:
            code = error.errno or 254
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)

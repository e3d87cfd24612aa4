"""Whether a block of results holds anything that is not finite, or a 0.

A formula that ends in a division, as most with a cost do, has this told by the division itself
where `_quotients.c` could be compiled; otherwise the results are read twice more.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

try:
    from tallymark.formula import _quotients as compiled
except ImportError:  # where this was installed, there was no compiler
    compiled = None  # type: ignore[assignment]

Array: TypeAlias = "NDArray[np.float64]"

NOT_FINITE = 1
ZERO = 2


def divide(above: Array | float, below: Array | float, out: Array) -> int:
    """Writes the quotients, and says what `look` would."""
    if compiled is not None:
        try:
            return compiled.divide(above, below, out)
        except (TypeError, ValueError):  # a single number, or a column with gaps in its memory
            pass
    with np.errstate(all="ignore"):
        np.divide(above, below, out)
    return look(out)


def look(out: Array) -> int:
    """NOT_FINITE if any number is not finite, otherwise ZERO if any may be 0."""
    # The two quickest ways to read a block once.
    low, high = np.minimum.reduce(out), np.maximum.reduce(out)
    if not -math.inf < low <= high < math.inf:
        return NOT_FINITE
    return ZERO if low <= 0.0 <= high else 0

"""The guide's submission, scored on four weighted dimensions. Run it with Python.

It prints the response that a competitor gets: 823.5 in all, shown as 823, a win.
"""

from __future__ import annotations

import json

from tallymark.dimensions import Breakdown, breakdown, dims

DIMENSIONS = dims(
    {"correctness": 0.5, "speed": 0.2, "methodology": 0.15, "completeness": 0.15},
    {"correctness": {"description": "The right culprit is named"}},
)


def submission() -> Breakdown:
    """The raw scores as an evaluator gave them."""
    raw = {"correctness": 900, "speed": 780, "methodology": 690, "completeness": 760}
    return breakdown(DIMENSIONS, raw)


if __name__ == "__main__":
    print(json.dumps(submission().to_dict(), indent=2))

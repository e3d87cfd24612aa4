"""Score a submission on four weighted dimensions. Run it with Python.

It prints the response for the competitor: a total of 823.5, shown as 823, a win.
"""

from __future__ import annotations

import json

from tallymark.dimensions import Breakdown, breakdown, dims

DIMENSIONS = dims(
    {"correctness": 0.5, "speed": 0.2, "methodology": 0.15, "completeness": 0.15},
    {"correctness": {"description": "The right culprit is named"}},
)


def submission() -> Breakdown:
    """Raw scores from an evaluator."""
    raw = {"correctness": 900, "speed": 780, "methodology": 690, "completeness": 760}
    return breakdown(DIMENSIONS, raw)


if __name__ == "__main__":
    print(json.dumps(submission().to_dict(), indent=2))

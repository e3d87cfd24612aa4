"""The attempts that `check_plugin` tries a plugin on: ordinary ones, and awkward ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ORDINARY: dict[str, Any] = {
    "succeeded": True,
    "tokens_total": 1500,
    "elapsed_ms": 12_000,
    "rating": 8,
    "created_at": 1_760_000_000_000,
}
_NUMBERS = tuple(name for name in ORDINARY if name != "succeeded")
_LARGEST = 2**63 - 1
"""What a database can hold."""


def _make_succeeded() -> dict[str, dict[str, Any]]:
    return {
        "ordinary": ORDINARY,
        "excellent": ORDINARY | {"tokens_total": 200, "elapsed_ms": 900, "rating": 10},
        "poor": ORDINARY | {"tokens_total": 90_000, "elapsed_ms": 600_000, "rating": 1},
        "fractions": ORDINARY | {"tokens_total": 1500.5, "elapsed_ms": 12_000.5, "rating": 7.5},
        **{f"without {name}": _leave_out(name) for name in _NUMBERS},
        **{f"{name} 0": ORDINARY | {name: 0} for name in _NUMBERS},
        "only succeeded": {"succeeded": True},
        "all 0": {"succeeded": True, **dict.fromkeys(_NUMBERS, 0)},
        "all null": {"succeeded": True, **dict.fromkeys(_NUMBERS)},
        "huge tokens and time": ORDINARY | {"tokens_total": _LARGEST, "elapsed_ms": _LARGEST},
        "rating 1000": ORDINARY | {"rating": 1000},
        "negative numbers": {"succeeded": True, **dict.fromkeys(_NUMBERS, -5)},
    }


def _leave_out(name: str) -> dict[str, Any]:
    return {key: value for key, value in ORDINARY.items() if key != name}


def twin_name(name: str) -> str:
    """What the same attempt is called when it failed."""
    return f"{name}, failed"


SUCCEEDED: Mapping[str, Mapping[str, Any]] = _make_succeeded()
SAMPLES: Mapping[str, Mapping[str, Any]] = {
    **SUCCEEDED,
    **{twin_name(name): {**metrics, "succeeded": False} for name, metrics in SUCCEEDED.items()},
    "without succeeded": _leave_out("succeeded"),
    "nothing known": {},
}
"""By name. Each one that succeeded has a twin that failed."""

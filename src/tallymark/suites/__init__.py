"""Tests and suites in Python, running them, and scoring traces that already exist.

What runs them loads when first used: whoever only defines a suite does not pay for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tallymark.suites.python_suites.suite_and_test import Agent, Suite, Test

if TYPE_CHECKING:
    from tallymark.suites.python_suites.suite_run import arun, run
    from tallymark.suites.scored_traces import ScoredTraces

__all__ = [
    "Agent",
    "ScoredTraces",
    "Suite",
    "Test",
    "arun",
    "run",
]

_LATE = {
    "ScoredTraces": "tallymark.suites.scored_traces",
    "arun": "tallymark.suites.python_suites.suite_run",
    "run": "tallymark.suites.python_suites.suite_run",
}


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(import_module(_LATE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

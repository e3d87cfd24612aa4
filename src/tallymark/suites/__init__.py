"""Python tests and suites, running them, and scoring existing traces.

The modules that run suites load when first used, so that defining a suite is cheap.
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

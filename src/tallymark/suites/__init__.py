"""Tests and suites in Python, running them, and scoring traces that already exist.

What runs them loads when first used: whoever only defines a suite does not pay for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tallymark.suites.code.suite import Agent, Suite
from tallymark.suites.code.test import Test

if TYPE_CHECKING:
    from tallymark.suites.code.report import Report, TestResult
    from tallymark.suites.code.running import arun, run
    from tallymark.suites.stored import ScoredTraces, StoredSummary

__all__ = [
    "Agent",
    "Report",
    "ScoredTraces",
    "StoredSummary",
    "Suite",
    "Test",
    "TestResult",
    "arun",
    "run",
]

_LATE = {
    "Report": "code.report",
    "ScoredTraces": "stored",
    "StoredSummary": "stored",
    "TestResult": "code.report",
    "arun": "code.running",
    "run": "code.running",
}


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(import_module(f"tallymark.suites.{_LATE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

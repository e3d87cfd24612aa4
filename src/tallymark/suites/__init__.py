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
    "Report": "tallymark.suites.code.report",
    "ScoredTraces": "tallymark.suites.stored",
    "StoredSummary": "tallymark.suites.stored",
    "TestResult": "tallymark.suites.code.report",
    "arun": "tallymark.suites.code.running",
    "run": "tallymark.suites.code.running",
}


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(import_module(_LATE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Runs, challenges, traces, accounts and secrets, stored in SQLite or PostgreSQL.

Modules about challenges load when they are first used, so that commands about runs stay fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tallymark.store.run_results import ResultWriter
from tallymark.store.runs import SORTS, RunFilter
from tallymark.store.store import Store, open_store

if TYPE_CHECKING:
    from tallymark.store.contests.attempt_rows import ScoreEntry
    from tallymark.store.contests.audit_log import AuditEntry

__all__ = ["SORTS", "AuditEntry", "ResultWriter", "RunFilter", "ScoreEntry", "Store", "open_store"]

_LATE = {
    "AuditEntry": "tallymark.store.contests.audit_log",
    "ScoreEntry": "tallymark.store.contests.attempt_rows",
}


def __getattr__(name: str) -> Any:
    if name in _LATE:
        return getattr(import_module(_LATE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""What is kept: runs, challenges, attempts, variables and secrets, in SQLite or PostgreSQL."""

from tallymark.store.address import DEFAULT as DEFAULT_ADDRESS
from tallymark.store.contests.audit_log import AuditEntry
from tallymark.store.contests.score_rows import ScoreEntry
from tallymark.store.runs.result_writer import ResultWriter
from tallymark.store.runs.run_rows import SORTS, RunFilter
from tallymark.store.store import Store, open_store

__all__ = [
    "DEFAULT_ADDRESS",
    "SORTS",
    "AuditEntry",
    "ResultWriter",
    "RunFilter",
    "ScoreEntry",
    "Store",
    "open_store",
]

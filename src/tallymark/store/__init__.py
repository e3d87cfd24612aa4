"""What is kept: runs, challenges, attempts, variables and secrets, in SQLite or PostgreSQL."""

from tallymark.store.address import DEFAULT as DEFAULT_ADDRESS
from tallymark.store.audit import AuditEntry
from tallymark.store.runs import SORTS, RunFilter
from tallymark.store.score_rows import ScoreEntry
from tallymark.store.store import Store, open_store
from tallymark.store.writer import ResultWriter

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

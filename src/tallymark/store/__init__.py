"""What is kept: runs and their results, variables and secrets, in SQLite or PostgreSQL."""

from tallymark.store.address import DEFAULT as DEFAULT_ADDRESS
from tallymark.store.runs import SORTS, RunFilter
from tallymark.store.store import Store, open_store
from tallymark.store.writer import ResultWriter

__all__ = ["DEFAULT_ADDRESS", "SORTS", "ResultWriter", "RunFilter", "Store", "open_store"]

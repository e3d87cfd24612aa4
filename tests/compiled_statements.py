"""Statements compiled once for all databases of a process.

SQLAlchemy keeps what it compiled for each engine apart, because dialects may be set up differently.
Ours are not, and every test has a database of its own: it would compile nearly all that it asks.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, create_engine
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.util import LRUCache

from tallymark.store import database

KINDS = (PGDialect_psycopg, SQLiteDialect_pysqlite)
_kept: LRUCache[Any, Any] = LRUCache(3000)


def share_statements() -> None:
    """From now on, in the engines of stores."""
    for kind in KINDS:
        kind.__eq__ = lambda self, other: type(self) is type(other)  # type: ignore[method-assign]
        kind.__hash__ = lambda self: hash(type(self))  # type: ignore[method-assign]
    database.create_engine = _create_engine  # type: ignore[attr-defined]


def _create_engine(url: Any, **options: Any) -> Engine:
    engine = create_engine(url, **options)
    engine._compiled_cache = _kept
    return engine

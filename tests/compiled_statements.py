"""One cache of compiled statements for all databases that tests open.

SQLAlchemy keeps one for each engine, so a test with a database of its own would compile every
statement anew.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine
from sqlalchemy.util import LRUCache


class _Statements(LRUCache[Any, Any]):
    """By the kind of the dialect instead of the dialect itself, of which each engine has its own.

    Two of a kind compile alike: they speak to one version of one database.
    """

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(_name_kind(key), default)

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(_name_kind(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(_name_kind(key), value)


def _name_kind(key: Any) -> Any:
    dialect, *rest = key
    version = getattr(dialect, "server_version_info", None)
    return type(dialect), dialect.paramstyle, version, *rest


def share_compiled_statements() -> None:
    """Give every engine of this process the same cache."""
    shared = _Statements(5_000)
    Engine._compiled_cache = property(lambda _: shared, lambda _, __: None)  # type: ignore[assignment]

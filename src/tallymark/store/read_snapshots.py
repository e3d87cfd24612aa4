"""`ReadSnapshot`: a read transaction, in which everything sees the database at one time.

`Store.read` opens one for all that an operation reads. What it asks for twice is read once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from tallymark.store.quick_statements import QuickStatements

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from sqlalchemy import Connection

T = TypeVar("T")


class ReadSnapshot(QuickStatements):
    """The statements of a transaction whose reads all see the same."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._known: dict[Hashable, Any] = {}

    def recall(self, key: Hashable, read: Callable[[], T]) -> T:
        """Return what was read under this key before, or else read it now."""
        if key not in self._known:
            self._known[key] = read()
        found: T = self._known[key]
        return found

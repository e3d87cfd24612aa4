"""`Moment`: the database as it is at one moment, for one reader or for several that came together.

What several ask of it is read once. See docs/decisions/0037-quick-routes.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from tallymark.store.quick_statements import QuickStatements

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from sqlalchemy import Connection

T = TypeVar("T")


class Moment(QuickStatements):
    """Of a transaction whose reads all see the same."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._known: dict[Hashable, Any] = {}

    def recall(self, key: Hashable, read: Callable[[], T]) -> T:
        """What was read under this key before, or else what is read now."""
        if key not in self._known:
            self._known[key] = read()
        found: T = self._known[key]
        return found

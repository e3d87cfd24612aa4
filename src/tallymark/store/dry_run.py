"""Dry runs: an operation is checked and done as always, and its transaction is rolled back.

The answer to `?validate_only=true` therefore comes from the code that would do the work.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


_active: ContextVar[bool] = ContextVar("rehearsing", default=False)


def is_dry_run() -> bool:
    """Return whether the current transaction will be rolled back."""
    return _active.get()


@contextmanager
def dry_run(*, really: bool = True) -> Iterator[None]:
    """Roll back all writes inside, also those of threads that work for it; `really=False` does
    nothing.
    """
    token = _active.set(really)
    try:
        yield
    finally:
        _active.reset(token)

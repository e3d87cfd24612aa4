"""Rehearsals: everything is checked and done as always, and then undone.

So whoever asks whether something could be done is told by the code that would do it.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_rehearsing: ContextVar[bool] = ContextVar("rehearsing", default=False)


def is_rehearsal() -> bool:
    """Whether what is written now is undone."""
    return _rehearsing.get()


@contextmanager
def rehearse(*, really: bool = True) -> Iterator[None]:
    """What is written inside is undone, also by threads that work for it; unless not `really`."""
    token = _rehearsing.set(really)
    try:
        yield
    finally:
        _rehearsing.reset(token)

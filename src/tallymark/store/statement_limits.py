"""How long one statement may take, by who asks: a request less than a job or a command."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

P = ParamSpec("P")
T = TypeVar("T")
REQUEST_SECONDS = 30.0
"""For what somebody waits for at a server."""
_WORK_SECONDS = 3600.0
"""For jobs and commands: rescoring, backups, checks, bulk loads."""
statement_seconds: ContextVar[float] = ContextVar("tally_statement_seconds", default=_WORK_SECONDS)
"""SQLite has no such limit: its statements wait for nobody but other writers."""


@contextmanager
def limit_statements(seconds: float) -> Iterator[None]:
    """Let each statement inside take so long, for this thread or task."""
    token = statement_seconds.set(seconds)
    try:
        yield
    finally:
        statement_seconds.reset(token)


def limited(function: Callable[P, T]) -> Callable[P, T]:
    """The same function, with the limit of requests: for threads that work for all of them."""

    @wraps(function)
    def call(*given: P.args, **named: P.kwargs) -> T:
        with limit_statements(REQUEST_SECONDS):
            return function(*given, **named)

    return call

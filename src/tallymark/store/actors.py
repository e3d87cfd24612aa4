"""Who acts on a store for others: the audit log names them, and says from where they came.

A server sets `acting` for the time of a request; threads that work for it see the same. Where
nobody is set, as in a command, the log says what the code itself knows: the agent, or an organiser.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator


class Actor(msgspec.Struct, frozen=True):
    """Somebody whose key was seen."""

    name: str
    """The agent that the key names, or whose the key is."""
    address: str | None = None


_acting: ContextVar[Actor | None] = ContextVar("acting", default=None)


def find_actor() -> Actor | None:
    """Who acts now."""
    return _acting.get()


@contextmanager
def act_as(actor: Actor | None) -> Iterator[None]:
    """What is done inside is done by this one."""
    token = _acting.set(actor)
    try:
        yield
    finally:
        _acting.reset(token)

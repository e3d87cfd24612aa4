"""What a model may use that a server asks for somebody else: their keys, and the open network.

It is given with a model, or holds for all that are opened inside of `limit_reach`: what challenges
of others name is opened deep inside of their evaluators.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.errors import InvalidInput
from tallymark.models.public_addresses import (
    make_pinned_resolver,
    open_public_socket,
    refuse_private_host,
)

if TYPE_CHECKING:
    from aiohttp import TCPConnector

ALLOWANCES = ("python", "cmd", "files", "private-addresses", "mcp")
"""What the operator of a server may allow those who use it."""
_NEEDS = {"python": "python", "cmd": "cmd", "replay": "files"}
"""Kinds of models that reach into the machine which runs them."""


class Reach(msgspec.Struct, frozen=True):
    """Given with a model, nothing of the process's own environment is used for it."""

    keys: Mapping[str, str] = {}
    """By the names that environment variables have elsewhere: OPENAI_API_KEY, TALLY_HTTP_KEY."""
    may: frozenset[str] = frozenset()
    """Which of `ALLOWANCES` hold."""
    own: frozenset[str] = frozenset()
    """Models that the operator named for everybody: they are the operator's to ask and to pay."""

    @property
    def is_private(self) -> bool:
        """Whether any address may be asked."""
        return "private-addresses" in self.may

    def refuse_kind(self, kind: str) -> None:
        """Refuses a kind of model that the operator has not allowed."""
        self.demand(_NEEDS.get(kind), f"models of the kind {kind}/ are not run here")

    def refuse_host(self, host: str | None) -> None:
        """Refuses an address that is private by its very writing."""
        if not self.is_private:
            refuse_private_host(host)

    def demand(self, allowance: str | None, refusal: str) -> None:
        """Refuses what the operator has not allowed."""
        if allowance is not None and allowance not in self.may:
            hint = f"the operator of this server may allow it: TALLY_ALLOW={allowance}"
            raise InvalidInput(refusal, hint=hint)

    def make_connector(self, **options: Any) -> TCPConnector:
        """The connections of one event loop, to where they may go."""
        from aiohttp import TCPConnector  # noqa: PLC0415 (heavy)

        if not self.is_private:
            options |= {"resolver": make_pinned_resolver(), "socket_factory": open_public_socket}
        return TCPConnector(**options)


_limits: ContextVar[Reach | None] = ContextVar("reach", default=None)


def find_reach(given: Reach | None = None, model: str | None = None) -> Reach | None:
    """What holds for a model: what is given with it, or what all are limited to here."""
    reach = given or _limits.get()
    return None if reach is not None and model in reach.own else reach


@contextmanager
def limit_reach(reach: Reach | None) -> Iterator[None]:
    """What is opened inside has no more than this; None changes nothing."""
    if reach is None:
        yield
        return
    token = _limits.set(reach)
    try:
        yield
    finally:
        _limits.reset(token)

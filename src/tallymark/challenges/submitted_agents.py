"""Agents that competitors submit by name: what may be named, and what is believed of it.

A competitor's word must not run code here, read files, use the organiser's keys, or reach what
only this machine can reach. So an agent is an address on the public network, unless the
organiser allows more by name.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from msgspec.structs import replace

from tallymark.errors import InvalidInput
from tallymark.models import Answer, Model, Request, open_model
from tallymark.models.egress_policy import EgressPolicy, find_egress, refuse_private_host
from tallymark.models.endpoint import EndpointModel, _parse_address
from tallymark.models.model import Loadable
from tallymark.models.model_answers import finish_answer
from tallymark.scoring.score import show_value

if TYPE_CHECKING:
    from collections.abc import Collection

    from tallymark.models.token_prices import Pricing

AGENT_KINDS = ("http", "local", "replay", "echo")
"""`http`: public addresses; `local`: also private ones and this machine; `replay`: samples of the
challenge. Any other word is a provider, whose model would be called with the organiser's key.
"""
ALWAYS_REFUSED = ("python", "cmd")
_KIND = re.compile(r"([a-z][\w.-]*)[/:]", re.IGNORECASE)
_SAMPLE = re.compile(r"[\w-]{1,64}")


def check_agent(name: str, *, allow: Collection[str], folder: Path) -> str:
    """The model that a competitor's name means, or InvalidInput with what is wrong with it."""
    name = name.strip()
    found = _KIND.match(name)
    kind = found[1].lower() if found else ""
    if kind in ("http", "https"):
        _check_address(name, allow)
        return name
    if kind in ALWAYS_REFUSED or kind not in allow:
        raise InvalidInput(
            f"{show_value(name)} cannot be submitted",
            hint="an agent is named by its http(s) address",
        )
    return _find_sample(name, folder) if kind == "replay" else name


def open_agent(
    name: str, *, allow: Collection[str], folder: Path, pricing: Pricing | None = None
) -> Model:
    """The agent that a competitor named, or InvalidInput with what is wrong with the name."""
    reference = check_agent(name, allow=allow, folder=folder)
    if reference.lower().startswith(("http:", "https:", "http/", "https/")):
        return _CountedAgent(_open_keyless(reference, allow, pricing), pricing)
    return open_model(reference, folder=folder, pricing=pricing)


class _CountedAgent:
    """An agent whose own numbers are not believed: its tokens are counted here."""

    def __init__(self, model: Model, pricing: Pricing | None) -> None:
        self.name = model.name
        self._model = model
        self._pricing = pricing

    def load(self) -> None:
        """Loads what the agent needs."""
        if isinstance(self._model, Loadable):
            self._model.load()

    async def answer(self, request: Request) -> Answer:
        """The agent's answer with our count, and the price that the suite gives."""
        said = await self._model.answer(request)
        bare = replace(
            said, input_tokens=None, output_tokens=None, tokens_counted_by=None, cost=None
        )
        return await finish_answer(request, bare, self._pricing)

    async def close(self) -> None:
        """Closes the connections."""
        await self._model.close()


def _open_keyless(address: str, allow: Collection[str], pricing: Pricing | None) -> Model:
    """The endpoint without the organiser's key, which is not for competitors' servers.

    Its name is resolved when it is called, to public addresses only, unless the challenge and the
    operator allow `local`.
    """
    egress = find_egress()
    if "local" not in allow:
        may = frozenset[str]() if egress is None else egress.may - {"private-addresses"}
        egress = EgressPolicy(may=may)
    elif egress is not None:
        egress = EgressPolicy(may=egress.may)
    return EndpointModel(address, _parse_address(address, egress), pricing, egress=egress)


def _check_address(address: str, allow: Collection[str]) -> None:
    """Checks that need no name lookup, which may take long."""
    if "http" not in allow and "local" not in allow:
        raise InvalidInput("an agent cannot be submitted by its address here")
    try:
        host = urlsplit(address).hostname
    except ValueError:
        host = None
    if not host:
        raise InvalidInput(f"{show_value(address)} is not an address that can be reached")
    try:
        if "local" not in allow:
            refuse_private_host(host)
    except InvalidInput:
        raise InvalidInput(
            f"{show_value(address)} is not on the public network",
            hint="give the agent a public address",
        ) from None


def _find_sample(name: str, folder: Path) -> str:
    """A replay of the challenge's own `answers` folder; nothing else can be read by it."""
    sample = name.partition("/")[2]
    path = folder / "answers" / f"{sample}.jsonl"
    if not _SAMPLE.fullmatch(sample) or not path.is_file():
        raise InvalidInput(f"there is no sample agent {show_value(name)}")
    return f"replay/{path.resolve()}"

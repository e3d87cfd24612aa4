"""`open_model(reference)`: from the user's reference to a model that answers.

A reference is a first word, `/` or `:`, and what that kind makes of the rest. A new kind is a file
with a function from the parsed reference to a `Model`, and a line in `KINDS`. A first word that is
no kind is a provider, and goes to pydantic-ai: see provider_setup.py.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.errors import InvalidInput
from tallymark.models.answer_cache import CachedModel
from tallymark.models.answer_recorder import RecordedModel
from tallymark.models.command import open_command
from tallymark.models.echo import EchoModel
from tallymark.models.egress_policy import EgressPolicy, find_egress
from tallymark.models.endpoint import open_endpoint
from tallymark.models.provider_setup import open_provider
from tallymark.models.python_function import open_function
from tallymark.models.replay import open_replay
from tallymark.models.token_prices import Pricing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tallymark.models.model import Model, Redact

_SHAPE = re.compile(r"([A-Za-z][\w.-]*)[/:](.+)", re.DOTALL)


class ModelReference(msgspec.Struct, frozen=True, kw_only=True):
    """A user's reference to a model, parsed, with its options."""

    text: str
    """The whole reference."""
    kind: str
    """The first word."""
    rest: str
    """The text after it."""
    folder: Path = Path()
    """Folder of relative paths: the suite's."""
    pricing: Pricing | None = None
    key: str | None = None
    """Key for an address, in place of the environment's key for all of them; empty sends none."""
    egress: EgressPolicy | None = None
    """Limits of a model that a tenant uses; None for a model without limits."""

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        folder: str | Path | None = None,
        pricing: Mapping[str, Any] | Pricing | None = None,
        key: str | None = None,
        egress: EgressPolicy | None = None,
    ) -> ModelReference:
        """Parse a reference; refuse text that names no model."""
        found = _SHAPE.fullmatch(text.strip())
        if found is None:
            raise InvalidInput(
                f"{text!r} does not name a model",
                hint="write provider/name, such as openai/gpt-5-mini, or replay/NAME, echo/NAME, "
                "python/module:function, cmd/PROGRAM or an http(s):// address",
            )
        return cls(
            text=found[0],
            kind=found[1].lower(),
            rest=found[2],
            folder=Path(folder or ""),
            pricing=pricing if isinstance(pricing, Pricing | None) else Pricing.of(pricing),
            key=key,
            egress=egress,
        )


KINDS: dict[str, Callable[[ModelReference], Model]] = {
    "cmd": open_command,
    "echo": EchoModel,
    "http": open_endpoint,
    "https": open_endpoint,
    "python": open_function,
    "replay": open_replay,
}


def open_model(  # noqa: PLR0913 (what is said about one model, by keyword)
    reference: str,
    *,
    folder: str | Path | None = None,
    pricing: Mapping[str, Any] | Pricing | None = None,
    record: str | Path | None = None,
    cache: str | Path | None = None,
    key: str | None = None,
    redact: Redact | None = None,
    egress: EgressPolicy | None = None,
) -> Model:
    """Open the model that a reference names.

    `folder` is the base of relative paths, `pricing` overrides the price table, `record` is a file
    to which every answer is appended for `replay/`, `cache` a file of answers to use again; `key`
    is for an address and `egress` limits untrusted users, as in `ModelReference`; `redact` removes
    secrets from both files.
    """
    egress = find_egress(egress, reference)
    named = ModelReference.parse(reference, folder=folder, pricing=pricing, key=key, egress=egress)
    if egress is not None:
        egress.refuse_kind(named.kind)
    model = KINDS[named.kind](named) if named.kind in KINDS else open_provider(named, tuple(KINDS))
    if cache is not None:
        model = CachedModel(model, cache, named.pricing, redact)
    if record is not None:
        model = RecordedModel(model, record, redact)
    return model

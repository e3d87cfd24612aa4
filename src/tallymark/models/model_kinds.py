"""`open_model(reference)`: from what the user wrote to something that answers.

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
from tallymark.models.endpoint import open_endpoint
from tallymark.models.provider_setup import open_provider
from tallymark.models.python_function import open_function
from tallymark.models.reach import Reach, find_reach
from tallymark.models.replay import open_replay
from tallymark.models.token_prices import Pricing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tallymark.models.model import Model, Redact

_SHAPE = re.compile(r"([A-Za-z][\w.-]*)[/:](.+)", re.DOTALL)


class ModelReference(msgspec.Struct, frozen=True, kw_only=True):
    """A model as the user named it, taken apart, with what they said about it."""

    text: str
    """As written."""
    kind: str
    """The first word."""
    rest: str
    """What follows it."""
    folder: Path = Path()
    """Where files are looked for: the suite's folder."""
    pricing: Pricing | None = None
    key: str | None = None
    """For an address, instead of what the environment has for all of them; empty sends none."""
    reach: Reach | None = None
    """What may be used for it where somebody else asks; None: whatever this process may."""

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        folder: str | Path | None = None,
        pricing: Mapping[str, Any] | Pricing | None = None,
        key: str | None = None,
        reach: Reach | None = None,
    ) -> ModelReference:
        """Take a reference apart; what names no model is refused."""
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
            reach=reach,
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
    reach: Reach | None = None,
) -> Model:
    """The model that a reference names.

    `folder` is where files are looked for, `pricing` overrides the price table, `record` is a file
    to which every answer is appended for `replay/`, `cache` a file of answers not to ask for again;
    `key` is for an address and `reach` for those who are not trusted, as in `ModelReference`;
    `redact` keeps secrets out of both files.
    """
    reach = find_reach(reach, reference)
    named = ModelReference.parse(reference, folder=folder, pricing=pricing, key=key, reach=reach)
    if reach is not None:
        reach.refuse_kind(named.kind)
    model = KINDS[named.kind](named) if named.kind in KINDS else open_provider(named, tuple(KINDS))
    if cache is not None:
        model = CachedModel(model, cache, named.pricing, redact)
    if record is not None:
        model = RecordedModel(model, record, redact)
    return model

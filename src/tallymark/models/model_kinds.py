"""`open_model(reference)`: from what the user wrote to something that answers.

A new kind is a file with a function from the parsed reference to a `Model`, and a line in `KINDS`.
A first word that is no kind is a provider, and goes to pydantic-ai: see provider_setup.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallymark.models.answer_cache import CachedModel
from tallymark.models.answer_recorder import RecordedModel
from tallymark.models.command import open_command
from tallymark.models.echo import open_echo
from tallymark.models.endpoint import open_endpoint
from tallymark.models.model_reference import ModelReference
from tallymark.models.provider_setup import open_provider
from tallymark.models.python_function import open_function
from tallymark.models.replay import open_replay

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tallymark.models.model import Model
    from tallymark.models.token_prices import Pricing

KINDS: dict[str, Callable[[ModelReference], Model]] = {
    "cmd": open_command,
    "echo": open_echo,
    "http": open_endpoint,
    "https": open_endpoint,
    "python": open_function,
    "replay": open_replay,
}


def open_model(
    reference: str,
    *,
    folder: str | Path | None = None,
    pricing: Mapping[str, Any] | Pricing | None = None,
    record: str | Path | None = None,
    cache: str | Path | None = None,
) -> Model:
    """The model that a reference names.

    `folder` is where files are looked for, `pricing` overrides the price table, `record` is a file
    to which every answer is appended for `replay/`, `cache` a file of answers not to ask for again.
    """
    named = ModelReference.parse(reference, folder=folder, pricing=pricing)
    return open_reference(named, record=record, cache=cache)


def open_reference(
    named: ModelReference, *, record: str | Path | None = None, cache: str | Path | None = None
) -> Model:
    """The model of a reference that is taken apart already."""
    model = KINDS[named.kind](named) if named.kind in KINDS else open_provider(named, tuple(KINDS))
    if cache is not None:
        model = CachedModel(model, cache, named.pricing)
    if record is not None:
        model = RecordedModel(model, record)
    return model

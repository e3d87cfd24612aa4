"""How a model is named: a first word, `/` or `:`, and what that kind makes of the rest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.errors import InvalidInput
from tallymark.models.token_prices import Pricing

if TYPE_CHECKING:
    from collections.abc import Mapping

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

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        folder: str | Path | None = None,
        pricing: Mapping[str, Any] | Pricing | None = None,
        key: str | None = None,
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
        )

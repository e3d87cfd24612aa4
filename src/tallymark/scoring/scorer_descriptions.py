"""Descriptions of scorers, from the first line of their docstrings and their options.

The docs and `tally scorers` show them; a scorer has no other description.
"""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from tallymark.errors import ScorerError
from tallymark.scoring.score import show_value
from tallymark.scoring.scorer import Scorer
from tallymark.scoring.scorer_decorator import ScorerBuilder
from tallymark.scoring.scorer_options import list_options, resolve_hints
from tallymark.scoring.scorer_registry import Registry, ScorerReference, default_registry

_MOST_CHARACTERS = 80
"""Longest default that is shown."""


class ScorerOption(msgspec.Struct, frozen=True, kw_only=True):
    """One option."""

    name: str
    required: bool = False
    default: Any = None
    choices: tuple[Any, ...] = ()
    """All values that it may have, where they are few."""

    def values(self) -> str:
        """The default, and what else it may be; empty where there is nothing short to say."""
        written = "" if self.required else _write_value(self.default)
        others = ", ".join(_write_value(each) for each in self.choices if each != self.default)
        return f"{written} (or {others})".strip() if others else written


class ScorerDescription(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a scorer, known without building it."""

    name: str
    package: str | None
    """The package that offers it; None for one that this process registered."""
    value: str = ""
    """Its value in one line."""
    about: str = ""
    """The rest of its docstring."""
    options: tuple[ScorerOption, ...] = ()
    error: str | None = None
    """Why it cannot be used here."""


def describe_scorers(registry: Registry = default_registry) -> Iterator[ScorerDescription]:
    """Describe all registered scorers by name; one that cannot be imported has an `error`."""
    for name in registry.names():
        try:
            yield describe_scorer(name, registry)
        except ScorerError as error:
            yield ScorerDescription(
                name=name, package=registry.find_package(name), error=str(error)
            )


def describe_scorer(name: str, registry: Registry = default_registry) -> ScorerDescription:
    """The scorer of that name, or of a file or module."""
    reference = ScorerReference.parse(name)
    entry = registry.find(reference)
    if reference.home is not None:
        name = getattr(entry, "name", reference.name)
    if not isinstance(entry, Scorer) and not callable(entry):
        raise ScorerError(f"{name} is {show_value(entry)}, not a scorer")
    builder: Any = getattr(entry, "wrapped", entry)
    scorer = isinstance(entry, Scorer)
    doc = inspect.getdoc(entry.function if isinstance(entry, Scorer) else builder) or ""
    first, _, about = doc.partition("\n")
    own = entry.description if isinstance(entry, Scorer | ScorerBuilder) else ""
    return ScorerDescription(
        name=name,
        package=registry.find_package(name),
        value=own or first.strip(),
        about=about.strip(),
        options=() if scorer else tuple(_list_options(builder)),
    )


def _list_options(builder: Any) -> Iterator[ScorerOption]:
    hints = resolve_hints(builder)
    for each in list_options(inspect.signature(builder)):
        required = each.default is each.empty
        yield ScorerOption(
            name=each.name,
            required=required,
            default=None if required else each.default,
            choices=tuple(_list_choices(hints.get(each.name))),
        )


def _list_choices(hint: Any) -> Iterator[Any]:
    """The words of a Literal, also of one that may be left out."""
    if typing.get_origin(hint) is Literal:
        yield from typing.get_args(hint)
    else:
        for part in typing.get_args(hint):
            if typing.get_origin(part) is Literal:
                yield from typing.get_args(part)


def _write_value(value: Any) -> str:
    """Write a value as JSON where that is short; empty for None."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:.15g}"
    if not isinstance(value, bool | str | list | tuple):
        return ""
    written = json.dumps(value, ensure_ascii=False, default=str)
    return written if len(written) <= _MOST_CHARACTERS else ""

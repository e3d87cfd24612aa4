"""From what a name stands for, and options, to a scorer."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from tallymark.errors import ScorerError, TallymarkError
from tallymark.scoring.decorator import ScorerBuilder
from tallymark.scoring.options import bind
from tallymark.scoring.score import shown
from tallymark.scoring.scorer import Scorer

if TYPE_CHECKING:
    from collections.abc import Callable

_EVERYWHERE = ("name", "threshold")
"""Options that every scorer takes when it is loaded."""


def build(entry: object, name: str, options: dict[str, Any]) -> Scorer:
    """A scorer from a scorer, or from a class or function that builds one, options checked."""
    if isinstance(entry, Scorer):
        unknown = [key for key in options if key not in _EVERYWHERE]
        if unknown:
            raise ScorerError(f"{name} takes no options, but {unknown[0]!r} was given")
        return entry.replace(**options) if options else entry
    if not callable(entry):
        raise ScorerError(f"{name} is {shown(entry)}, not a scorer")
    try:
        parameters = inspect.signature(entry).parameters
    except ValueError:  # built into Python
        raise ScorerError(f"{name} is {shown(entry)}, not a scorer") from None
    if list(parameters) in (["ctx"], ["context"]):
        raise ScorerError(f"{name} is a plain function", hint="put @scorer above it")
    shared = {k: v for k, v in options.items() if k in _EVERYWHERE and k not in parameters}
    made = _made(entry, name, {k: v for k, v in options.items() if k not in shared})
    return made.replace(**shared) if shared else made


def _made(entry: Callable[..., Any], name: str, options: dict[str, Any]) -> Scorer:
    bound = bind(entry.wrapped if isinstance(entry, ScorerBuilder) else entry, name, (), options)
    try:
        made = entry(*bound.args, **bound.kwargs)
    except TallymarkError:
        raise
    except Exception as error:  # noqa: BLE001 (a builder may refuse its options in its own way)
        raise ScorerError(f"{name} refuses its options: {type(error).__name__}: {error}") from None
    if not isinstance(made, Scorer):
        raise ScorerError(
            f"{name} gave {shown(made)}, not a scorer", hint="put @scorer above its definition"
        )
    return made if made.config else made.replace(config=bound.arguments)

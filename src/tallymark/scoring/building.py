"""From what a name stands for, and options, to a scorer."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from tallymark.errors import ScorerError, TallymarkError
from tallymark.scoring.decorator import ScorerBuilder
from tallymark.scoring.options import bind_options
from tallymark.scoring.score import show_value
from tallymark.scoring.scorer import Scorer

if TYPE_CHECKING:
    from collections.abc import Callable

_SHARED_OPTIONS = ("name", "threshold")
"""Options that every scorer takes when it is loaded."""


def build_scorer(entry: object, name: str, options: dict[str, Any]) -> Scorer:
    """A scorer from a scorer, or from a class or function that builds one, options checked."""
    if isinstance(entry, Scorer):
        unknown = [key for key in options if key not in _SHARED_OPTIONS]
        if unknown:
            raise ScorerError(f"{name} takes no options, but {unknown[0]!r} was given")
        return entry.replace(**options) if options else entry
    if not callable(entry):
        raise ScorerError(f"{name} is {show_value(entry)}, not a scorer")
    try:
        parameters = inspect.signature(entry).parameters
    except ValueError:  # built into Python
        raise ScorerError(f"{name} is {show_value(entry)}, not a scorer") from None
    if list(parameters) in (["ctx"], ["context"]):
        raise ScorerError(f"{name} is a plain function", hint="put @scorer above it")
    shared = {k: v for k, v in options.items() if k in _SHARED_OPTIONS and k not in parameters}
    made = _call_builder(entry, name, {k: v for k, v in options.items() if k not in shared})
    return made.replace(**shared) if shared else made


def _call_builder(entry: Callable[..., Any], name: str, options: dict[str, Any]) -> Scorer:
    bound = bind_options(
        entry.wrapped if isinstance(entry, ScorerBuilder) else entry, name, (), options
    )
    try:
        made = entry(*bound.args, **bound.kwargs)
    except TallymarkError:
        raise
    except Exception as error:  # noqa: BLE001 (a builder may refuse its options in its own way)
        raise ScorerError(f"{name} refuses its options: {type(error).__name__}: {error}") from None
    if not isinstance(made, Scorer):
        raise ScorerError(
            f"{name} gave {show_value(made)}, not a scorer", hint="put @scorer above its definition"
        )
    return made if made.config else made.replace(config=bound.arguments)

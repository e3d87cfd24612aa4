"""A scorer's options checked against the signature of what builds it, for all scorers alike."""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import msgspec

from tallymark.errors import ScorerError, suggest
from tallymark.scoring.score import show_value

Builder = Callable[..., Any]


def bind_options(
    builder: Builder, name: str, args: tuple[Any, ...], given: Mapping[str, Any]
) -> inspect.BoundArguments:
    """The builder's arguments, each of the type that its annotation asks for, defaults filled."""
    signature = inspect.signature(builder)
    open_ended = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    keys = option_names(signature)
    for key in given:
        if key not in keys and not open_ended:
            raise _make_unknown_error(name, key, keys)
    try:
        bound = signature.bind(*args, **given)
    except TypeError as error:
        raise _make_unbound_error(name, signature, {*keys[: len(args)], *given}, error) from None
    hints = _resolve_hints(builder)
    for key, value in bound.arguments.items():
        if key in hints and signature.parameters[key].kind not in _VARIADIC:
            bound.arguments[key] = _check_type(name, key, value, hints[key])
    bound.apply_defaults()
    return bound


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def option_names(signature: inspect.Signature) -> list[str]:
    """The names that may be given as options."""
    return [p.name for p in signature.parameters.values() if p.kind not in _VARIADIC]


def _make_unknown_error(name: str, key: str, keys: list[str]) -> ScorerError:
    if not keys:
        return ScorerError(f"{name} takes no options, but {key!r} was given")
    near = suggest(key, keys)
    meant = f"did you mean {near!r}? " if near else ""
    return ScorerError(
        f"{name} has no option {key!r}", hint=f"{meant}Its options are {', '.join(keys)}"
    )


def _make_unbound_error(
    name: str, signature: inspect.Signature, given: set[str], error: TypeError
) -> ScorerError:
    missing = [
        p.name
        for p in signature.parameters.values()
        if p.default is p.empty and p.kind not in _VARIADIC and p.name not in given
    ]
    if not missing:
        return ScorerError(f"{name} cannot be built with these options: {error}")
    options = "option" if len(missing) == 1 else "options"
    return ScorerError(f"{name} needs the {options} {', '.join(map(repr, missing))}")


def _resolve_hints(builder: Builder) -> dict[str, Any]:
    """The annotations that can be resolved; one that cannot leaves its option unchecked."""
    constructor = inspect.getattr_static(builder, "__init__", None)
    if not isinstance(builder, type) or not inspect.isfunction(constructor):
        constructor = builder
    names = vars(sys.modules[builder.__module__]) if builder.__module__ in sys.modules else {}
    hints: dict[str, Any] = {}
    for key, annotation in inspect.get_annotations(constructor).items():
        alone = SimpleNamespace(__annotations__={key: annotation})
        with suppress(NameError, TypeError, AttributeError, SyntaxError):
            hints |= typing.get_type_hints(alone, getattr(constructor, "__globals__", names))
    return hints


def _check_type(name: str, key: str, value: object, hint: Any) -> object:
    try:
        return msgspec.convert(value, hint)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        place = f" (at {key}{where.rstrip('`')})" if where else ""
        raise ScorerError(
            f"{name}: the option {key!r} is {show_value(value)}: {what}{place}"
        ) from None
    except TypeError:  # an annotation that msgspec does not know, such as str | re.Pattern
        return value

"""A scorer's options checked, for all scorers alike.

First against the signature of what builds it, then for values of the right type that make no sense.
"""

from __future__ import annotations

import inspect
import math
import os
import sys
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from tallymark.errors import ScorerError, WorkFailed, suggest
from tallymark.scoring.score import show_value

if TYPE_CHECKING:
    from collections.abc import Sequence

Builder = Callable[..., Any]
SHARED_OPTIONS = ("name", "threshold", "retries", "gives")
"""Options that every scorer takes."""
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def bind_options(
    builder: Builder, name: str, args: tuple[Any, ...], given: Mapping[str, Any]
) -> inspect.BoundArguments:
    """The builder's arguments, each of the type that its annotation asks for, defaults filled."""
    signature = inspect.signature(builder)
    open_ended = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    keys = [each.name for each in list_options(signature)]
    for key in given:
        if key not in keys and not open_ended:
            raise _make_unknown_error(name, key, keys)
    try:
        bound = signature.bind(*args, **given)
    except TypeError as error:
        raise _make_unbound_error(name, signature, {*keys[: len(args)], *given}, error) from None
    hints = resolve_hints(builder)
    for key, value in bound.arguments.items():
        if key in hints and signature.parameters[key].kind not in _VARIADIC:
            bound.arguments[key] = _check_type(name, key, value, hints[key])
    bound.apply_defaults()
    return bound


def split_shared(
    builder: Builder, options: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The builder's own options, and those that every scorer takes."""
    own = inspect.signature(builder).parameters
    shared = {key: options[key] for key in SHARED_OPTIONS if key in options and key not in own}
    return {key: value for key, value in options.items() if key not in shared}, shared


def list_options(signature: inspect.Signature) -> list[inspect.Parameter]:
    """The parameters that may be given as options."""
    return [each for each in signature.parameters.values() if each.kind not in _VARIADIC]


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


def resolve_hints(builder: Builder) -> dict[str, Any]:
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


def demand(holds: bool, scorer: str, option: str, value: object, wanted: str) -> None:
    """Refuse an option whose value is of the right type but makes no sense."""
    if not holds:
        raise ScorerError(
            f"{scorer}: the option {option!r} is {show_value(value)}; it must be {wanted}"
        )


def demand_texts(scorer: str, option: str, texts: Sequence[str]) -> None:
    """Refuse a list of texts to look for that is empty or has an empty text in it."""
    demand(bool(texts), scorer, option, texts, "a list of at least one text")
    demand(all(texts), scorer, option, texts, "a list of texts that are not empty")


def check_url(url: str, scorer: str) -> None:
    """Refuse a URL that is not HTTP, or has secrets in it: every score's origin shows the URL."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ScorerError(f"{scorer}: {url!r} is not an http:// or https:// address")
    if parts.username or parts.password:
        raise ScorerError(
            f"{scorer}: the address holds a user name or password",
            hint="keep it in an environment variable and name that with api_key_env",
        )


def check_seconds(seconds: float, scorer: str) -> None:
    """Refuse a time limit of 0, which would mean none at all."""
    demand(0 < seconds < math.inf, scorer, "timeout", seconds, "a number of seconds more than 0")


def read_api_key(
    variable: str | None, scorer: str, known: Mapping[str, str] | None = None
) -> str | None:
    """The key in an environment variable, or in what is known instead; None when none was named."""
    if variable is None:
        return None
    key = (os.environ if known is None else known).get(variable)
    if not key and known is not None:
        raise ScorerError(f"{scorer}: the secret {variable} is not set")
    if not key:
        raise WorkFailed(f"{scorer}: the environment variable {variable} is not set")
    return key

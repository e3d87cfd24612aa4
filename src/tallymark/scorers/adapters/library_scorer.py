"""Shared parts of the adapters: find the thing to wrap, make it, name it, record its origin."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tallymark.errors import ScorerError, WorkFailed, suggest
from tallymark.importing import find_version
from tallymark.installation import explain_install
from tallymark.scoring import Score, Scorer
from tallymark.scoring.score import show_value
from tallymark.scoring.scorer_registry import name_wrapped, snake_case

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.scoring import EvalContext

_SECRET = re.compile(r"api_?key|secret|password|credential|(^|_)token$", re.IGNORECASE)


def import_library(module: str, package: str) -> Any:
    """Import a library's module, or raise an error with the command that installs it."""
    try:
        return import_module(module)
    except ImportError as error:
        if (error.name or "").partition(".")[0] != module.partition(".")[0]:
            raise WorkFailed(f"{package} cannot be imported: {error}") from None
        raise WorkFailed(
            f"this scorer needs {package}, which is not installed",
            hint=explain_install(package),
        ) from None


def choose_wrapped(given: Any, name: str | None, adapter: str) -> tuple[Any, str | None]:
    """The thing to wrap and the scorer's name, if given; a name alone names the thing to wrap."""
    if given is None and name is None:
        raise ScorerError(f"{adapter} needs what it should wrap, or its name")
    if given is None:
        given, name = name, None
    # As a suite in YAML calls it, which goes by the text alone.
    return given, name_wrapped(given) if name is None and isinstance(given, str) else name


def find_class(module: Any, name: str, base: type) -> Any:
    """The class of that name in a library's module, which must be of the right kind."""
    known = {
        key: each
        for key, each in vars(module).items()
        if isinstance(each, type) and issubclass(each, base) and each is not base
    }
    if name not in known:
        near = suggest(name, known)
        hint = f"did you mean {near!r}?" if near else f"it has {', '.join(sorted(known))}"
        raise ScorerError(f"{module.__name__} has no {name!r} of this kind", hint=hint)
    return known[name]


def make_instance(given: Any, options: Mapping[str, Any], base: type, what: str) -> Any:
    """An instance of a class with its options; an instance as it is. Either must be of a kind."""
    if isinstance(given, type):
        try:
            given = given(**options)
        except Exception as error:  # noqa: BLE001 (a library refuses options in its own way)
            cause = f"{type(error).__name__}: {error}"
            raise ScorerError(f"{given.__name__} cannot be made: {cause}") from None
    elif options:
        raise ScorerError(
            f"options ({', '.join(options)}) were given for {show_value(given)}, which has its own",
            hint="give the name or the class instead",
        )
    if not isinstance(given, base):
        raise ScorerError(f"{show_value(given)} is not {what}")
    return given


def wrap_scorer(  # noqa: PLR0913 (the facts about a scorer)
    function: Callable[[EvalContext], Any],
    thing: Any,
    *,
    thing_name: str,
    package: str,
    name: str | None,
    settings: Mapping[str, Any],
    threshold: float | None = None,
    blocking: bool = True,
) -> Scorer:
    """A scorer named after the thing it wraps; its origin has the library's version."""
    kind = thing if hasattr(thing, "__qualname__") else type(thing)
    release = find_version(package) or "unknown"
    return Scorer(
        function,
        name=name or snake_case(thing_name),
        description=(kind.__doc__ or "").strip().partition("\n")[0],
        threshold=threshold,
        blocking=blocking,
        config={"wraps": thing_name, "library": f"{package} {release}", **make_plain(settings)},
        sources=[kind],
    )


def make_plain(value: Any) -> Any:
    """Values for an origin: plain values, the names of other objects, and nothing secret."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        kept = {str(key): each for key, each in value.items()}
        return {key: make_plain(each) for key, each in kept.items() if not _SECRET.search(key)}
    if isinstance(value, list | tuple):
        return [make_plain(each) for each in value]
    if isinstance(value, set | frozenset):
        return sorted((make_plain(each) for each in value), key=repr)
    return getattr(value, "__qualname__", type(value).__qualname__)


def pick_result(results: Mapping[str, Any], key: str | None, what: str) -> Any:
    """Pick one result; when the choice is not clear, a failed score with the reason."""
    if key is None and len(results) == 1:
        return next(iter(results.values()))
    if not results:
        return Score.failed(f"{what} gave no result")
    if key is None:
        return Score.failed(f"{what} gave {', '.join(results)}; choose one with `key`")
    if key not in results:
        return Score.failed(f"{what} gave {', '.join(results)}, but not {key!r}")
    return results[key]

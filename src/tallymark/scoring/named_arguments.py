"""Functions of named arguments, and functions that are called again, as functions of a context."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import update_wrapper
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from tallymark.errors import ScorerError
from tallymark.importing import is_async

if TYPE_CHECKING:
    from tallymark.scoring.eval_context import EvalContext

ContextFunction = Callable[["EvalContext"], Any]
SEEN: dict[str, Callable[[Any], Any]] = {
    "input": attrgetter("input"),
    "output": attrgetter("output"),
    "expected": attrgetter("expected.output"),
    "metadata": attrgetter("metadata"),
    "trace": attrgetter("trace"),
    "spans": attrgetter("spans"),
    "config": attrgetter("config"),
    "ctx": lambda ctx: ctx,
}
"""What a function may ask for by name. What is expected is the output, as in most tests."""
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def pass_named(function: Callable[..., Any], name: str) -> ContextFunction:
    """From `def f(output, expected)` to a function of a context; one that is so is left alone."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return function  # a compiled function without a signature
    asked = [each.name for each in parameters if each.kind in _BY_NAME and each.name in SEEN]
    needed = [each for each in parameters if each.default is each.empty and each.kind in _BY_NAME]
    first = next(iter(parameters), None)
    if first is None or first.kind not in _BY_NAME or first.name not in SEEN or asked == ["ctx"]:
        if len(needed) > 1 and asked:
            other = next(each.name for each in needed if each.name not in SEEN)
            raise _make_unknown_error(name, other)
        return function
    for each in needed:
        if each.name not in SEEN:
            raise _make_unknown_error(name, each.name)
    getters = [(each, SEEN[each]) for each in asked]

    def call(ctx: EvalContext) -> Any:
        return function(**{each: get(ctx) for each, get in getters})

    async def wait(ctx: EvalContext) -> Any:
        return await function(**{each: get(ctx) for each, get in getters})

    # It has the name and the words of the function, but arguments of its own.
    made = update_wrapper(wait if is_async(function) else call, function, updated=())
    del made.__wrapped__
    return made


def _make_unknown_error(name: str, parameter: str) -> ScorerError:
    return ScorerError(
        f"{name} asks for {parameter!r}, which no scorer is given",
        hint=f"take the context alone, or any of {', '.join(SEEN)}; "
        "a function of options is made a scorer with @configurable",
    )


def retry(function: ContextFunction, retries: int) -> ContextFunction:
    """The function, called again up to so often when it raises; the last error comes out."""

    def call(ctx: EvalContext) -> Any:
        for _ in range(retries):
            try:
                return function(ctx)
            except Exception:  # noqa: BLE001, S112 (what is to be tried again, whatever it is)
                continue
        return function(ctx)

    async def wait(ctx: EvalContext) -> Any:
        for _ in range(retries):
            try:
                return await function(ctx)
            except Exception:  # noqa: BLE001, S112 (what is to be tried again, whatever it is)
                continue
        return await function(ctx)

    return wait if is_async(function) else call

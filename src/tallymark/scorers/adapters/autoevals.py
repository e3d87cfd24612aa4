"""`from_autoevals`: a scorer of autoevals (Levenshtein, ExactMatch, Factuality, ...)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from tallymark.documents.bounded_json import read_json
from tallymark.judging.trace_evidence import find_retrieved
from tallymark.scorers.adapters.library_scorer import (
    choose_wrapped,
    find_class,
    import_library,
    make_instance,
    wrap_scorer,
)
from tallymark.scoring import Score, Scorer

if TYPE_CHECKING:
    from tallymark.scoring import EvalContext

_EXTRAS = frozenset({"input", "context", "metadata"})


def from_autoevals(scorer: Any = None, *, name: str | None = None, **options: Any) -> Scorer:
    """The score that an autoevals scorer gives to the output against expected.output.

    `scorer` is an instance, a class, a class's name (`"Levenshtein"`) with its options, or a
    plain function in the same style. It is given `output`, `expected`, `input`, `context` and
    `metadata`, as far as it takes them; an output is read as JSON where what is expected is not
    text. A score of None, which autoevals calls skipped, is a failed score.
    """
    given, name = choose_wrapped(scorer, name, "from_autoevals")
    library = import_library("autoevals", "autoevals")
    if isinstance(given, str):
        given = find_class(library, given, library.Scorer)
    is_function = inspect.isroutine(given)
    kind: Any = Callable if is_function else library.Scorer
    thing = make_instance(given, options, kind, "a scorer of autoevals or a function")
    call, run = (thing, thing) if is_function else _choose_methods(thing, library.Scorer)
    takes = _list_taken(run)
    thing_name = thing.__name__ if is_function else thing._name()  # noqa: SLF001 (its only name)

    def evaluate(ctx: EvalContext) -> Score:
        return _read_score(call(_read_output(ctx), **_make_arguments(ctx, takes)), thing_name)

    async def evaluate_async(ctx: EvalContext) -> Score:
        return _read_score(await call(_read_output(ctx), **_make_arguments(ctx, takes)), thing_name)

    return wrap_scorer(
        evaluate_async if inspect.iscoroutinefunction(call) else evaluate,
        thing,
        thing_name=thing_name,
        package="autoevals",
        name=name,
        settings={} if is_function else _read_settings(thing),
        blocking=not type(thing).__module__.startswith("autoevals."),
    )


def _choose_methods(thing: Any, base: Any) -> tuple[Any, Any]:
    """Choose the method to call and the one it runs: async where a scorer has its own, else
    sync.
    """
    if type(thing)._run_eval_async is not base._run_eval_async:  # noqa: SLF001 (no public sign)
        return thing.eval_async, thing._run_eval_async  # noqa: SLF001
    return thing.eval, thing._run_eval_sync  # noqa: SLF001


def _list_taken(run: Callable[..., Any]) -> frozenset[str]:
    """The names of what we have that a scorer takes, by name or because it takes anything."""
    parameters = inspect.signature(run).parameters
    anything = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    return frozenset(parameters) | (_EXTRAS if anything else frozenset())


def _read_settings(thing: Any) -> dict[str, Any]:
    """The attributes of a scorer, and what `partial` fixed."""
    fixed: dict[str, Any] = getattr(thing, "_partial_args", dict)()
    return {**{key: each for key, each in vars(thing).items() if key[0] != "_"}, **fixed}


def _read_output(ctx: EvalContext) -> Any:
    if ctx.expected.output is None or isinstance(ctx.expected.output, str):
        return ctx.output_text
    try:
        return read_json(ctx.output_text)
    except ValueError:
        return ctx.output_text


def _make_arguments(ctx: EvalContext, takes: frozenset[str]) -> dict[str, Any]:
    """The arguments that a scorer takes."""
    arguments: dict[str, Any] = {}
    if "expected" in takes:
        arguments["expected"] = ctx.expected.output
    if "input" in takes:
        arguments["input"] = ctx.input_text
    if "context" in takes:
        arguments["context"] = find_retrieved(ctx)
    if "metadata" in takes:
        arguments["metadata"] = ctx.metadata
    return arguments


def _read_score(result: Any, name: str) -> Score:
    """From autoevals' Score, a mapping in its shape, or a bare number."""
    if isinstance(result, Mapping):
        value, metadata = result.get("score"), result.get("metadata") or {}
    elif hasattr(result, "score"):
        value, metadata = result.score, result.metadata or {}
    else:
        value, metadata = result, {}
    if value is None:
        return Score.failed(f"{name} gave no score", metadata=dict(metadata))
    return Score(value, str(metadata.get("rationale") or ""), dict(metadata))

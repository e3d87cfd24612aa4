"""`from_pydantic_evals`: an evaluator of pydantic-evals (EqualsExpected, Contains, ...)."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tallymark.scorers.adapters.library_scorer import (
    choose_wrapped,
    find_class,
    import_library,
    make_instance,
    pick_result,
    wrap_scorer,
)
from tallymark.scoring import Score, Scorer
from tallymark.scoring.score import show_value

if TYPE_CHECKING:
    from tallymark.scoring import EvalContext


def from_pydantic_evals(
    evaluator: Any = None,
    *,
    name: str | None = None,
    key: str | None = None,
    labels: dict[str, float] | None = None,
    **options: Any,
) -> Scorer:
    """The result of an evaluator of pydantic-evals: True or False, a number from 0 to 1, or a
    label.

    `evaluator` is an instance, a class, or a class's name (`"Contains"`) with its options. `key`
    picks one of the results of an evaluator that gives several; `labels` gives labels a number.
    The span tree that agentic evaluators look at is made of the trace's own spans.
    """
    given, name = choose_wrapped(evaluator, name, "from_pydantic_evals")
    library = import_library("pydantic_evals.evaluators", "pydantic-evals")
    from tallymark.scorers.adapters.pydantic_evals_context import make_evaluator_context  # noqa: PLC0415 (heavy)

    if isinstance(given, str):
        given = find_class(library, given, library.Evaluator)
    thing = make_instance(given, options, library.Evaluator, "an evaluator of pydantic-evals")
    thing_name = thing.get_default_evaluation_name()

    def evaluate(ctx: EvalContext) -> Score:
        result = thing.evaluate(make_evaluator_context(ctx))
        return _read_score(result, thing_name, key, labels, library.EvaluationReason)

    async def evaluate_async(ctx: EvalContext) -> Score:
        result = await thing.evaluate_async(make_evaluator_context(ctx))
        return _read_score(result, thing_name, key, labels, library.EvaluationReason)

    own = type(thing)
    waits = (
        inspect.iscoroutinefunction(own.evaluate)
        or own.evaluate_async is not library.Evaluator.evaluate_async
    )
    return wrap_scorer(
        evaluate_async if waits else evaluate,
        thing,
        thing_name=thing_name,
        package="pydantic-evals",
        name=name,
        settings={**thing.build_serialization_arguments(), "key": key},
        blocking=not own.__module__.startswith("pydantic_evals."),
    )


def _read_score(
    result: Any, name: str, key: str | None, labels: dict[str, float] | None, explained: type[Any]
) -> Score:
    """From a value, several by name, or one `explained` with its reason."""
    metadata = {}
    if isinstance(result, Mapping):
        metadata["results"] = {
            each: getattr(given, "value", given) for each, given in result.items()
        }
        result = pick_result(result, key, name)
    if isinstance(result, Score):
        return Score.failed(str(result.error), metadata=metadata)
    reason = result.reason if isinstance(result, explained) else None
    value = result.value if isinstance(result, explained) else result
    if not isinstance(value, str):
        return Score(value, reason or "", metadata)
    if labels is None or value not in labels:
        error = f"{name} gave the label {show_value(value)}; give it a number with `labels`"
        return Score.failed(error, reason=reason or "", metadata=metadata)
    return Score(labels[value], reason or "", metadata, label=value)

"""`from_deepeval`: a metric of DeepEval (ExactMatchMetric, GEval, ToolCorrectnessMetric, ...).

DeepEval sends telemetry and leaves a `.deepeval` folder where it is imported, unless a variable of
the environment forbids it. Importing this module sets that variable, so import it before DeepEval.
"""

from __future__ import annotations

import copy
import inspect
import os
from typing import TYPE_CHECKING, Any

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

os.environ.setdefault("DEEPEVAL_TELEMETRY_OPT_OUT", "1")

_FACTS = (
    "threshold",
    "success",
    "strict_mode",
    "score_breakdown",
    "evaluation_model",
    "evaluation_cost",
    "input_tokens",
    "output_tokens",
)


def from_deepeval(
    metric: Any = None,
    *,
    name: str | None = None,
    threshold: float | None = None,
    **options: Any,
) -> Scorer:
    """The score of a DeepEval metric of single turns, measured on a copy of it for each trace.

    `metric` is an instance, a class, or a class's name (`"ExactMatchMetric"`) with its options.
    Its own threshold is the scorer's unless `threshold` is given; the metadata has the
    metric's own `success`. The test case has the trace's tool calls and retrievals, and
    `context` of the test's metadata.
    """
    given, name = choose_wrapped(metric, name, "from_deepeval")
    library = import_library("deepeval.metrics", "deepeval")
    from tallymark.scorers.adapters.deepeval_case import make_test_case  # noqa: PLC0415 (heavy)

    if isinstance(given, str):
        given = find_class(library, given, library.BaseMetric)
    if isinstance(given, type) and threshold is not None:
        options["threshold"] = threshold
    thing = make_instance(given, options, library.BaseMetric, "a DeepEval metric of single turns")
    thing_name = type(thing).__name__ if thing.__name__ == "Base Metric" else thing.__name__
    waits = thing.async_mode and type(thing).a_measure is not library.BaseMetric.a_measure
    quiet = _make_quiet(thing.a_measure if waits else thing.measure)

    def evaluate(ctx: EvalContext) -> Score:
        one = copy.copy(thing)  # a metric stores its last score
        one.measure(make_test_case(ctx), **quiet)
        return _read_score(one, thing_name)

    async def evaluate_async(ctx: EvalContext) -> Score:
        one = copy.copy(thing)
        await one.a_measure(make_test_case(ctx), **quiet)
        return _read_score(one, thing_name)

    return wrap_scorer(
        evaluate_async if waits else evaluate,
        thing,
        thing_name=thing_name,
        package="deepeval",
        name=name,
        settings=_read_settings(thing),
        threshold=thing.threshold if threshold is None else threshold,
    )


def _read_settings(metric: Any) -> dict[str, Any]:
    """The arguments a metric was made with; its other attributes are results, or follow from
    these.
    """
    taken = inspect.signature(type(metric).__init__).parameters
    return {key: value for key, value in vars(metric).items() if key in taken}


def _make_quiet(measure: Any) -> dict[str, bool]:
    """Arguments that prevent a progress bar, if the metric takes them."""
    taken = inspect.signature(measure).parameters
    return {"_show_indicator": False} if "_show_indicator" in taken else {}


def _read_score(metric: Any, name: str) -> Score:
    facts = {fact: getattr(metric, fact, None) for fact in _FACTS}
    metadata = {fact: value for fact, value in facts.items() if value is not None}
    if metric.score is None:
        why = metric.error or ("it was skipped" if metric.skipped else "it does not say why")
        return Score.failed(f"{name} gave no score: {why}", metadata=metadata)
    return Score(metric.score, str(metric.reason or "").strip(), metadata)

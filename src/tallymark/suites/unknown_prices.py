"""Models without a known price, in suites that need it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.errors import InvalidInput
from tallymark.models.model_kinds import ModelReference
from tallymark.models.token_prices import may_be_priced
from tallymark.suites.templates import has_templates

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tallymark.suites.suite_definition import SuiteDefinition

HINT = "set metadata.pricing"


def find_unknown_prices(
    suite: SuiteDefinition, models: Iterable[str], *, has_budget: bool = False
) -> Iterator[str]:
    """A sentence for each of these models that makes the score, a check or a budget miss a cost."""
    named = [] if suite.parsed is None else suite.parsed.names
    costs = [name for name in named if name.endswith("_cost") and name != "judge_cost"]
    kinds = {spec.kind for each in suite.evals for spec in each.all_checks()}
    if suite.pricing is not None or not (costs or "max_cost" in kinds or has_budget):
        return
    if costs:
        lacks = f"the formula's {costs[0]} has no value"
    elif "max_cost" in kinds:
        lacks = "the check max_cost cannot be done"
    else:
        lacks = "--budget stops nothing"
    for model in models:
        if not has_templates(model) and not _may_be_priced(model):
            yield f"the price of {model} is unknown: {lacks} unless its answers report their cost"


def _may_be_priced(model: str) -> bool:
    try:
        named = ModelReference.parse(model)
    except InvalidInput:
        return True  # a wrong model name is reported elsewhere
    return may_be_priced(named.kind, named.rest, named.text)

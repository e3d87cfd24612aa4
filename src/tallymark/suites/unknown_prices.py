"""Models of which nobody knows what they cost, in suites that need to know it."""

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


def find_unknown_prices(suite: SuiteDefinition, models: Iterable[str]) -> Iterator[str]:
    """A sentence for each of these models that makes the score, or a check, miss a cost."""
    named = [] if suite.parsed is None else suite.parsed.names
    costs = [name for name in named if name.endswith("_cost") and name != "judge_cost"]
    kinds = {spec.kind for each in suite.evals for spec in each.all_checks()}
    if suite.pricing is not None or not (costs or "max_cost" in kinds):
        return
    needed = f"the formula needs {costs[0]}" if costs else "a check needs it: max_cost"
    for model in models:
        if not has_templates(model) and not _may_be_priced(model):
            yield (
                f"nobody knows what {model} costs, and {needed}, "
                "so it has no value unless the answers tell their cost"
            )


def _may_be_priced(model: str) -> bool:
    try:
        named = ModelReference.parse(model)
    except InvalidInput:
        return True  # what names no model is told elsewhere
    return may_be_priced(named.kind, named.rest, named.text)

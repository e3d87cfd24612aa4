"""The `judge:` of a challenge played red against blue: its type, and that type's options."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tallymark.challenges.evaluators.evaluator_format import TypedShape

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tallymark.challenges.evaluators.evaluator_options import Option

JUDGES = {
    "script": f"{__package__}.script_judge",
    "judge": f"{__package__}.model_judge",
    "scorer": f"{__package__}.judges",
}
"""By name, the module with its `OPTIONS`: imported when it is first used, some are heavy."""


def _find_options(name: str) -> Mapping[str, Option]:
    found: Mapping[str, Option] = import_module(JUDGES[name]).OPTIONS
    return found


JUDGE = TypedShape(JUDGES, _find_options)

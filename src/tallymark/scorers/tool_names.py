"""Categories of tools and grades, shared by the scorers of tool names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallymark.scorers.budget_score import Steps, read_steps
from tallymark.scoring.scorer_options import demand

if TYPE_CHECKING:
    from collections.abc import Callable

Categories = dict[str, list[str]]


def make_naming(scorer: str, categories: Categories | None) -> Callable[[list[str]], list[str]]:
    """Names with every tool of a category called by the category's name."""
    if not categories:
        return lambda names: names
    category_of: dict[str, str] = {}
    for category, tools in categories.items():
        demand(bool(tools), scorer, "categories", categories, "of at least one tool each")
        for tool in tools:
            known = category_of.setdefault(tool, category)
            wanted = f"without a tool in two of them: {tool!r} is in {known!r} and {category!r}"
            demand(known == category, scorer, "categories", categories, wanted)
    return lambda names: [category_of.get(name, name) for name in names]


def make_grading(
    scorer: str, steps: Steps | None, extra_penalty: float
) -> Callable[[float, int], float]:
    """From the share that was right, and the number of extra calls, to a value from 0 to 1."""
    demand(0 <= extra_penalty <= 1, scorer, "extra_penalty", extra_penalty, "from 0 to 1")
    if steps is None and not extra_penalty:
        return lambda share, _: share
    ladder = [] if steps is None else read_steps(scorer, steps)

    def grade(share: float, extra: int) -> float:
        if steps is not None:
            reached = [value for least, value in ladder if share + 1e-9 >= least]
            share = reached[-1] if reached else 0.0
        return max(0.0, share - extra_penalty * extra)

    return grade

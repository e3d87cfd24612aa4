"""Why a score is what it is: the tree with values put in, and what each term contributes.

The terms are those of the outermost sum. Where that sum is multiplied or divided by something,
as in `(a * 3 + b * 2) / total_cost`, each term is taken with the factor, so that the
contributions always add up to the score. A formula without a sum is one term.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tallymark.formula.row_evaluation import NamedValues, Step, as_number
from tallymark.formula.tree import (
    Call,
    Name,
    Negative,
    Node,
    Number,
    Product,
    Sum,
    children,
    rebuild,
    to_text,
)
from tallymark.text import align, align_numbers, format_number, format_percent, format_score

_WIDEST = 120
"""Characters of a part that the tree shows."""


@dataclass(frozen=True, slots=True)
class ContributedTerm:
    """One term: its text with the sign it has in the sum, its own value, and its contribution."""

    text: str
    value: float
    contribution: float | None
    """None where it is too large, although the terms together are not."""
    share: float | None
    """Part of the score, from 0 to 1; None when the score is 0 or terms pull in opposite ways."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer of `Formula.explain`."""

    formula: str
    value: float | None
    reason: str | None
    """Why there is no value; None when there is one."""
    terms: tuple[ContributedTerm, ...]
    steps: Step
    values: NamedValues

    @property
    def substituted(self) -> str:
        """The formula with numbers in place of names: `80 / 0.0177`."""
        return to_text(_substitute(self.steps.node, self.values))

    @property
    def shown(self) -> str:
        """The formula with numbers shortened for reading."""
        numbers = {name: as_number(value) for name, value in self.values.items()}
        short = {
            name: None if number is None else float(format_number(number).replace(",", ""))
            for name, number in numbers.items()
        }
        return to_text(_substitute(self.steps.node, short))

    def lines(self, *, reasons: bool = False) -> list[str]:
        """The tree, a line for each part: branches, text, value, with `reasons` why it has none."""
        return align(_list_tree_rows(self.steps, "", "", reasons), [False, False])

    def render(self) -> str:
        """All of it as plain text."""
        result = f"undefined: {self.reason}" if self.value is None else format_score(self.value)
        lines = [f"{self.formula} = {result}", "", *self.lines(reasons=True)]
        if len(self.terms) > 1:
            rows = [
                (
                    each.text,
                    format_contribution(each.contribution),
                    "" if each.share is None else format_percent(100 * each.share),
                )
                for each in self.terms
            ]
            lines += ["", "What each term contributes:"]
            lines += [f"  {line}" for line in align_numbers(rows)]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "formula": self.formula,
            "score": self.value,
            "score_error": self.reason,
            "substituted": self.substituted,
            "terms": [
                {
                    "term": term.text,
                    "value": term.value,
                    "contribution": term.contribution,
                    "error": "it is too large" if term.contribution is None else None,
                    "share": term.share,
                }
                for term in self.terms
            ],
            "tree": _step_to_dict(self.steps),
        }


def format_contribution(value: float | None) -> str:
    """Format a term's contribution to the score."""
    return "too large" if value is None else format_score(value)


def list_terms(part: Step, total: float) -> Iterator[ContributedTerm]:
    """The terms of a formula, each with what it contributes to the total."""
    # Adding 0.0 makes -0.0 and 0.0 one, so that no term contributes `-0`.
    found = [(text, each.value or 0.0, factor) for each, factor, text in _split(part)]
    contributions = [own * factor + 0.0 for _, own, factor in found]
    # Where one term adds and another takes away, "105 %" and "-5 %" would be no shares.
    shared = total and all(each * math.copysign(1.0, total) >= 0 for each in contributions)
    for (text, own, _), contribution in zip(found, contributions, strict=True):
        share = contribution / total + 0.0 if shared else math.inf
        yield ContributedTerm(text, own, _keep_finite(contribution), _keep_finite(share))


def _keep_finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _split(part: Step) -> list[tuple[Step, float, str]]:
    """The terms of a step, each with the factor that it is taken with, and its text."""
    match part.node:
        case Sum(operators=operators):
            signs = zip(("+", *operators), part.below, strict=True)
            return [term for sign, below in signs for term in _apply_sign(_split(below), sign)]
        case Negative():
            return _apply_sign(_split(part.below[0]), "-")
        case Call(function="if"):
            return _split(part.below[1])
        case Product(operators=operators):
            return _split_product(part, ("*", *operators))
        case node:
            return [(part, 1.0, to_text(node))]


def _apply_sign(terms: list[tuple[Step, float, str]], sign: str) -> list[tuple[Step, float, str]]:
    if sign == "+":
        return terms
    return [
        (step, -factor, text.removeprefix("-") if text.startswith("-") else f"-{text}")
        for step, factor, text in terms
    ]


def _split_product(part: Step, signs: tuple[str, ...]) -> list[tuple[Step, float, str]]:
    """The terms of the one factor that is a sum, times the other factors; otherwise one term."""
    splits = [_split(each) for each in part.below]
    sums = [i for i, terms in enumerate(splits) if len(terms) > 1]
    # A sum that is divided by cannot be taken apart: 1 / (a + b) has no terms.
    if len(sums) != 1 or signs[sums[0]] != "*":
        return [(part, 1.0, to_text(part.node))]
    rest = 1.0
    for index, (sign, each) in enumerate(zip(signs, part.below, strict=True)):
        if index != sums[0] and each.value is not None:
            rest = rest * each.value if sign == "*" else rest / each.value
    return [(step, factor * rest, text) for step, factor, text in splits[sums[0]]]


def _substitute(node: Node, values: NamedValues) -> Node:
    if isinstance(node, Name):
        number = as_number(values.get(node.name))
        if number is None:
            return node
        return Negative(Number(-number)) if number < 0 else Number(number)
    return rebuild(node, tuple(_substitute(child, values) for child in children(node)))


def _list_tree_rows(part: Step, lead: str, branch: str, reasons: bool) -> list[tuple[str, str]]:
    text, value = to_text(part.node, most=_WIDEST), "= undefined"
    if part.value is not None:  # the whole is the score, with the digits that scores have
        value = f"= {format_number(part.value) if branch else format_score(part.value)}"
    elif reasons and all(each.value is not None for each in part.below):
        # Where the reason comes from, and not again for all that is computed from it.
        value += f": {part.reason}"
    rows = [(f"{lead}{branch}{text}", "" if isinstance(part.node, Number) else value)]
    inner = lead + {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
    for index, each in enumerate(part.below):
        last = index == len(part.below) - 1
        rows += _list_tree_rows(each, inner, "└─ " if last else "├─ ", reasons)
    return rows


def _step_to_dict(part: Step) -> dict[str, Any]:
    return {
        "text": to_text(part.node),
        "value": part.value,
        "error": part.reason,
        "parts": [_step_to_dict(each) for each in part.below],
    }

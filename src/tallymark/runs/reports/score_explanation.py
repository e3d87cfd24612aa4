"""How a score came about, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import TYPE_CHECKING

from tallymark.formula.tree import Name
from tallymark.text import align_numbers, clean_line, format_percent, format_score

if TYPE_CHECKING:
    from tallymark.formula.explanation import Explanation, Term


def explain_score(found: Explanation | None, width: int) -> Iterator[str]:
    """The tree with values, and what each term contributes; nothing for a single name."""
    if found is None or isinstance(found.steps.node, Name):
        return
    tree = found.lines()
    if max(map(len, tree)) > width:  # too wide for a tree: the formula with numbers
        tree = wrap(f"{found.formula} = {found.substituted}", width)
    yield from tree
    if len(found.terms) > 1:
        yield from ("", "What each term contributes:")
        yield from (
            f"  {row}" for row in align_numbers([_make_term_row(term) for term in found.terms])
        )


def _make_term_row(term: Term) -> tuple[str, str, str]:
    share = "" if term.share is None else format_percent(100 * term.share)
    return clean_line(term.text, 40), format_score(term.contribution), share

"""A parse of a print is the same tree."""

from __future__ import annotations

from hypothesis import assume, example, given, settings
from tests.effort import examples
from tests.formula.random_formulas import NAMES, depth, trees

from tallymark.errors import FormulaError
from tallymark.formula import Formula, Names
from tallymark.formula.tree import Node, Number, children, rebuild, to_text, walk

HYPHENS = Names.of_run(["a", "-a", "b-c", "b", "c", "2nd", "a-"])


@settings(max_examples=examples(300))
@given(trees())
@example(Number(2**-24))  # whose shortest text is no rounding of all its digits
def test_printing_a_tree_gives_text_that_parses_to_it(tree: Node) -> None:
    assume(depth(tree) < 20)
    assert _reparsed(tree, NAMES) == tree


@settings(max_examples=examples(300))
@given(trees(HYPHENS))
def test_printing_is_exact_when_names_look_like_subtractions(tree: Node) -> None:
    assume(depth(tree) < 20)
    assert _reparsed(tree, HYPHENS) == tree


def _reparsed(tree: Node, names: Names) -> Node:
    try:
        return Formula.parse(to_text(tree, guard_minus=names.leading_hyphen), names).tree
    except FormulaError as error:  # a constant part without a value is refused, rightly
        assume(not any("always 0" in str(p) or "remove it" in str(p) for p in error.problems))
        assume("low limit is above" not in str(error))
        raise


@given(trees())
def test_a_node_rebuilt_over_its_own_parts_is_itself(tree: Node) -> None:
    for node in walk(tree):
        assert rebuild(node, children(node)) == node

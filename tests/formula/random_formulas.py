"""Random formulas and random rows, shared by the laws."""

from __future__ import annotations

import math
from functools import reduce

from hypothesis import strategies as st

from tallymark.formula import Names
from tallymark.formula.functions import COMPARISONS, FUNCTIONS
from tallymark.formula.tree import (
    Call,
    Name,
    Negative,
    Node,
    Number,
    Product,
    Sum,
    ValueComparison,
)

NAMES = Names.of_run(["a", "b-c", "2nd"])

numbers = st.one_of(
    st.sampled_from([0.0, 1.0, 0.5, 2.0, 100.0, 1e-3, 1e-7, 1e300]),
    st.floats(min_value=0, max_value=1e6, allow_nan=False).map(abs),
).map(Number)


def _chain(kind: type[Sum | Product], operators: str, parts: st.SearchStrategy[Node]):  # type: ignore[no-untyped-def]
    return st.lists(parts, min_size=2, max_size=4).flatmap(
        lambda operands: st.lists(
            st.sampled_from(operators), min_size=len(operands) - 1, max_size=len(operands) - 1
        ).map(lambda ops: kind(tuple(operands), tuple(ops)))
    )


def _calls(parts: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    def call(name: str) -> st.SearchStrategy[Node]:
        function = FUNCTIONS[name]
        most = function.most or 3
        if name == "round":
            digits = st.integers(0, 4).map(lambda n: Number(float(n)))
            return st.builds(lambda x, d: Call("round", (x, d)), parts, digits)
        return st.lists(parts, min_size=function.least, max_size=most).map(
            lambda arguments: Call(name, tuple(arguments))
        )

    return st.sampled_from(sorted(FUNCTIONS)).flatmap(call)


def _bigger(parts: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.one_of(
        _chain(Sum, "+-", parts),
        _chain(Product, "*/", parts),
        parts.map(Negative),
        st.builds(ValueComparison, st.sampled_from(sorted(COMPARISONS)), parts, parts),
        _calls(parts),
    )


def trees(names: Names = NAMES) -> st.SearchStrategy[Node]:
    """Trees over some names. Not every one is a legal formula: a constant part may be undefined."""
    leaves: st.SearchStrategy[Node] = st.one_of(st.sampled_from(sorted(names)).map(Name), numbers)
    return st.recursive(leaves, _bigger, max_leaves=12)


def _values_of(name: str) -> st.SearchStrategy[float]:
    variable = NAMES[name]
    if variable.measure == "eval":
        return st.sampled_from([0.0, 1.0])
    high = variable.high if math.isfinite(variable.high) else 1e6
    edges = [0.0, 1.0, high, 0.5, 5e-324]
    return st.one_of(st.sampled_from(edges), st.floats(0, high, allow_nan=False).map(abs))


def _put_in_order(row: dict[str, float]) -> dict[str, float]:
    """As in every run: the least, the mean, the most, and the sum of what is never negative."""
    for measure in ("cost", "latency"):
        names = [f"{statistic}_{measure}" for statistic in ("min", "avg", "max", "total")]
        row |= dict(zip(names, sorted(row[name] for name in names), strict=True))
    return row


rows = st.fixed_dictionaries({name: _values_of(name) for name in NAMES}).map(_put_in_order)
"""Rows whose values keep to the ranges of their names."""

anything = st.one_of(
    st.floats(),
    st.none(),
    st.integers(-(10**20), 10**20),
    st.sampled_from([0.0, -0.0, 1e308, -1e308, math.inf, math.nan, True, "text"]),
)
wild_rows = st.dictionaries(st.sampled_from(sorted(NAMES)), anything)
"""Rows with whatever a caller might pass, names left out included."""


def depth(node: Node) -> int:
    from tallymark.formula.tree import children

    return 1 + reduce(max, (depth(child) for child in children(node)), 0)

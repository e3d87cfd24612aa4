"""A formula in SQL gives what `formula/steps.py` defines, to the bit and for undefined rows too."""

from __future__ import annotations

import math
import sqlite3
import struct
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.effort import SHARED_FIXTURE, examples
from tests.formula.random_formulas import NAMES, rows, trees
from tests.postgres import Postgres

from tallymark.formula import Formula
from tallymark.formula.steps import step
from tallymark.formula.tree import Call, Node, walk
from tallymark.store.formula_sql import SqlColumn, SqlFormula, add_functions, formula_sql

Row = dict[str, float | None]
ASKING = {name: SqlColumn(f'"{name}"') for name in NAMES}
nasty = st.one_of(
    st.none(),
    st.floats(allow_nan=False),
    st.integers(-(2**63), 2**63 - 1).map(float),
    st.sampled_from([0.0, -0.0, 0.5, -0.5, 2.5, -2.5, 1.0, 5e-324, -5e-324, 2.3e-308, 1e308]),
    st.sampled_from([math.inf, -math.inf, 0.49999999999999994, 2.0**52 + 1, -1e308]),
)
nasty_rows = st.fixed_dictionaries(dict.fromkeys(NAMES, nasty))
tables = st.lists(st.one_of(rows, nasty_rows), min_size=1, max_size=4)


def bits(value: float | None) -> bytes | None:
    return None if value is None else struct.pack("<d", value)


def expected(tree: Node, row: Row) -> float | None:
    """What the definition says, with the one zero that every way to evaluate gives."""
    value = step(tree, row).value
    return None if value is None else value + 0.0


Ask = Callable[[SqlFormula, list[Row]], list[float | None]]


@pytest.fixture(scope="module")
def ask_sqlite() -> Iterator[Ask]:
    connection = sqlite3.connect(":memory:")
    add_functions(connection)
    names = ", ".join(each.text for each in ASKING.values())
    connection.execute(f"CREATE TABLE row ({names})")
    connection.execute("CREATE TABLE answer (place INTEGER PRIMARY KEY, value REAL)")

    def ask(sql: SqlFormula, table: list[Row]) -> list[float | None]:
        connection.execute("DELETE FROM row")
        marks = ", ".join("?" * len(NAMES))
        values = [[row[name] for name in NAMES] for row in table]
        connection.executemany(f"INSERT INTO row VALUES ({marks})", values)
        connection.execute("DELETE FROM answer")
        # As deep in a statement as any that uses it.
        connection.execute(
            "INSERT INTO answer SELECT place, value FROM (SELECT rowid AS place,"
            f" coalesce({sql.text}, NULL) AS value FROM row) AS answers WHERE 1 = 1",
            sql.parameters,
        )
        return [value for (value,) in connection.execute("SELECT value FROM answer")]

    yield ask
    connection.close()


@pytest.fixture(scope="module")
def ask_postgres(postgres: Postgres) -> Iterator[Ask]:
    with psycopg.connect(postgres.fresh(), autocommit=True) as connection:
        cells = ", ".join(f"{each.text} double precision" for each in ASKING.values())
        connection.execute(f"CREATE TABLE row (place integer, {cells})".encode())

        def ask(sql: SqlFormula, table: list[Row]) -> list[float | None]:
            connection.execute("TRUNCATE row")
            marks = ", ".join(["%s"] * (len(NAMES) + 1))
            for place, row in enumerate(table):
                values = [place, *(row[name] for name in NAMES)]
                connection.execute(f"INSERT INTO row VALUES ({marks})".encode(), values)
            answers = connection.execute(f"SELECT {sql.text} FROM row ORDER BY place".encode())
            return [value for (value,) in answers.fetchall()]

        yield ask


def sql_of(tree: Node, dialect: str) -> SqlFormula | None:
    return formula_sql(tree, ASKING, dialect)


quick = settings(suppress_health_check=SHARED_FIXTURE)


@settings(quick, max_examples=examples(200))
@given(trees(), tables)
def test_sqlite_agrees_with_the_definition(
    ask_sqlite: Ask, tree: Node, table: list[dict[str, Any]]
) -> None:
    sql = sql_of(tree, "sqlite")
    assume(sql is not None)
    assert sql is not None
    answers = ask_sqlite(sql, table)
    assert [bits(a) for a in answers] == [bits(expected(tree, row)) for row in table]


@settings(quick, max_examples=examples(200))
@given(trees(), tables)
def test_postgresql_agrees_with_the_definition_or_refuses(
    ask_postgres: Ask, tree: Node, table: list[dict[str, Any]]
) -> None:
    sql = sql_of(tree, "postgresql")
    assume(sql is not None)
    assert sql is not None
    try:
        answers = ask_postgres(sql, table)
    except psycopg.errors.NumericValueOutOfRange:
        return
    assert [bits(a) for a in answers] == [bits(expected(tree, row)) for row in table]


USUAL = [
    ("a / b", [{"a": 7, "b": 2}, {"a": 1, "b": 0}, {"a": None, "b": 1}]),
    ("-a * b", [{"a": 0, "b": 2}]),
    ("round(a)", [{"a": 2.5}, {"a": -2.5}, {"a": 0.49999999999999994}, {"a": 2.0**52 + 1}]),
    ("round(a, 2)", [{"a": 2.675}, {"a": -1.005}, {"a": 12345.678}]),
    ("floor(a) + ceil(a)", [{"a": -1.5}, {"a": 1e300}]),
    ("sqrt(a)", [{"a": 2}, {"a": -1e-300}, {"a": 0}, {"a": -0.0}]),
    ("min(a, b, 3)", [{"a": 1, "b": None}, {"a": 5, "b": 4}, {"a": -1, "b": 4}]),
    ("max(a, b) + abs(a)", [{"a": -1, "b": None}, {"a": -5, "b": 4}]),
    ("clamp(a, 1, b)", [{"a": 0, "b": 5}, {"a": 9, "b": 5}, {"a": 3, "b": 0}]),
    ("if(b > 0, a / b, 0)", [{"a": 1, "b": 0}, {"a": 1, "b": 4}, {"a": None, "b": 0}]),
    ("if(b, 1, sqrt(a))", [{"a": -1, "b": 1}, {"a": -1, "b": 0}, {"a": 1, "b": None}]),
    ("(a == b) + (a != b) * 2 + (a <= b) * 4", [{"a": 1, "b": 1}, {"a": 0.0, "b": -0.0}]),
]


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
@pytest.mark.parametrize(("text", "table"), USUAL, ids=[text for text, _ in USUAL])
def test_usual_formulas_need_no_python(
    request: pytest.FixtureRequest, dialect: str, text: str, table: list[Row]
) -> None:
    tree = Formula.parse(text, ["a", "b"]).tree
    ask: Ask = request.getfixturevalue("ask_sqlite" if dialect == "sqlite" else "ask_postgres")
    sql = formula_sql(tree, {"a": SqlColumn('"a"'), "b": SqlColumn('"2nd"')}, dialect)
    assert sql is not None
    full = [dict.fromkeys(NAMES, row.get("b")) | {"a": row["a"]} for row in table]
    assert [bits(a) for a in ask(sql, full)] == [bits(expected(tree, row)) for row in table]


@pytest.mark.parametrize(
    "text",
    ["1 / (a * a)", "min(a * a, 1)", "a * a > 1", "if(a * a, 1, 0)", "pow(a * a, 0)"],
)
def test_an_infinity_on_the_way_does_not_vanish(ask_sqlite: Ask, text: str) -> None:
    sql = sql_of(Formula.parse(text, ["a"]).tree, "sqlite")
    assert sql is not None
    assert ask_sqlite(sql, [dict.fromkeys(NAMES, None) | {"a": 1e200}]) == [None]


@pytest.mark.parametrize("function", ["exp", "log", "log2", "log10", "pow"])
def test_what_a_servers_library_computes_is_not_asked_of_it(function: str) -> None:
    call = f"{function}(a, 2)" if function == "pow" else f"{function}(a)"
    assert sql_of(Formula.parse(call, ["a"]).tree, "postgresql") is None


@pytest.mark.parametrize("text", ["a * a", "a / 1e300"])
def test_postgresql_raises_where_a_result_leaves_the_range(ask_postgres: Ask, text: str) -> None:
    sql = sql_of(Formula.parse(text, ["a"]).tree, "postgresql")
    assert sql is not None
    table = [dict.fromkeys(NAMES, None) | {"a": value} for value in (1e-300, 1e300)]
    with pytest.raises(psycopg.errors.NumericValueOutOfRange):
        ask_postgres(sql, table)


def nested(opening: str, levels: int) -> Node:
    closing = {"if(": ",1,1)", "if(1,2+3*": ",0)", "-": ""}.get(opening, ")")
    return Formula.parse(opening * levels + "a" + closing * levels, ["a"]).tree


@pytest.mark.parametrize("levels", range(1, 63, 3))
@pytest.mark.parametrize(
    "opening", ["-", "abs(1+2*", "min(1,2*", "if(1,2+3*", "(1<2+3*", "if(", "round(2/", "max(1,2/("]
)
def test_what_sqlite_cannot_parse_is_not_said(ask_sqlite: Ask, opening: str, levels: int) -> None:
    if opening.endswith("("):
        levels //= opening.count("(")
    text = opening * levels + "a" + _closing(opening) * levels
    tree = Formula.parse(text, ["a"]).tree
    sql = sql_of(tree, "sqlite")
    assert sql is not None or levels > 3
    if sql is not None:
        answers = ask_sqlite(sql, [dict.fromkeys(NAMES, None) | {"a": 3.0}])
        assert [bits(a) for a in answers] == [bits(expected(tree, {"a": 3.0}))]


def _closing(opening: str) -> str:
    return {"if(": ",1,1)", "if(1,2+3*": ",0)"}.get(opening, ")" * opening.count("("))


@pytest.mark.parametrize("terms", [100, 390, 999])
@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_long_sums(request: pytest.FixtureRequest, dialect: str, terms: int) -> None:
    tree = Formula.parse("+".join("a" * terms), ["a"]).tree
    sql = sql_of(tree, dialect)
    if sql is None:
        assert terms == 999
        return
    ask: Ask = request.getfixturevalue("ask_sqlite" if dialect == "sqlite" else "ask_postgres")
    assert ask(sql, [dict.fromkeys(NAMES, 0.5)]) == [terms / 2]


def test_rounding_many_times_over_does_not_fill_the_memory() -> None:
    assert sql_of(Formula.parse("round(" * 60 + "a" + ")" * 60, ["a"]).tree, "postgresql") is None


def test_the_random_formulas_have_every_function() -> None:
    """What the laws above are worth."""
    from hypothesis import Phase, find

    # The first that has it will do: making it small takes longest.
    first = settings(max_examples=2000, phases=[Phase.generate], database=None)
    for function in ("round", "sqrt", "clamp", "if", "min", "exp"):

        def has_it(tree: Node, name: str = function) -> bool:
            return any(isinstance(node, Call) and node.function == name for node in walk(tree))

        assert has_it(find(trees(), has_it, settings=first))

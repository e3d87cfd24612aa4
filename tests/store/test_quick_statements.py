"""Statements that go to the driver as they are written: the same on both databases."""

from __future__ import annotations

from sqlalchemy import Connection

from tallymark.store import Store
from tallymark.store.quick_statements import ManyQuery, QuickStatements
from tallymark.store.traces.rules import RuleDefinition

PAIRS = ManyQuery(
    "SELECT given.number, given.word FROM {given} ORDER BY given.number",
    (("number", "bigint"), ("word", "text")),
)


def test_many_values_are_a_table(contest: Store) -> None:
    given = [(2**40, "zwölf"), (1, 'it\'s \\ "so"')]
    with contest._database.read() as connection:
        found = QuickStatements(connection).read_many(PAIRS, given)
    assert found == sorted(given)


def test_a_number_may_be_missing_and_each_is_looked_up(contest: Store) -> None:
    query = ManyQuery(
        "SELECT r.state FROM {given} {each rules r: r.id = given.number} WHERE r.tenant = ?",
        PAIRS.columns,
    )
    rule = contest.rules.add("polite", RuleDefinition(formula="cost"), owner="ann", at=1.0)
    given = [(rule.id, "a"), (None, "b"), (rule.id + 1, "c")]
    with contest._database.read() as connection:
        found = QuickStatements(connection).read_many(query, given, contest.tenant)
    assert found == [("active",)]


def test_nothing_given_is_nothing_found(contest: Store) -> None:
    with contest._database.read() as connection:
        assert QuickStatements(connection).read_many(PAIRS, []) == []


def test_rows_are_stored_few_or_many(contest: Store) -> None:
    tenant = contest.tenant

    def work(connection: Connection) -> list[int]:
        statements = QuickStatements(connection)
        for count in (0, 1, 40):
            rows = [(tenant, f"{count}-{nth}", "ü") for nth in range(count)]
            statements.insert("vars", ("tenant", "name", "value"), rows)
        changed = statements.run("UPDATE vars SET value = ? WHERE tenant = ?", "x", tenant)
        where = "DELETE FROM vars WHERE tenant = ? AND name = ?"
        return [changed, statements.run_many(where, [(tenant, "1-0"), (tenant, "none")])]

    assert contest._database.write(work) == [41, 1]
    assert set(contest.vars().values()) == {"x"}

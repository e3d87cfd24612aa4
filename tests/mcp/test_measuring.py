"""Formulas, runs and comparisons through tools."""

from __future__ import annotations

from tests.mcp.conftest import Hall

SUITE = """
evals:
  - name: hello
    prompt: Say hello
    checks: [{match: '*hello*'}]
  - name: bye
    prompt: Say nothing
    checks: [{match: '*bye*'}]
"""


def test_a_formula_is_checked_with_the_nearest_name(hall: Hall) -> None:
    told = hall.ask("nobody", "check_formula", formula="success_pct / total_cots")
    assert told["problems"] == ["column 15: unknown name 'total_cots'; did you mean 'total_cost'?"]
    good = hall.ask("nobody", "check_formula", formula="hello * 2", names=["hello"])
    assert (good["valid"], good["names"]) == (True, ["hello"])


def test_a_formula_is_explained_by_its_terms(hall: Hall) -> None:
    values = {"success_pct": 80, "total_cost": None}
    told = hall.ask("bob", "explain_formula", formula="success_pct - 10", values=values)
    assert (told["score"], [each["contribution"] for each in told["terms"]]) == (70, [80, -10])
    said = hall.refuse("bob", "explain_formula", formula="nothing", values={})
    assert said.startswith("column 1: unknown name 'nothing'")


def test_a_suite_is_run_once_under_its_key_and_compared(hall: Hall) -> None:
    asked = {"suite": SUITE, "models": ["echo/a"], "idempotency_key": "run-1"}
    first = hall.ask("alice", "run_suite", **asked)
    assert first["finished"]
    run = first["runs"][0]
    assert (run["status"], run["passed"], run["failed"]) == ("completed", 1, 1)
    assert hall.ask("alice", "run_suite", **asked)["runs"][0]["id"] == run["id"]
    second = hall.ask("alice", "run_suite", suite=SUITE, models=["echo/b"])["runs"][0]["id"]
    assert len(hall.ask("victor", "list_runs")["runs"]) == 2
    told = hall.ask("victor", "compare_runs", runs=[run["id"], second])["comparisons"][0]
    assert (told["first"]["id"], told["second"]["id"]) == (run["id"], second)
    assert told["verdict"]["outcome"] == "inconclusive"
    missed = hall.ask("victor", "read_run", run=second)["not_passed"]
    assert [(each["case"], each["status"]) for each in missed] == [("bye", "failed")]
    assert missed[0]["checks"][0]["reason"]


def test_runs_are_not_an_agents_business(hall: Hall) -> None:
    for tool, arguments in (("list_runs", {}), ("read_run", {"run": "latest"})):
        assert "a key of the role 'agent' may not do this" in hall.refuse("bob", tool, **arguments)
    assert "may not do this" in hall.refuse("victor", "run_suite", suite=SUITE)


def test_a_suite_may_not_reach_into_the_server(hall: Hall) -> None:
    said = hall.refuse("alice", "run_suite", suite=SUITE, models=["python/os:system"])
    assert said.startswith("models of the kind python/ are not run here")

"""What is kept of a Python suite beside its results: its tests, scorers and agent, as data."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tallymark.errors import FormulaError
from tallymark.formula import RUN_METRICS, Formula, Names
from tallymark.runs.tally import derive_scorer_names, name_metrics
from tallymark.scoring.score import make_json_safe

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tallymark.scoring import Scorer
    from tallymark.suites.python_suites.suite_and_test import Agent, Suite, Test

DEFAULT_FORMULA = "success_pct"


def parse_formula(text: str | None, suite: Suite) -> Formula:
    """A formula over the names of a run of this suite, before anything runs."""
    if text is None or text == DEFAULT_FORMULA:
        return Formula.parse(DEFAULT_FORMULA)
    # Over the whole suite: what is not chosen has no value, and is no mistake.
    whole = suite.whole
    return parse_for_scorers(text, whole.scorer_names, [test.name for test in whole.tests])


def parse_for_scorers(text: str, scorers: Iterable[str], evals: Iterable[str] = ()) -> Formula:
    """A formula over run-wide metrics, evals and scorers' names, which stand for their means."""
    names = list(scorers)
    Names.of(names)  # refuses names that formulas cannot use
    for name in names:
        if name in RUN_METRICS:
            hint = f'give it another name: {name}(name="...")'
            raise FormulaError(f"the scorer {name!r} has the name of a run-wide metric", hint=hint)
    tests = list(evals)
    if both := [name for name in names if name in tests]:
        hint = f'give the scorer another name: {both[0]}(name="...")'
        raise FormulaError(f"the scorer's name {both[0]!r} is also the name of a test", hint=hint)
    return Formula.parse(text, name_metrics(tests, derive_scorer_names(names)))


def describe_suite(suite: Suite) -> str:
    """The suite as JSON text, in the form that suites in YAML are kept in."""
    return write_definition(
        suite.name,
        [_describe_test(test) for test in suite.tests],
        {judge for test in suite.tests for judge in suite.scorers_of(test)},
    )


def write_definition(name: str, evals: list[dict[str, Any]], scorers: Iterable[Scorer]) -> str:
    """A definition as it is stored; of scorers with one name, the first by version is told."""
    origins = sorted((each.name, each.origin.version, each.origin.config) for each in scorers)
    told = {name: {"version": version, "config": config} for name, version, config in origins[::-1]}
    document = {"metadata": {"name": name}, "evals": evals, "scorers": told}
    return json.dumps(make_json_safe(document), ensure_ascii=False)


def _describe_test(test: Test) -> dict[str, Any]:
    return {"name": test.name, "prompt": test.input, "metadata": test.metadata}


def name_agent(agent: Agent) -> str:
    """As `-m` would take it: `python/module:function`."""
    named: Any = agent if hasattr(agent, "__qualname__") else type(agent)
    # A module that was loaded from a file has the file in its name; some callables have none.
    module = (named.__module__ or "builtins").partition(" ")[0]
    return f"python/{module}:{named.__qualname__}"

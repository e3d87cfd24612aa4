"""Stored form of a Python suite: its tests, scorers and agent as data."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.errors import FormulaError
from tallymark.formula import RUN_METRICS, Formula, Names
from tallymark.runs.tally import derive_scorer_names, name_metrics
from tallymark.scoring.score import make_json_safe

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tallymark.scoring import Scorer
    from tallymark.suites.python_suites.suite_and_test import Agent, Suite

DEFAULT_FORMULA = "success_pct"
_DEEPEST = 20
_encode = msgspec.json.encode


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
    """The suite as JSON, in the stored form of YAML suites."""
    return write_definition(
        suite.name,
        (
            {"name": each.name, "prompt": each.input, "metadata": each.metadata}
            for each in suite.tests
        ),
        {judge for test in suite.tests for judge in suite.scorers_of(test)},
    )


def write_definition(name: str, evals: Iterable[dict[str, Any]], scorers: Iterable[Scorer]) -> str:
    """A stored definition; of scorers with the same name, the first version."""
    origins = sorted((each.name, each.origin.version, each.origin.config) for each in scorers)
    told = {name: {"version": version, "config": config} for name, version, config in origins[::-1]}
    # One by one: of a hundred thousand tests, plain copies would take much more than their text.
    texts = ", ".join(map(_write, evals))
    return (
        f'{{"metadata": {_write({"name": name})}, "evals": [{texts}], "scorers": {_write(told)}}}'
    )


def _write(value: Any) -> str:
    """JSON text; what JSON does not know becomes text."""
    if _is_plain(value):
        with suppress(UnicodeEncodeError, ValueError):  # half a character, a number of no size
            return _encode(value).decode()
    return _encode(make_json_safe(value)).decode()


def _is_plain(value: Any, depth: int = 0) -> bool:
    """True for JSON's own types, not very deep, which need no copy."""
    kind = type(value)
    if kind is dict and depth < _DEEPEST:
        return all(type(key) is str and _is_plain(value[key], depth + 1) for key in value)
    if kind is list and depth < _DEEPEST:
        return all(_is_plain(item, depth + 1) for item in value)
    return kind is str or kind is int or kind is float or kind is bool or value is None


def name_agent(agent: Agent) -> str:
    """The agent as an argument of `-m`: `python/module:function`."""
    named: Any = agent if hasattr(agent, "__qualname__") else type(agent)
    # A module that was loaded from a file has the file in its name; some callables have none.
    module = (named.__module__ or "builtins").partition(" ")[0]
    return f"python/{module}:{named.__qualname__}"

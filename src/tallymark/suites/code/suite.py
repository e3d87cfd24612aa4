"""`Suite`: tests that belong together, and the scorers that they name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import Any, TypeAlias

from tallymark.errors import InvalidInput, ScorerError, suggest
from tallymark.scoring import Scorer, default_registry, load_scorer
from tallymark.scoring.reference import ScorerReference
from tallymark.scoring.score import show_value
from tallymark.suites.code.test import (
    Test,
    require_count,
    require_name,
    require_threshold,
    require_timeout,
)

Agent: TypeAlias = Callable[[Any], Any]
"""What is tested: a sync or async function of a test's input."""
DEFAULT_THRESHOLD = 0.7
DEFAULT_TIMEOUT = 600.0
"""Seconds when nobody says otherwise: a run that never ends helps no one."""


class Suite:
    """Tests by unique name; every scorer that they name is found when the suite is made."""

    __slots__ = (
        "_judges",
        "agent",
        "epochs",
        "name",
        "parallelism",
        "scorers",
        "tests",
        "threshold",
        "timeout",
    )

    def __init__(  # noqa: PLR0913 (the facts about a suite, all but the first two by keyword)
        self,
        name: str,
        tests: Iterable[Test],
        *,
        scorers: Mapping[str, Scorer | str] | None = None,
        threshold: float | None = None,
        timeout: float | None = None,
        parallelism: int | None = None,
        epochs: int = 1,
        agent: Agent | None = None,
    ) -> None:
        """`scorers` are scorers, or references such as `"contains(values=['refund'])"`."""
        self.name = require_name("a suite", name)
        where = f"suite {name!r}"
        self.tests = tuple(tests)
        self.scorers = {
            key: _load_named(key, given, where) for key, given in (scorers or {}).items()
        }
        own = require_threshold(where, threshold)
        self.threshold = DEFAULT_THRESHOLD if own is None else own
        self.timeout = require_timeout(where, timeout)
        self.parallelism = require_count(where, "parallelism", parallelism)
        self.epochs = require_count(where, "epochs", epochs) or 1
        self.agent = agent
        _check_tests(self.tests, where)
        everything = tuple(self.scorers.values())
        loaded = dict(self.scorers)
        self._judges = {
            test.name: _load_judges(test, loaded, where) if test.scorers else everything
            for test in self.tests
        }
        if not everything:
            _check_all_judged(self.tests)

    def scorers_of(self, test: Test) -> tuple[Scorer, ...]:
        """The scorers that judge one of the suite's tests."""
        return self._judges[test.name]

    @property
    def scorer_names(self) -> list[str]:
        """The names of all scorers that judge some test."""
        judges = (self._judges[test.name] for test in self.tests)
        return list(dict.fromkeys(judge.name for each in judges for judge in each))

    def only(self, tests: Iterable[Test]) -> Suite:
        """The same suite with some of its tests."""
        chosen = copy(self)
        chosen.tests = tuple(tests)
        _check_tests(chosen.tests, f"suite {self.name!r}")
        return chosen

    def with_agent(self, agent: Agent | None) -> Suite:
        """The same suite for another agent."""
        other = copy(self)
        other.agent = agent
        return other

    def __repr__(self) -> str:
        return f"Suite({self.name!r}, {len(self.tests)} tests)"


def _load_named(key: str, given: Scorer | str, where: str) -> Scorer:
    made = _load_once(given, where, {}) if isinstance(given, str) else _require_scorer(given, where)
    return made if made.name == key else made.replace(name=key)


def _load_judges(test: Test, loaded: dict[str, Scorer], where: str) -> tuple[Scorer, ...]:
    """The scorers that a test names or brings; `loaded` has those that are known by now."""
    where = f"{where}, test {test.name!r}"
    judges = tuple(
        _load_once(each, where, loaded) if isinstance(each, str) else _require_scorer(each, where)
        for each in test.scorers
    )
    if len({judge.name for judge in judges}) < len(judges):
        twice = Counter(judge.name for judge in judges).most_common(1)[0][0]
        raise InvalidInput(
            f"{where}: more than one scorer is named {twice!r}",
            hint='give one another name with `.replace(name="...")`',
        )
    return judges


def _load_once(reference: str, where: str, loaded: dict[str, Scorer]) -> Scorer:
    """The suite's scorer of that name, or the one that the registry finds."""
    if reference in loaded:
        return loaded[reference]
    try:
        parsed = ScorerReference.parse(reference)
        known = [*loaded, *default_registry.names()]
        if parsed.home is None and parsed.name not in known:
            near = suggest(parsed.name, known)
            hint = f"did you mean {near!r}?" if near else "name one of the suite or of the registry"
            raise ScorerError(f"there is no scorer {parsed.name!r}", hint=hint)  # noqa: TRY301
        loaded[reference] = load_scorer(reference)
    except ScorerError as error:
        problem = error.problems[0]
        raise ScorerError(f"{where}: {problem.message}", hint=problem.hint) from None
    return loaded[reference]


def _require_scorer(given: object, where: str) -> Scorer:
    if isinstance(given, Scorer):
        return given
    raise ScorerError(f"{where}: {show_value(given)} is not a scorer", hint="put @scorer above it")


def _check_tests(tests: tuple[Test, ...], where: str) -> None:
    for test in tests:
        if not isinstance(test, Test):
            raise InvalidInput(f"{where}: {show_value(test)} is not a Test")
    if not tests:
        raise InvalidInput(f"{where} has no tests")
    if len({test.name for test in tests}) < len(tests):
        twice = Counter(test.name for test in tests).most_common(1)[0][0]
        raise InvalidInput(f"{where}: more than one test is named {twice!r}")


def _check_all_judged(tests: tuple[Test, ...]) -> None:
    bare = next((test for test in tests if not test.scorers), None)
    if bare is not None:
        hint = "give it `scorer=`, or give the suite `scorers=`"
        raise InvalidInput(f"test {bare.name!r} has no scorer", hint=hint)

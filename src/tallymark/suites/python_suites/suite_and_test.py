"""`Test`: an input and its expectations. `Suite`: tests and the scorers they name."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import Any, ClassVar, TypeAlias

from tallymark.errors import InvalidInput, ScorerError, suggest
from tallymark.runs.case_verdict import DEFAULT_THRESHOLD
from tallymark.scoring import Expected, Scorer, default_registry, load_scorer
from tallymark.scoring.score import show_value
from tallymark.scoring.scorer_registry import ScorerReference

Agent: TypeAlias = Callable[[Any], Any]
"""The tested agent: a sync or async function of a test's input."""
DEFAULT_TIMEOUT = 600.0
"""Default time limit in seconds: a run must end."""


class Test:
    """One entry of a suite. Without scorers of its own, all of the suite's scorers judge it."""

    __test__: ClassVar[bool] = False  # pytest: this is not one of your tests
    __slots__ = ("expected", "input", "metadata", "name", "scorers", "tags", "threshold", "timeout")

    def __init__(  # noqa: PLR0913 (the facts about a test, all but the first two by keyword)
        self,
        name: str,
        input: Any = None,  # noqa: A002 (the document's word)
        *,
        expected: Any = None,
        metadata: Mapping[str, Any] | None = None,
        scorer: Scorer | str | None = None,
        scorers: Iterable[Scorer | str] = (),
        threshold: float | None = None,
        timeout: float | None = None,
        tags: Iterable[str] = (),
    ) -> None:
        """`input` is any value; `timeout` is in seconds, for the agent and for each scorer.

        `expected` is a mapping with `output`, `output_contains`, `tool_calls` and keys of your own;
        any other value, such as `"Paris"`, is the expected output.
        """
        self.name = require_name("a test", name)
        where = f"test {name!r}"
        self.input = input
        self.expected = Expected.read(expected, f"{where}: expected")
        if metadata is not None and not isinstance(metadata, Mapping):
            raise InvalidInput(f"{where}: metadata must be a mapping, not {show_value(metadata)}")
        self.metadata = dict(metadata or {})
        more: Any = (scorers,) if isinstance(scorers, str | Scorer) else scorers
        if not isinstance(more, Iterable):
            message = f"{where}: scorers must be a list of scorers, not {show_value(more)}"
            raise InvalidInput(message)
        self.scorers = (*(() if scorer is None else (scorer,)), *more)
        self.threshold = require_threshold(where, threshold)
        self.timeout = require_timeout(where, timeout)
        self.tags = (tags,) if isinstance(tags, str) else tuple(tags)
        """For choosing tests, as `tally score --tag` does."""

    def __repr__(self) -> str:
        return f"Test({self.name!r})"


def require_name(what: str, name: object) -> str:
    """A name that fits on one line of a report."""
    if isinstance(name, str) and name.strip() and name.isprintable():
        return name
    raise InvalidInput(f"{show_value(name)} cannot name {what}; write one line of text")


def require_threshold(where: str, value: float | None) -> float | None:
    """A value from 0 to 1, or None where none was set."""
    if value is None or (_is_number(value) and 0 <= value <= 1):
        return None if value is None else float(value)
    raise InvalidInput(
        f"{where}: threshold is {show_value(value)}; it must be a number from 0 to 1"
    )


def require_timeout(where: str, value: float | None) -> float | None:
    """Seconds above 0 (infinity for no limit), or None where none was set."""
    if value is None or (_is_number(value) and value > 0):
        return None if value is None else float(value)
    raise InvalidInput(f"{where}: timeout is {show_value(value)}; it must be seconds above 0")


def require_count(where: str, key: str, value: Any) -> int | None:
    """A whole number above 0, or None where none was set."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value > 0):
        return value
    raise InvalidInput(f"{where}: {key} is {show_value(value)}; it must be a whole number above 0")


def require_formula(where: str, value: object) -> str | None:
    """A text, or None where none was set."""
    if value is None or isinstance(value, str):
        return value
    raise InvalidInput(f"{where}: formula is {show_value(value)}; it must be a text")


def pick_first(*values: float | None) -> float:
    """The first of the values that was set; the last one always is."""
    return next(value for value in values if value is not None)


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return not math.isnan(value)


class Suite:
    """Tests by unique name; every scorer that they name is found when the suite is made."""

    __slots__ = (
        "_judges",
        "_whole",
        "agent",
        "chosen_by",
        "epochs",
        "formula",
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
        scorers: Mapping[str, Scorer | str] | Iterable[Scorer | str] | None = None,
        threshold: float | None = None,
        timeout: float | None = None,
        parallelism: int | None = None,
        epochs: int = 1,
        agent: Agent | None = None,
        formula: str | None = None,
    ) -> None:
        """`scorers` are scorers, or references such as `"contains(values=['refund'])"`: a mapping
        by the names that they get, or a list.

        `formula` makes one score of a run; without it, that is the percentage that passed.
        """
        self.name = require_name("a suite", name)
        where = f"suite {name!r}"
        self.tests = _list_tests(tests, where)
        self.scorers = {
            key: _load_named(key, given, where)
            for key, given in _name_scorers(scorers, where).items()
        }
        own = require_threshold(where, threshold)
        self.threshold = DEFAULT_THRESHOLD if own is None else own
        self.timeout = require_timeout(where, timeout)
        self.parallelism = require_count(where, "parallelism", parallelism)
        self.epochs = require_count(where, "epochs", epochs) or 1
        self.agent = _require_function(agent, where)
        self.formula = require_formula(where, formula)
        self._whole: Suite | None = None
        self.chosen_by = ""
        """The selection of its tests, if it is a part of the suite."""
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
        given: Any = test
        judges = self._judges.get(given.name) if isinstance(given, Test) else None
        if judges is None:
            raise InvalidInput(f"suite {self.name!r} has no test {show_value(test)}")
        return judges

    @property
    def scorer_names(self) -> list[str]:
        """The names of all scores that some test gets."""
        judges = (self._judges[test.name] for test in self.tests)
        return list(
            dict.fromkeys(name for each in judges for judge in each for name in judge.score_names)
        )

    @property
    def whole(self) -> Suite:
        """The suite with all its tests."""
        return self if self._whole is None else self._whole

    def only(self, tests: Iterable[Test], *, by: str = "") -> Suite:
        """The suite with some of its tests; runs record the selection in `by`."""
        chosen = copy(self)
        chosen._whole = self.whole  # noqa: SLF001 (a copy of this very suite)
        chosen.chosen_by = f"{self.chosen_by} {by}".strip()
        chosen.tests = _list_tests(tests, f"suite {self.name!r}")
        return chosen

    def with_agent(self, agent: Agent | None) -> Suite:
        """The suite for another agent."""
        other = copy(self)
        other.agent = _require_function(agent, f"suite {self.name!r}")
        return other

    def __repr__(self) -> str:
        return f"Suite({self.name!r}, {len(self.tests)} tests)"


def _name_scorers(given: object, where: str) -> Mapping[str, Scorer | str]:
    """The scorers by name; those of a list have their own."""
    if given is None or isinstance(given, Mapping):
        return given or {}
    if isinstance(given, str | Scorer):
        given = (given,)
    if not isinstance(given, Iterable):
        message = f"{where}: scorers must be a mapping or a list, not {show_value(given)}"
        raise InvalidInput(message)
    found: dict[str, Scorer | str] = {}
    for each in given:
        made = _load_scorer(each, where, {})
        if made.name in found:
            raise _make_twice_error(where, made.name)
        found[made.name] = made
    return found


def _make_twice_error(where: str, name: str) -> InvalidInput:
    return InvalidInput(
        f"{where}: more than one scorer is named {name!r}",
        hint='give one another name with `.replace(name="...")`',
    )


def _load_named(key: str, given: Scorer | str, where: str) -> Scorer:
    made = _load_scorer(given, where, {})
    return made if made.name == key else made.replace(name=key)


def _load_judges(test: Test, loaded: dict[str, Scorer], where: str) -> tuple[Scorer, ...]:
    """The scorers that a test names or brings; `loaded` has those that are known by now."""
    where = f"{where}, test {test.name!r}"
    judges = tuple(_load_scorer(each, where, loaded) for each in test.scorers)
    if len({judge.name for judge in judges}) < len(judges):
        twice = Counter(judge.name for judge in judges).most_common(1)[0][0]
        raise _make_twice_error(where, twice)
    return judges


def _load_scorer(given: object, where: str, loaded: dict[str, Scorer]) -> Scorer:
    if isinstance(given, str):
        return _load_once(given, where, loaded)
    return require_scorer(given, where)


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


def require_scorer(given: object, where: str) -> Scorer:
    if isinstance(given, Scorer):
        return given
    raise ScorerError(f"{where}: {show_value(given)} is not a scorer", hint="put @scorer above it")


def _require_function(agent: Agent | None, where: str) -> Agent | None:
    if agent is None or callable(agent):
        return agent
    raise InvalidInput(f"{where}: agent must be a function, not {show_value(agent)}")


def _list_tests(given: object, where: str) -> tuple[Test, ...]:
    given = (given,) if isinstance(given, Test) else given
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise InvalidInput(f"{where}: tests must be a list of Tests, not {show_value(given)}")
    tests = tuple(given)
    for test in tests:
        if not isinstance(test, Test):
            raise InvalidInput(f"{where}: {show_value(test)} is not a Test")
    if not tests:
        raise InvalidInput(f"{where} has no tests")
    if len({test.name for test in tests}) < len(tests):
        twice = Counter(test.name for test in tests).most_common(1)[0][0]
        raise InvalidInput(f"{where}: more than one test is named {twice!r}")
    return tests


def _check_all_judged(tests: tuple[Test, ...]) -> None:
    bare = next((test for test in tests if not test.scorers), None)
    if bare is not None:
        hint = "give it `scorer=`, or give the suite `scorers=`"
        raise InvalidInput(f"test {bare.name!r} has no scorer", hint=hint)

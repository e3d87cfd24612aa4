"""`Test`: what an agent is asked, what is expected of it, and which scorers judge it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from tallymark.errors import InvalidInput
from tallymark.scoring import Expected, Scorer
from tallymark.scoring.score import show_value


class Test:
    """One entry of a suite. Without scorers of its own, all of the suite's scorers judge it."""

    __test__: ClassVar[bool] = False  # pytest: this is not one of your tests
    __slots__ = ("expected", "input", "metadata", "name", "scorers", "threshold", "timeout")

    def __init__(  # noqa: PLR0913 (the facts about a test, all but the first two by keyword)
        self,
        name: str,
        input: Any = None,  # noqa: A002 (the document's word)
        *,
        expected: Expected | Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        scorer: Scorer | str | None = None,
        scorers: Iterable[Scorer | str] = (),
        threshold: float | None = None,
        timeout: float | None = None,
    ) -> None:
        """`input` is any value; `timeout` is in seconds, for the agent and for each scorer."""
        self.name = require_name("a test", name)
        where = f"test {name!r}"
        self.input = input
        self.expected = (
            expected
            if isinstance(expected, Expected)
            else Expected.from_dict(expected, f"{where}: expected")
        )
        if metadata is not None and not isinstance(metadata, Mapping):
            raise InvalidInput(f"{where}: metadata must be a mapping, not {show_value(metadata)}")
        self.metadata = dict(metadata or {})
        if isinstance(scorers, str | Scorer):
            scorers = (scorers,)
        self.scorers = (*(() if scorer is None else (scorer,)), *scorers)
        self.threshold = require_threshold(where, threshold)
        self.timeout = require_timeout(where, timeout)

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


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return not math.isnan(value)

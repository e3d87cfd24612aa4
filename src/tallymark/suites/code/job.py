"""A run's work: its cases by number, and their results as they come."""

from __future__ import annotations

import inspect
from threading import Lock
from typing import TYPE_CHECKING

from tallymark.errors import InvalidInput
from tallymark.scoring.score import show_value
from tallymark.suites.code.capture import open_capture
from tallymark.suites.code.case import AgentCall
from tallymark.suites.code.plan import plan_tests
from tallymark.suites.code.report import Report, summarise_scorers
from tallymark.suites.code.test import require_count, require_threshold, require_timeout

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context

    from tallymark.scoring import Origin
    from tallymark.suites.code.report import TestResult
    from tallymark.suites.code.suite import Agent, Suite

CALLS_AT_ONCE = 10
"""Calls of the agent at the same time when nobody says otherwise."""


class SuiteJob:
    """All cases of one run: every test of the suite, once an epoch."""

    def __init__(  # noqa: PLR0913 (what a caller may set for one run)
        self,
        suite: Suite,
        agent: Agent | None,
        *,
        threshold: float | None,
        parallelism: int | None,
        epochs: int | None,
        timeout: float | None,
        on_result: Callable[[TestResult], object] | None,
    ) -> None:
        where = f"run of {suite.name!r}"
        self.agent = _require_agent(suite, agent)
        self._suite = suite
        self._on_result = on_result
        self._plans = list(
            plan_tests(suite, require_threshold(where, threshold), require_timeout(where, timeout))
        )
        self._epochs = require_count(where, "epochs", epochs) or suite.epochs
        self.total = len(self._plans) * self._epochs
        self.parallelism = (
            require_count(where, "parallelism", parallelism) or suite.parallelism or CALLS_AT_ONCE
        )
        self.shortest = min(plan.seconds for plan in self._plans)
        """The shortest time limit of any case."""
        self._capture = open_capture()
        self._results: dict[int, TestResult] = {}
        self._result_lock = Lock()

    def case(self, number: int, context: Context) -> AgentCall:
        """The case of that number, ready to start."""
        test, epoch = divmod(number, self._epochs)
        return AgentCall(number, self._plans[test], epoch + 1, context, self._capture)

    def tell(self, number: int, result: TestResult) -> None:
        """Note the result of a case; `on_result` is called with one at a time."""
        if self._on_result is not None:
            with self._result_lock:
                self._on_result(result)
        # After the call: a run is not complete before its last result was told.
        self._results[number] = result

    @property
    def complete(self) -> bool:
        """True when every case has its result."""
        return len(self._results) == self.total

    def report(self, duration_ms: float) -> Report:
        """The results that have come by now, in the order of the tests."""
        # A copy, since after Ctrl-C a worker may still be telling its result.
        results = [result for _, result in sorted(self._results.copy().items())]
        return Report(
            self._suite.name,
            results,
            summarise_scorers(results, self._find_origins()),
            duration_ms,
            planned=self.total,
        )

    def _find_origins(self) -> dict[str, Origin | None]:
        """Where the scores of each name come from, if from one scorer."""
        found: dict[str, Origin | None] = {}
        for scorer in {scorer: None for plan in self._plans for scorer in plan.scorers}:
            same = scorer.name not in found or found[scorer.name] == scorer.origin
            found[scorer.name] = scorer.origin if same else None
        return found


def _require_agent(suite: Suite, given: Agent | None) -> Agent:
    agent = suite.agent if given is None else given
    if agent is None:
        hint = "write run(suite, agent=...) or Suite(..., agent=...)"
        raise InvalidInput(f"suite {suite.name!r} has no agent to run", hint=hint)
    if not callable(agent):
        raise InvalidInput(
            f"the agent must be a function of the test's input, not {show_value(agent)}"
        )
    try:
        inspect.signature(agent).bind(None)
    except ValueError:
        pass  # a compiled function without a signature
    except TypeError:
        raise InvalidInput("the agent must take exactly one argument, the test's input") from None
    return agent

"""What is settled before a run starts: for each test its scorers, thresholds and time limit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import msgspec

from tallymark.scoring import Config, Scorer
from tallymark.scoring.running import evaluate_all
from tallymark.suites.code.suite import DEFAULT_TIMEOUT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallymark.scoring import EvalContext, Score
    from tallymark.suites.code.suite import Suite
    from tallymark.suites.code.test import Test


class TestPlan(msgspec.Struct, frozen=True, gc=False):
    """One test with all that its runs share."""

    test: Test
    path: str
    """The suite's and the test's name, for the ids of traces."""
    scorers: tuple[Scorer, ...]
    inline: bool
    """True when no scorer waits: then they need no event loop."""
    thresholds: dict[str, float]
    config: Config
    seconds: float
    """The time limit, infinity for none."""

    def scores(self, ctx: EvalContext) -> list[Score]:
        """The scores of all scorers, when none of them waits."""
        return [scorer.score(ctx) for scorer in self.scorers]

    async def wait_for_scores(self, ctx: EvalContext) -> list[Score]:
        """The scores of all scorers, those that wait at the same time."""
        return await evaluate_all(self.scorers, ctx, timeout=self.config.timeout)


def plan_tests(suite: Suite, threshold: float | None, timeout: float | None) -> Iterator[TestPlan]:
    """A plan for each test. What the caller sets counts most, then test, scorer, suite."""
    shared: dict[tuple[object, ...], tuple[bool, dict[str, float], Config]] = {}
    for test in suite.tests:
        scorers = suite.scorers_of(test)
        own = test.threshold if threshold is None else threshold
        seconds = timeout or test.timeout or suite.timeout or DEFAULT_TIMEOUT
        # By identity, which is quick: the suite keeps its tuples, and most tests share one.
        key = (id(scorers), own, seconds)
        if key not in shared:
            shared[key] = (
                all(each.inline for each in scorers),
                {each.name: _pick_first(own, each.threshold, suite.threshold) for each in scorers},
                Config(
                    timeout=None if math.isinf(seconds) else seconds,
                    threshold=_pick_first(own, suite.threshold),
                ),
            )
        yield TestPlan(test, f"{suite.name}/{test.name}", scorers, *shared[key], seconds)


def _pick_first(*values: float | None) -> float:
    return next(value for value in values if value is not None)

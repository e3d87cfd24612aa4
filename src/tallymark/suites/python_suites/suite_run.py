"""`run`: a suite against an agent.

A `TestPlan` is what is settled for a test before the run starts. A `SuiteJob` has the cases of the
run by number, and their results as they come. A pool of workers takes the cases from it.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.errors import InvalidInput
from tallymark.event_loops import run_to_end
from tallymark.judging.judge_model import load_judges
from tallymark.runs.ongoing_run import MOST_HELD, OngoingRun, make_id, open_keeper
from tallymark.runs.record import RunRecord
from tallymark.runs.run import Run
from tallymark.runs.tally import Tally
from tallymark.scoring import Config, Scorer
from tallymark.scoring.score import show_value
from tallymark.suites.chosen_cases import describe_part
from tallymark.suites.python_suites.agent_call import AgentCall, write_input
from tallymark.suites.python_suites.span_capture import open_capture
from tallymark.suites.python_suites.suite_and_test import (
    DEFAULT_TIMEOUT,
    Suite,
    Test,
    pick_first,
    require_count,
    require_formula,
    require_threshold,
    require_timeout,
)
from tallymark.suites.python_suites.suite_document import (
    describe_suite,
    name_agent,
    parse_formula,
)
from tallymark.suites.python_suites.worker_pool import CasePool

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextvars import Context
    from pathlib import Path

    from tallymark.formula import Formula
    from tallymark.runs.ongoing_run import RunKeeper
    from tallymark.runs.record import CaseResult
    from tallymark.suites.python_suites.suite_and_test import Agent

CALLS_AT_ONCE = 10
"""Default number of concurrent calls of the agent."""


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
    asked: str
    """The input as text."""
    is_data: bool
    """True if the text is the JSON of the input."""


class TestPlanner:
    """Makes plans. What the caller sets counts most, then test, scorer, suite."""

    def __init__(self, suite: Suite, threshold: float | None, timeout: float | None) -> None:
        self._suite = suite
        self._threshold = threshold
        self._timeout = timeout
        self._shared: dict[tuple[object, ...], tuple[bool, dict[str, float], Config]] = {}

    def find_seconds(self, test: Test) -> float:
        """The time limit of a test."""
        return self._timeout or test.timeout or self._suite.timeout or DEFAULT_TIMEOUT

    def plan(self, test: Test) -> TestPlan:
        """The plan of a test, made on demand: plans of all tests would need much memory."""
        suite = self._suite
        scorers = suite.scorers_of(test)
        own = test.threshold if self._threshold is None else self._threshold
        seconds = self.find_seconds(test)
        # By identity, which is fast: the suite holds its tuples, and most tests share one.
        key = (id(scorers), own, seconds)
        shared = self._shared.get(key)
        if shared is None:
            shared = self._shared[key] = (
                all(each.inline for each in scorers),
                {each.name: pick_first(own, each.threshold, suite.threshold) for each in scorers},
                Config(
                    timeout=None if math.isinf(seconds) else seconds,
                    threshold=pick_first(own, suite.threshold),
                ),
            )
        path = f"{suite.name}/{test.name}"
        return TestPlan(test, path, scorers, *shared, seconds, *write_input(test.input))


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
        formula: str | None,
        keeper: RunKeeper | None,
        on_result: Callable[[CaseResult], object] | None,
    ) -> None:
        where = f"run of {suite.name!r}"
        told: Any = on_result
        if told is not None and not callable(told):
            raise InvalidInput(f"{where}: on_result must be a function, not {show_value(told)}")
        self.agent = _require_agent(suite, agent)
        self._on_result = on_result
        self._tests = suite.tests
        self._planner = TestPlanner(
            suite, require_threshold(where, threshold), require_timeout(where, timeout)
        )
        self._epochs = require_count(where, "epochs", epochs) or suite.epochs
        self.total = len(self._tests) * self._epochs
        self.parallelism = (
            require_count(where, "parallelism", parallelism) or suite.parallelism or CALLS_AT_ONCE
        )
        self.shortest = min(map(self._planner.find_seconds, self._tests))
        """The shortest time limit of any case."""
        self._capture = open_capture()
        self._results: dict[int, CaseResult] | None = {}
        """Results by number; None if there are many: they are read from the store, which connects
        again where it was opened for the run.
        """
        self._keeper = keeper
        self._told = bytearray(self.total)
        """1 for each number whose result was reported."""
        self._left = self.total
        self._result_lock = Lock()
        parsed = parse_formula(require_formula(where, formula) or suite.formula, suite)
        record = self._make_record(suite, parsed, definition=keeper is not None)
        self.ongoing = OngoingRun(record, parsed, keeper=keeper, tally=Tally())
        if keeper is not None:
            keeper.create_run(record)

    def _make_record(self, suite: Suite, formula: Formula, *, definition: bool) -> RunRecord:
        now = time.time()
        told = describe_suite(suite.whole) if definition else ""
        return RunRecord(
            id=make_id("r"),
            suite=suite.name,
            model=name_agent(self.agent),
            status="running",
            definition=told,
            definition_hash=hashlib.sha256(told.encode()).hexdigest() if told else "",
            epochs=self._epochs,
            created_at=now,
            started_at=now,
            score_formula=formula.text,
            total=self.total,
            tags={"door": "Python", **_describe_part(suite, formula)},
        )

    def case(self, number: int, context: Context) -> AgentCall:
        """The case of that number, ready to start."""
        test, epoch = divmod(number, self._epochs)
        return AgentCall(
            number, self._planner.plan(self._tests[test]), epoch, context, self._capture
        )

    def tell(self, number: int, result: CaseResult) -> None:
        """Note the result of a case, one at a time."""
        with self._result_lock:
            self.ongoing.add(result)
            if self._on_result is not None:
                self._on_result(result)
            # After the calls: a run is not complete before its last result was reported.
            self._told[number] = 1
            self._left -= 1
            if self._results is not None:
                self._results[number] = result
                if len(self._results) > MOST_HELD and self._keeper is not None:
                    self._results = None

    def arrange(self) -> None:
        """Put what was counted in the order of the tests, not of the answers."""
        with self._result_lock:
            self.ongoing.tally.arrange(test.name for test in self._tests)

    @property
    def complete(self) -> bool:
        """True when every case has its result."""
        return self._left == 0

    @property
    def run(self) -> Run:
        """The results that have come by now, in the order of the tests."""
        # Copies, since after Ctrl-C a worker may still be telling its result.
        results, told = self._results, bytes(self._told)
        if results is not None or self._keeper is None:
            return self.ongoing.make_run(
                [each for _, each in sorted((results or {}).copy().items())]
            )
        numbers = (number for number, known in enumerate(told) if known)
        keys = ((self._tests[at // self._epochs].name, at % self._epochs) for at in numbers)
        return self.ongoing.make_run(self._keeper.open_results(self.ongoing.record, keys))


def _describe_part(suite: Suite, formula: Formula) -> dict[str, object]:
    if not suite.chosen_by or suite.tests == suite.whole.tests:
        return {}
    names, everything = ([test.name for test in each.tests] for each in (suite, suite.whole))
    idle = set(suite.whole.scorer_names) - set(suite.scorer_names)
    return {"chosen": describe_part(suite.chosen_by, names, everything, formula, idle)}


def make_suite(given: object) -> Suite:
    """A suite as it is; of a test, or of some, the suite that has just these."""
    if isinstance(given, Suite):
        return given
    if isinstance(given, Test):
        return Suite(given.name, [given])
    if isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping):
        return Suite("tests", given)
    hint = "write run(Suite(...), agent), run(Test(...), agent) or run([Test(...), ...], agent)"
    raise InvalidInput(f"{show_value(given)} is neither a Suite nor Tests", hint=hint)


def _require_agent(suite: Suite, given: Agent | None) -> Agent:
    agent = suite.agent if given is None else given
    if agent is None:
        hint = "write run(suite, agent=...) or Suite(..., agent=...), or tally score --function REF"
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


def run(  # noqa: PLR0913 (what a caller may set for one run, by keyword)
    suite: Suite | Test | Iterable[Test],
    agent: Agent | None = None,
    *,
    threshold: float | None = None,
    parallelism: int | None = None,
    epochs: int | None = None,
    timeout: float | None = None,
    formula: str | None = None,
    store: RunKeeper | str | Path | None = None,
    on_result: Callable[[CaseResult], object] | None = None,
) -> Run:
    """Call the agent with every test's input, score the traces, and return the run.

    `suite` may also be a test with its own scorers, or a list of such tests.

    An agent or scorer that raises, hangs or returns invalid data affects only its own test. After
    Ctrl-C the run has the results so far, and `interrupted` is true. `store` stores the run: an
    address such as `.tally/tally.db`, or an open store.
    """
    with open_keeper(store) as keeper:
        job = SuiteJob(
            make_suite(suite),
            agent,
            threshold=threshold,
            parallelism=parallelism,
            epochs=epochs,
            timeout=timeout,
            formula=formula,
            keeper=keeper,
            on_result=on_result,
        )
        with suppress(KeyboardInterrupt), job.ongoing:
            run_to_end(lambda: _run_all_cases(job))
        return job.run


async def arun(  # noqa: PLR0913 (what a caller may set for one run, by keyword)
    suite: Suite | Test | Iterable[Test],
    agent: Agent | None = None,
    *,
    threshold: float | None = None,
    parallelism: int | None = None,
    epochs: int | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 (the limit is each test's own)
    formula: str | None = None,
    store: RunKeeper | str | Path | None = None,
    on_result: Callable[[CaseResult], object] | None = None,
) -> Run:
    """`run` for async code: the agent is called in the loop that is running."""
    with open_keeper(store) as keeper:
        job = SuiteJob(
            make_suite(suite),
            agent,
            threshold=threshold,
            parallelism=parallelism,
            epochs=epochs,
            timeout=timeout,
            formula=formula,
            keeper=keeper,
            on_result=on_result,
        )
        with job.ongoing:
            await _run_all_cases(job)
        return job.run


async def _run_all_cases(job: SuiteJob) -> None:
    load_judges()  # while an agent is measured, it is too late
    try:
        await CasePool(job).run()
    finally:
        job.arrange()
    job.ongoing.ending = "finished"

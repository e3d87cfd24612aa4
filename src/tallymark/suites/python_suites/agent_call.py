"""One call of the agent, from its input to its result."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tallymark.errors import InvalidInput
from tallymark.runs.case_verdict import judge_trace, make_result
from tallymark.scoring import EvalContext
from tallymark.scoring.eval_context import copy_plain
from tallymark.scoring.score import show_value
from tallymark.scoring.scorer import describe_raised
from tallymark.scoring.scorer_calls import evaluate_all
from tallymark.suites.python_suites.answer_trace import (
    CallFacts,
    make_failed_trace,
    make_plain,
    to_trace,
)
from tallymark.suites.python_suites.span_capture import CURRENT_CATCH, CaughtSpans
from tallymark.traces.lenient_json import compact

if TYPE_CHECKING:
    from contextvars import Context

    from tallymark.runs.record import CaseResult
    from tallymark.scoring import Score
    from tallymark.suites.python_suites.span_capture import SpanCapture
    from tallymark.suites.python_suites.suite_run import TestPlan
    from tallymark.traces import Trace


class AgentFailure:
    """Stands for the return of an agent that raised."""

    __slots__ = ("text",)

    def __init__(self, error: BaseException) -> None:
        self.text = describe_raised("the agent", error)


class AgentCall(CaughtSpans):
    """A test in one epoch, on its way through the agent and the scorers."""

    __slots__ = ("_began", "_capture", "context", "epoch", "given", "number", "plan")

    def __init__(
        self, number: int, plan: TestPlan, epoch: int, context: Context, capture: SpanCapture | None
    ) -> None:
        super().__init__()
        self.number = number
        self.plan = plan
        self.epoch = epoch
        self.context = context
        """The context variables that the agent sees; what it sets there stays there."""
        self.given = copy_plain(plan.test.input)
        """The agent may change what it is given; the next epoch gets its own."""
        self._capture = capture
        if capture is not None:
            context.run(CURRENT_CATCH.set, self)
        self._began = time.perf_counter()

    def read_return(self, returned: object) -> EvalContext | CaseResult:
        """Context for the scorers, or a result if the agent's return is unusable."""
        plan = self.plan
        if isinstance(returned, AgentFailure):
            return self.fail(returned.text)
        try:
            trace = to_trace(returned, self._describe_call(), self._close_capture())
        except InvalidInput as error:
            return self.fail(str(error))
        except Exception as error:  # noqa: BLE001 (a user's class may raise when it is looked at)
            kind = type(error).__name__
            return self.fail(f"the agent returned a value that raises {kind} when read")
        return EvalContext(trace, plan.test.expected, plan.test.metadata, plan.config)

    def score(self, ctx: EvalContext) -> CaseResult:
        """The result of a test none of whose scorers waits."""
        return self._judge(ctx.trace, [scorer.score(ctx) for scorer in self.plan.scorers])

    async def wait_for_scores(self, ctx: EvalContext) -> CaseResult:
        """The result of a test whose scorers wait, at the same time."""
        plan = self.plan
        scores = await evaluate_all(plan.scorers, ctx, timeout=plan.config.timeout)
        return self._judge(ctx.trace, scores)

    def _judge(self, trace: Trace, scores: list[Score]) -> CaseResult:
        plan = self.plan
        return judge_trace(plan.test.name, self.epoch, plan.thresholds, trace, scores, plan.asked)

    def fail(self, error: str) -> CaseResult:
        """The result of a test whose agent did not answer."""
        plan = self.plan
        trace = make_failed_trace(error, self._describe_call(), self._close_capture())
        return make_result(plan.test.name, self.epoch, trace, [], "error", error, plan.asked)

    def _describe_call(self) -> CallFacts:
        plan, milliseconds = self.plan, (time.perf_counter() - self._began) * 1000
        return CallFacts(
            f"{plan.path}#{self.epoch + 1}",
            plan.test.name,
            plan.asked,
            milliseconds,
            input_is_data=plan.is_data,
        )

    def _close_capture(self) -> Trace | None:
        return None if self._capture is None else self._capture.close(self)


def write_input(given: object) -> tuple[str, bool]:
    """An input as text, and whether that is the JSON of data."""
    if isinstance(given, str):
        return given, False
    plain = make_plain(given)
    is_data = plain is not None
    try:
        return "" if given is None else compact(plain if is_data else given), is_data
    except Exception:  # noqa: BLE001 (an input may be anything, and only its text is wanted)
        return show_value(given), False

"""Runs every case of a suite against a model, checks the answers, and passes on each result.

A fixed number of workers take cases from one queue; `models.retries.Pace` limits the concurrent
requests. Only counts are held here, so a run of a hundred thousand cases needs little memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from tallymark.errors import InvalidInput, ModelError, TallymarkError
from tallymark.judging.judge_model import OPEN_JUDGES, load_judges
from tallymark.models.model import Answer, Loadable, Message, Model, Request
from tallymark.models.model_answers import trace_of
from tallymark.models.retries import Pace, answer_with_retries
from tallymark.runs.case_verdict import find_error, judge_case
from tallymark.runs.record import CaseResult, CheckResult
from tallymark.runs.tally import Amounts
from tallymark.suites.resolved_suite import join_turns
from tallymark.text import add_known

if TYPE_CHECKING:
    from tallymark.runs.ongoing_run import RunEnding
    from tallymark.suites.checks.check_definition import Checks
    from tallymark.suites.resolved_suite import FilledCase, FilledSuite
    from tallymark.suites.suite_definition import Case
    from tallymark.traces import Trace

DEFAULT_THREADS = 10
_MOST_REFUSALS = 20
"""A model that refused this many cases, and answered none, will not answer the rest."""
_NOTHING_ASKED = Request(messages=())
_NO_ANSWER = Answer(output="", latency=0.0)


@dataclass(frozen=True)
class RunLimits:
    """Limits of an evaluation. None uses the suite's value."""

    epochs: int | None = None
    cases: int | None = None
    """Only the first ones."""
    threads: int | None = None
    tries: int | None = None
    timeout: float | None = None
    """Seconds for each try."""
    budget: float | None = None
    """US dollars."""
    chosen: frozenset[str] | None = None
    """Keys of the cases to run; `cases` counts the first of these."""


class CaseJob(msgspec.Struct, frozen=True, gc=False):
    """One run of a case."""

    case: Case
    epoch: int


class SuiteEvaluation:
    """One suite against one model."""

    def __init__(
        self,
        suite: FilledSuite,
        model: Model,
        limits: RunLimits,
        *,
        done: Collection[tuple[str, int]] = (),
        spent: Amounts | None = None,
        judged: float = 0.0,
    ) -> None:
        """`done` is what an interrupted run has already, `spent` and `judged` what it has cost."""
        definition = suite.definition
        self.suite, self.model, self.limits = suite, model, limits
        self.jobs = plan_cases(suite, limits)
        if done:
            self.jobs = (job for job in self.jobs if (job.case.key, job.epoch) not in done)
        threads = limits.threads or definition.threads or DEFAULT_THREADS
        self.pace = Pace(threads)
        self.workers = threads
        retries = 4 if definition.retries is None else definition.retries
        self.tries = limits.tries or retries + 1
        self.budget: _Budget | None = None
        if limits.budget is not None:
            self.budget = _Budget(limits.budget - judged, spent or Amounts())
        self.ending: RunEnding = "finished"
        self.refused = 0
        self.answered = bool(done)

    async def run(self, add: Callable[[CaseResult], Awaitable[None]]) -> RunEnding:
        """Works until all is done or the budget is spent; `add` is given every result.

        All that the model and its judges need is loaded before; the model is closed at the end.
        """
        if isinstance(self.model, Loadable):
            self.model.load()
        if OPEN_JUDGES:
            load_judges()
        workers = [asyncio.create_task(self._work(add)) for _ in range(self.workers)]
        try:
            await asyncio.gather(*workers)
        except BaseException:
            for worker in workers:
                worker.cancel()
            # Waited for, so that no request is on its way when the caller closes the model.
            await asyncio.gather(*workers, return_exceptions=True)
            raise
        finally:
            await self.model.close()
        return self.ending

    async def _work(self, add: Callable[[CaseResult], Awaitable[None]]) -> None:
        while self.ending == "finished":
            # Before a job is taken: one that is taken and not run would be lost.
            if self.budget is not None and not await self.budget.reserve():
                self.ending = "budget"
                return
            job = next(self.jobs, None)
            result = None if job is None else await self._ask(job)
            if self.budget is not None:
                self.budget.release(None if result is None else _find_spent(result))
            if result is None:
                return
            self.answered |= result.status != "error"
            await add(result)

    async def _ask(self, job: CaseJob) -> CaseResult:
        try:
            case = self.suite.case(job.case)
            result = await self._ask_turns(case, job.epoch)
        except ModelError as error:
            self._lose_hope(error)
            result = self._make_error(job, error, error.tries)
        except InvalidInput as error:  # a row that makes a check invalid
            result = self._make_error(job, error)
        safe: CaseResult = self.suite.redact(result)
        return safe

    def _lose_hope(self, error: ModelError) -> None:
        self.refused += not error.retryable
        if self.refused >= _MOST_REFUSALS and not self.answered:
            self.ending = "hopeless"

    def _make_error(self, job: CaseJob, error: TallymarkError, tries: int = 1) -> CaseResult:
        return CaseResult(
            case=job.case.key,
            epoch=job.epoch,
            status="error",
            input=self.suite.fill_input(job.case),
            error=str(error),
            tries=tries,
        )

    async def _ask_turns(self, case: FilledCase, epoch: int) -> CaseResult:
        """Asks turn by turn; most cases have one turn."""
        if len(case.turns) == 1:
            asked = case.turns[0].user
            request, answer, tries = await self._request_answer(case, case.messages() or (), epoch)
            checks = await _check_turn(case, case.turns[0].checks, answer, request)
        else:
            asked = join_turns(case.turns)
            request, answer, tries, checks = await self._converse(case, epoch)
        status = judge_case(checks)
        return CaseResult(
            case=case.key,
            epoch=epoch,
            status=status,
            input=asked,
            output=answer.output,
            checks=tuple(checks),
            latency=answer.latency,
            cost=answer.cost,
            input_tokens=answer.input_tokens,
            output_tokens=answer.output_tokens,
            tokens_counted_by=answer.tokens_counted_by,
            error=find_error(checks) if status == "error" else None,
            tries=tries,
            trace=trace_of(request, answer) if answer.spans else None,
        )

    async def _converse(
        self, case: FilledCase, epoch: int
    ) -> tuple[Request, Answer, int, list[CheckResult]]:
        """Asks the turns of a conversation; its answers come back as one."""
        said: list[str] = []
        checks: list[CheckResult] = []
        total, tries = _ConversationTotal(), 1
        asked, request = case.asked, _NOTHING_ASKED
        while (messages := case.messages(said)) is not None:
            try:
                request, answer, tried = await self._request_answer(case, messages, epoch)
            except ModelError as error:
                error.tries = max(tries, error.tries)
                raise
            tries = max(tries, tried)
            turn = asked[len(said)]
            said.append(answer.output)
            total.add(answer, request)
            # Checks look at this answer; scorers see all that happened until then.
            trace = trace_of(request, total.answer)
            ended = len(said) == len(asked)
            checks += await _check_turn(case, turn.checks, answer, request, trace, ended=ended)
        return request, total.answer, tries, checks

    async def _request_answer(
        self, case: FilledCase, messages: tuple[Message, ...], epoch: int
    ) -> tuple[Request, Answer, int]:
        request = Request(
            messages=messages,
            settings=self.suite.settings,
            mcp_servers=self.suite.mcp_servers,
            epoch=epoch,
        )
        timeout = self.limits.timeout or case.config.timeout
        answer, tries = await answer_with_retries(
            self.model, request, self.pace, tries=self.tries, timeout=timeout
        )
        return request, answer, tries


class _ConversationTotal:
    """The answers of one conversation as one: the last output, all numbers summed up."""

    __slots__ = ("answer", "turns")

    def __init__(self) -> None:
        self.answer: Answer = _NO_ANSWER
        self.turns = 0

    def add(self, answer: Answer, request: Request) -> None:
        """Takes one more answer, its spans marked with its turn."""
        self.turns += 1
        turn = {"turn": self.turns}
        spans = trace_of(request, answer).spans
        marked = (replace(span, metadata=span.metadata | turn) for span in spans)
        answer = replace(answer, spans=tuple(marked))
        if self.answer is _NO_ANSWER:
            self.answer = answer
            return
        before = self.answer
        self.answer = replace(
            answer,
            latency=add_known((before.latency, answer.latency)),
            cost=add_known((before.cost, answer.cost)),
            input_tokens=add_known((before.input_tokens, answer.input_tokens)),
            output_tokens=add_known((before.output_tokens, answer.output_tokens)),
            spans=before.spans + answer.spans,
        )


async def _check_turn(
    case: FilledCase,
    turn: Checks,
    answer: Answer,
    request: Request,
    trace: Trace | None = None,
    *,
    ended: bool = True,
) -> list[CheckResult]:
    """The checks of a turn and, at the end of the conversation, those of the case."""
    subject = case.subject(answer, request, trace)
    results: list[CheckResult] = []
    for checks in (turn, case.checks) if ended else (turn,):
        if checks.waits:
            results += await checks.evaluate(subject)
        elif checks.items:
            results += checks.run(subject)
    return results


def _find_spent(result: CaseResult) -> float | None:
    """Known cost of a case including judges."""
    costs, checks = [result.cost], list(result.checks)
    for check in checks:
        checks += check.parts
        costs += [] if check.judge is None else [check.judge.cost]
    known = [cost for cost in costs if cost is not None]
    return add_known(known) if known else None


class _Budget:
    """Lets a case start only while the dearest case so far, for all under way, still fits.

    Until the first cost is known, one case runs at a time.
    """

    def __init__(self, limit: float, spent: Amounts) -> None:
        self.limit = limit
        self.spent = replace(spent)  # a copy: the caller continues counting
        self.under_way = 0
        self.changed = asyncio.Event()

    async def reserve(self) -> bool:
        """True if a case may start, False if no more may."""
        while not self._fits():
            if not self.under_way:
                return False
            self.changed.clear()
            await self.changed.wait()
        self.under_way += 1
        return True

    def release(self, cost: float | None) -> None:
        """A case is over, and what it cost is counted."""
        if cost is not None:
            self.spent.add([cost])
        self.under_way -= 1
        self.changed.set()

    def _fits(self) -> bool:
        if not self.spent.known:
            return self.under_way == 0
        starting = [self.spent.high] * (self.under_way + 1)
        return (add_known([self.spent.total, *starting]) or 0.0) <= self.limit


def plan_cases(suite: FilledSuite, limits: RunLimits) -> Iterator[CaseJob]:
    """Every case of every epoch: all cases once, then all again, so that a cut run has them all."""
    cases, repeats = _choose_cases(suite, limits)
    for epoch in range(max(repeats.values(), default=0)):
        yield from (CaseJob(case, epoch) for case in cases if epoch < repeats[id(case.eval)])


def count_planned(suite: FilledSuite, limits: RunLimits) -> int:
    """Number of runs."""
    cases, repeats = _choose_cases(suite, limits)
    return sum([repeats[id(case.eval)] for case in cases])


def _choose_cases(suite: FilledSuite, limits: RunLimits) -> tuple[Sequence[Case], dict[int, int]]:
    """The cases, and the repetitions of an eval by its identity."""
    cases: Iterable[Case] = suite.definition.cases
    if (chosen := limits.chosen) is not None:
        cases = (case for case in cases if case.key in chosen)
    some = list(islice(cases, limits.cases))
    asked = {id(case.eval): case.eval for case in some}
    every = suite.definition.epochs
    return some, {known: limits.epochs or each.epochs or every for known, each in asked.items()}

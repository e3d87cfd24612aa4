"""`run`: a suite against an agent."""

from __future__ import annotations

import inspect
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from tallymark.suites.code.job import SuiteJob
from tallymark.suites.code.loop import run_to_end
from tallymark.suites.code.task_crew import TaskCrew
from tallymark.suites.code.thread_crew import ThreadCrew

if TYPE_CHECKING:
    from collections.abc import Callable

    from tallymark.suites.code.report import Report, TestResult
    from tallymark.suites.code.suite import Agent, Suite


def run(  # noqa: PLR0913 (what a caller may set for one run, by keyword)
    suite: Suite,
    agent: Agent | None = None,
    *,
    threshold: float | None = None,
    parallelism: int | None = None,
    epochs: int | None = None,
    timeout: float | None = None,
    on_result: Callable[[TestResult], object] | None = None,
) -> Report:
    """Call the agent with every test's input, score what it did, and report.

    An agent or a scorer that raises, hangs or returns rubbish spoils its own test only. After
    Ctrl-C the report has the results so far, and `interrupted` is true.
    """
    job = SuiteJob(
        suite,
        agent,
        threshold=threshold,
        parallelism=parallelism,
        epochs=epochs,
        timeout=timeout,
        on_result=on_result,
    )
    began = time.perf_counter()
    with suppress(KeyboardInterrupt):
        run_to_end(lambda: _run_all_cases(job))
    return job.report((time.perf_counter() - began) * 1000)


async def arun(  # noqa: PLR0913 (what a caller may set for one run, by keyword)
    suite: Suite,
    agent: Agent | None = None,
    *,
    threshold: float | None = None,
    parallelism: int | None = None,
    epochs: int | None = None,
    timeout: float | None = None,  # noqa: ASYNC109 (the limit is each test's own)
    on_result: Callable[[TestResult], object] | None = None,
) -> Report:
    """`run` for async code: the agent is called in the loop that is running."""
    job = SuiteJob(
        suite,
        agent,
        threshold=threshold,
        parallelism=parallelism,
        epochs=epochs,
        timeout=timeout,
        on_result=on_result,
    )
    began = time.perf_counter()
    await _run_all_cases(job)
    return job.report((time.perf_counter() - began) * 1000)


async def _run_all_cases(job: SuiteJob) -> None:
    called = getattr(job.agent, "__call__", None)  # noqa: B004 (its own kind is what matters)
    is_async = inspect.iscoroutinefunction(job.agent) or inspect.iscoroutinefunction(called)
    await (TaskCrew if is_async else ThreadCrew)(job).run()

"""A suite on an engine: blocks of cases, each run and checked by a worker."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tallymark.errors import WorkFailed
from tallymark.event_loops import run_to_end
from tallymark.judging.judge_model import open_judge
from tallymark.models.model_kinds import open_model
from tallymark.models.replay import ReplayModel
from tallymark.runs.ongoing_run import RunEnding
from tallymark.runs.record import CaseResult
from tallymark.service.bulk_work import BulkTask, BulkWork, cut_blocks
from tallymark.suites.resolved_suite import resolve
from tallymark.suites.suite_evaluation import (
    DEFAULT_THREADS,
    CaseJob,
    RunLimits,
    SuiteEvaluation,
    plan_cases,
)
from tallymark.suites.suite_file import load_stored

if TYPE_CHECKING:
    from tallymark.engine.engine_choice import EngineChoice
    from tallymark.models import Model
    from tallymark.runs.ongoing_run import OngoingRun
    from tallymark.suites.resolved_suite import FilledSuite
    from tallymark.suites.suite_definition import SuiteDefinition

_MOST, _LEAST, _EACH = 500, 20, 16
"""Cases in a block, at most and at least, and blocks for each worker."""
CaseKey = tuple[str, int]
"""A case by name, and its epoch."""


@dataclass(frozen=True)
class CaseAsking(BulkTask[CaseKey, CaseResult | RunEnding]):
    """A suite, the values of its templates, and the model by name.

    Behind the results of a block stands why it ended too soon, where it did.
    """

    results = list[CaseResult | RunEnding]
    definition: str
    definition_hash: str
    folder: Path
    prompt: str | None
    model: str
    limits: RunLimits
    vars: Mapping[str, str]
    secrets: Mapping[str, str]
    judge: str | None
    hidden: Mapping[str, str]

    @contextmanager
    def prepare(self) -> Iterator[Callable[[list[CaseKey]], list[CaseResult | RunEnding]]]:
        """Reads the suite, and fills it in."""
        definition = load_stored(self.definition, folder=self.folder)
        if definition.hash != self.definition_hash:
            raise WorkFailed(f"a worker finds other datasets in {self.folder} than there are here")
        cases = {case.key: case for case in definition.cases}
        suite = self._fill(definition)
        model = self._open_model(suite)
        # A stateless model can serve block after block.
        again = isinstance(model, ReplayModel)

        def ask(keys: list[CaseKey]) -> list[CaseResult | RunEnding]:
            evaluation = SuiteEvaluation(
                suite, model if again else self._open_model(suite), self.limits
            )
            evaluation.jobs = (CaseJob(cases[key], epoch) for key, epoch in keys)
            return _ask_all(evaluation)

        yield ask

    def _fill(self, definition: SuiteDefinition) -> FilledSuite:
        asked = next((each for each in definition.prompts if each.name == self.prompt), None)
        return resolve(
            definition if asked is None else definition.ask_with(asked),
            vars=self.vars,
            secrets=self.secrets,
            judge=self.judge,
            open_judge=partial(open_judge, record=None, cache=None, egress=None),
            recorded=False,
            hidden=self.hidden,
        )

    def _open_model(self, suite: FilledSuite) -> Model:
        pricing = suite.definition.pricing
        return open_model(self.model, folder=self.folder, pricing=pricing, redact=suite.redact)


def _ask_all(evaluation: SuiteEvaluation) -> list[CaseResult | RunEnding]:
    results: list[CaseResult | RunEnding] = []

    async def add(result: CaseResult) -> None:
        results.append(result)

    ending = run_to_end(lambda: evaluation.run(add))
    return results if ending == "finished" else [*results, ending]


def spread_work(work: CaseAsking, suite: FilledSuite, workers: int) -> CaseAsking:
    """The limits for each of several workers, who share the concurrent requests."""
    threads = work.limits.threads or suite.definition.threads or DEFAULT_THREADS
    return replace(work, limits=replace(work.limits, threads=math.ceil(threads / workers)))


def ask_on_engine(
    choice: EngineChoice,
    work: CaseAsking,
    suite: FilledSuite,
    ongoing: OngoingRun,
    done: Collection[CaseKey],
) -> RunEnding:
    """Asks all cases that are not done; how the run ended."""
    jobs = plan_cases(suite, work.limits)
    todo = [(job.case.key, job.epoch) for job in jobs if (job.case.key, job.epoch) not in done]
    with choice.open() as engine:
        size = min(_MOST, max(_LEAST, math.ceil(len(todo) / (_EACH * engine.workers))))
        blocks = ((None, keys) for keys in cut_blocks(todo, size))
        shared = spread_work(work, suite, engine.workers)
        for _, results in BulkWork(engine).do(shared, blocks, ordered=False):
            for each in results:
                if not isinstance(each, CaseResult):
                    return each
                ongoing.add(each)
    return "finished"

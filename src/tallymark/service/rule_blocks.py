"""A backfill on an engine: workers score stored traces in lots; outcomes are stored here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tallymark.errors import WorkFailed
from tallymark.scoring import EvalContext, Score
from tallymark.service.bulk_work import BulkTask, BulkWork, cut_blocks
from tallymark.service.rule_scoring import make_context, open_own_scoring
from tallymark.service.workers import JobKind, Workers, go_on_with_backfill

if TYPE_CHECKING:
    from tallymark.engine.engine import Engine
    from tallymark.engine.engine_choice import EngineChoice
    from tallymark.service.app import App
    from tallymark.store.traces.rule_outcomes import DueTrace
    from tallymark.store.traces.rules import RuleDefinition
    from tallymark.traces import Trace

_LOT = 100
Loaded = tuple["DueTrace", "EvalContext | str"]
"""A trace with what a scorer sees of it, or why that cannot be shown."""


@dataclass(frozen=True)
class RuleJudging(BulkTask["Trace | str", Score]):
    """A rule's outcome. An item is a trace, or the reason why there is none to score."""

    results = list[Score]
    said: RuleDefinition

    @contextmanager
    def prepare(self) -> Iterator[Callable[[list[Trace | str]], list[Score]]]:
        """Makes the scorer."""
        scoring = open_own_scoring(self.said)

        def score(items: list[Trace | str]) -> list[Score]:
            traces = (each for each in items if not isinstance(each, str))
            scores = iter(scoring.score_all(map(make_context, traces)))
            return [Score.failed(each) if isinstance(each, str) else next(scores) for each in items]

        yield score

    def fail(self, error: str) -> Score:
        """Each trace over which workers die has failed."""
        return Score.failed(error)


def score_on_engine(
    engine: Engine, said: RuleDefinition, loaded: Iterable[Loaded]
) -> Iterator[list[tuple[DueTrace, Score]]]:
    """The scores of traces in lots, as they come."""
    blocks = (
        (
            [due for due, _ in lot],
            [each.trace if isinstance(each, EvalContext) else each for _, each in lot],
        )
        for lot in cut_blocks(loaded, _LOT)
    )
    with closing(BulkWork(engine).do(RuleJudging(said), blocks, ordered=False)) as scored:
        for due, scores in scored:
            yield list(zip(due, scores, strict=True))


def do_backfills(app: App, choice: EngineChoice, job: str) -> None:
    """Does the backfills that are queued, here and now, and first of all lets this one begin."""
    app.store.jobs.urge(job)
    with choice.open() as engine:
        table = {"backfill": JobKind(partial(go_on_with_backfill, engine=engine), None)}
        with Workers(app, 1, tuple(table), own=True, table=table) as workers:
            workers.wait_until_idle(threading.Event())
    done = app.store.jobs.get(job)
    if done.state == "failed" or (done.failures and not done.ended):
        raise WorkFailed(
            f"the backfill {done.subject} has not ended: {done.error}",
            hint="fix that, then run the same command again",
        )

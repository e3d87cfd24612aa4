"""A backfill on an engine: workers score kept traces in lots; what is decided is stored here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from tallymark.errors import WorkFailed
from tallymark.scoring import EvalContext, Score
from tallymark.service.bulk_work import BlockCodec
from tallymark.service.rule_scoring import make_context, open_own_scoring
from tallymark.service.workers import JobKind, Workers, go_on_with_backfill
from tallymark.traces import Trace

if TYPE_CHECKING:
    from tallymark.engine.engine import Engine
    from tallymark.engine.engine_choice import EngineChoice
    from tallymark.service.app import App
    from tallymark.store.traces.decisions import DueTrace
    from tallymark.store.traces.rules import RuleDefinition

_LOT = 100
_TRACES = BlockCodec(list[Trace])
_SCORES = BlockCodec(list[Score])
Loaded = tuple["DueTrace", "EvalContext | str"]
"""A trace with what a scorer sees of it, or why that cannot be shown."""


@dataclass(frozen=True)
class RuleJudging:
    """The work: what a rule says."""

    said: RuleDefinition

    @contextmanager
    def open(self) -> Iterator[Callable[[bytes], bytes]]:
        """Makes the scorer."""
        scoring = open_own_scoring(self.said)
        yield lambda data: _SCORES.encode(
            list(scoring.score_all(map(make_context, _TRACES.decode(data))))
        )


def score_on_engine(
    engine: Engine, said: RuleDefinition, loaded: Iterable[Loaded]
) -> Iterator[Sequence[tuple[DueTrace, Score]]]:
    """The scores of traces in lots, as they come; a lot that workers die over has failed."""
    lots: list[list[DueTrace]] = []
    unread: list[tuple[DueTrace, Score]] = []

    def cut() -> Iterator[bytes]:
        due: list[DueTrace] = []
        traces: list[Trace] = []
        for each, context in loaded:
            if isinstance(context, EvalContext):
                due.append(each)
                traces.append(context.trace)
            else:
                unread.append((each, Score.failed(context)))
            if len(due) == _LOT:
                lots.append(due)
                yield _TRACES.encode(traces)
                due, traces = [], []
        if due:
            lots.append(due)
            yield _TRACES.encode(traces)

    with closing(engine.map(RuleJudging(said), cut())) as outcomes:
        for outcome in outcomes:
            due, lots[outcome.number] = lots[outcome.number], []
            if outcome.error is not None:
                yield [(each, Score.failed(outcome.error)) for each in due]
            else:
                yield list(zip(due, _SCORES.decode(outcome.require()), strict=True))
    yield unread


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
            hint="give the same command again once that is mended",
        )

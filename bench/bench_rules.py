"""A rule over 100,000 kept traces: looked at, loaded, scored, stored, on SQLite and PostgreSQL.

Beside it, in the same run and process, a plain loop opens the same bodies, decodes them and calls
the same scorer, and keeps nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

from bench.databases import POSTGRESQL, SQLITE, open_database
from bench.measurement import OURS, Bench, MakeSides, Promise, Sides

from tallymark.scoring import load_scorer
from tallymark.service.remote_suites import RemoteRules
from tallymark.service.resources import Resources
from tallymark.service.rule_scoring import make_context
from tallymark.service.rule_work import RuleWork
from tallymark.service.trace_intake import TraceIntake
from tallymark.store import Store
from tallymark.store.quick_statements import QuickStatements
from tallymark.store.retention_policy import TraceSettings
from tallymark.store.traces.segments import Segment, read_segment
from tallymark.traces import Span, Trace

SCORER = 'contains(values=["sorry"])'
NOW = 1_790_000_000.0
SPANS = 6


def make_trace(number: int) -> Trace:
    """A conversation with tools, as agents have them."""
    answer = "I am sorry, the parcel is late." if number % 3 else "The parcel is on its way."
    spans = [
        Span(
            span_id=f"{number:08x}{nth:08x}",
            parent_id=None if nth == 0 else f"{number:08x}{0:08x}",
            name="chat" if nth % 2 else "search",
            span_type="generation" if nth % 2 else "tool",
            tool_name=None if nth % 2 else "search",
            model="gpt-4o" if nth % 2 else None,
            input="Where is my parcel? " * 5,
            output=answer,
            start_ms=(NOW - number) * 1000 + nth,
            duration_ms=100.0,
            input_tokens=300 if nth % 2 else None,
            output_tokens=40 if nth % 2 else None,
            metadata={"session.id": f"s-{number % 1000}", "step": nth},
        )
        for nth in range(SPANS)
    ]
    return Trace(trace_id=f"{number:032x}", name="desk", duration_ms=900.0, spans=spans)


def keep_traces(store: Store, count: int) -> None:
    """All of them, settled, and looked at before there is a rule."""
    intake = TraceIntake(store, settings=TraceSettings, clock=lambda: NOW)
    intake.load(make_trace(number) for number in range(count))
    while store.traces.finalise(NOW + 1, 5000):
        pass
    RuleWork(store, RemoteRules(), lambda: NOW + 1, seconds=1e9).decide()


def read_bodies(store: Store) -> list[Segment]:
    """As they are kept."""
    with store._database.read() as connection:  # noqa: SLF001
        query = "SELECT number, version, format, body FROM trace_segments"
        return [Segment(*row) for row in QuickStatements(connection).read(query)]


def score_plainly(bodies: list[Segment]) -> None:
    """A loop over decoded traces."""
    scorer = load_scorer(SCORER)
    values = [scorer.score(make_context(read_segment(body).assemble())).value for body in bodies]
    assert sum(value == 1.0 for value in values) == sum(1 for n in range(len(bodies)) if n % 3)


_numbers = itertools.count()


def score_by_rule(store: Store, count: int) -> None:
    """A backfill by a new rule: all that is stored is committed."""
    rules = Resources.over(store, clock=lambda: NOW + 2).rules
    name = f"polite-{next(_numbers)}"
    rules.add({"name": name, "scorer": SCORER})
    begun = store.backfills.add(
        store.rules.get(name), since=0, until=NOW + 1, expected=count, expected_cost=0.0, at=NOW
    )
    done = RuleWork(store, RemoteRules(), lambda: NOW + 2, seconds=1e9).backfill(begun.id)
    assert done["scored"] == count, done


def backfills(name: str) -> MakeSides:
    """On one database; what PostgreSQL's own processes spend is counted."""

    @contextmanager
    def make(size: int) -> Iterator[Sides]:
        with open_database(name) as database:
            keep_traces(database.store, size)
            bodies = read_bodies(database.store)
            yield {
                OURS: database.side(lambda: score_by_rule(database.store, size), size),
                "a plain loop": database.side(lambda: score_plainly(bodies), size),
            }

    return make


BENCHES = tuple(
    Bench(
        f"a rule on {name}",
        f"A kept trace of {SPANS} spans scored by a rule, the score stored: at most four times "
        "a loop that keeps nothing.",
        backfills(name),
        (1_000, 10_000, 100_000),
        "traces",
        (Promise(4.0, "a plain loop"),),
        each="trace",
        rounds=3,
    )
    for name in (SQLITE, POSTGRESQL)
)

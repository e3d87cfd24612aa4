"""A rule over 100,000 kept traces: looked at, loaded, scored, stored, on SQLite and PostgreSQL.

Beside it, in the same run and process, a plain loop opens the same bodies, decodes them and calls
the same scorer, and keeps nothing. The rule may take four times its CPU. Of fewer traces, what a
rule costs once is a part; that is told, and nothing is promised.

    python bench/bench_rules.py [sqlite | postgresql]...

    BENCH_TRACES=1000,10000,100000    at several sizes, each in a database of its own

Exits 1 when the promise is broken.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from scripts.server_process import open_postgres

from tallymark.app.remote_suites import RemoteRules
from tallymark.app.rule_scoring import make_context
from tallymark.app.rule_work import RuleWork
from tallymark.app.rules import RuleService
from tallymark.app.traces import TraceIntake
from tallymark.scoring import load_scorer
from tallymark.store import Store, open_store
from tallymark.store.quick_statements import QuickStatements
from tallymark.store.traces.segments import Segment, read_segment
from tallymark.store.traces.trace_settings import TraceSettings
from tallymark.traces import Span, Trace

MOST_OF_PLAIN = 4.0
PROMISED = 100_000
"""Traces from which on the promise holds."""
COUNTS = [int(each) for each in os.environ.get("BENCH_TRACES", "100000").split(",")]
ROUNDS = 3
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
    while store.traces.settle(NOW + 1, 5000):
        pass
    RuleWork(store, RemoteRules(), lambda: NOW + 1, seconds=1e9).decide()


def read_bodies(store: Store) -> list[Segment]:
    """As they are kept."""
    with store._database.read() as connection:  # noqa: SLF001
        query = "SELECT number, version, format, body FROM trace_segments"
        return [Segment(*row) for row in QuickStatements(connection).read(query)]


def score_plainly(bodies: list[Segment]) -> float:
    """Seconds of CPU of a loop over decoded traces."""
    scorer = load_scorer(SCORER)
    began = time.process_time()
    values = [scorer.score(make_context(read_segment(body).assemble())).value for body in bodies]
    spent = time.process_time() - began
    if sum(value == 1.0 for value in values) != sum(1 for n in range(len(bodies)) if n % 3):
        raise RuntimeError("the plain loop is wrong")
    return spent


def score_by_rule(store: Store, round_: int, count: int) -> float:
    """Seconds of CPU of a backfill by a new rule: all that is stored is committed."""
    rules = RuleService(store, RemoteRules(), own=True, clock=lambda: NOW + 2)
    name = f"polite-{round_}"
    rules.add({"name": name, "scorer": SCORER})
    begun = store.backfills.add(
        store.rules.get(name), since=0, until=NOW + 1, expected=count, expected_cost=0.0, at=NOW
    )
    began = time.process_time()
    done = RuleWork(store, RemoteRules(), lambda: NOW + 2, seconds=1e9).backfill(begun.id)
    spent = time.process_time() - began
    if done["scored"] != count:
        raise RuntimeError(f"the rule scored {done}")
    return spent


def measure(name: str, url: str, count: int) -> bool:
    """Whether the promise holds on a database, for so many traces."""
    with closing(open_store(url)) as store:
        keep_traces(store, count)
        bodies = read_bodies(store)
        pairs = [(score_plainly(bodies), score_by_rule(store, nth, count)) for nth in range(ROUNDS)]
    plain, ruled = (min(times) for times in zip(*pairs, strict=True))
    ratio: float = ruled / plain
    sys.stdout.write(
        f"{name}: {count:,} traces of {SPANS} spans, {1e6 * plain / count:.0f} µs each by a loop, "
        f"{1e6 * ruled / count:.0f} µs by a rule: {ratio:.2f} times (at most {MOST_OF_PLAIN:g})\n"
    )
    return ratio <= MOST_OF_PLAIN or count < PROMISED


def open_databases(wanted: set[str]) -> Iterator[tuple[str, str]]:
    """Each that is asked for, empty."""
    if "sqlite" in wanted:
        with tempfile.TemporaryDirectory(prefix="tally-bench-") as folder:
            yield "SQLite", f"sqlite:///{Path(folder) / 'tally.db'}"
    if "postgresql" in wanted:
        with open_postgres() as url:
            yield "PostgreSQL", url


def main() -> int:
    """0 when it holds everywhere."""
    wanted = set(sys.argv[1:]) or {"sqlite", "postgresql"}
    held = [measure(*each, count) for count in COUNTS for each in open_databases(wanted)]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())

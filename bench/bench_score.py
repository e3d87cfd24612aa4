"""Scoring stored traces against a loop written by hand: traces of 20 spans, five scorers.

The loop decodes the same lines to dicts and computes the same five values, their means and how
many traces pass; beside what is kept, it inserts a row for each. It gives no reasons and no
intervals, it trusts its input, and nothing in it may hang.
"""

from __future__ import annotations

import json
import random
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count, islice
from pathlib import Path
from typing import Any

import msgspec
from bench.measurement import OURS, Bench, MakeSides, Promise, Side, Sides, measure_process
from scripts.server_process import TALLY

from tallymark.scoring import EvalContext, scorer
from tallymark.suites import ScoredTraces
from tallymark.traces import read_traces

SIZES = (250, 2_500, 25_000)
SPANS = 20
TARGET, LIMIT = 1.0, 5.0
SCORERS = (
    "contains(values=['refund'])",
    "exact_match",
    "tool_selection",
    f"latency(target={TARGET}, limit={LIMIT})",
    "no_errors",
)


def make_trace(number: int, draw: random.Random) -> dict[str, Any]:
    spans = [make_span(at, draw) for at in range(SPANS)]
    tools = [span["tool_name"] for span in spans if "tool_name" in span]
    output = draw.choice(["Your refund is on its way.", "Please tell me your order's number."])
    spans[-1] |= {"span_type": "generation", "output": output}
    expected = {"output": "Your refund is on its way.", "tool_calls": tools[:3]}
    return {
        "trace_id": f"trace-{number}",
        "name": "help desk",
        "duration_ms": draw.uniform(500, 6000),
        "metadata": {"user": f"user-{number % 97}", "expected": expected},
        "spans": spans,
    }


def make_span(at: int, draw: random.Random) -> dict[str, Any]:
    span: dict[str, Any] = {
        "span_id": f"span-{at}",
        "parent_id": "span-0" if at else None,
        "name": "step",
        "duration_ms": draw.uniform(10, 300),
        "start_ms": 1_700_000_000_000 + at,
    }
    if at % 3 == 1:
        tool = draw.choice(["search", "find_order", "refund", "mail"])
        told = {"tool_input": '{"order": "17"}', "tool_output": "found: 1 order, delivered"}
        return span | {"span_type": "tool", "tool_name": tool, "name": tool} | told
    told = {"input": "What is the state of order 17?", "output": "I will look it up."}
    usage = {"input_tokens": 210, "output_tokens": 12, "cost": 0.00041, "model": "model-1"}
    status = {"status": "error", "error": "rate limited"} if draw.random() < 0.05 else {}
    return span | {"span_type": "generation"} | told | usage | status


def by_hand(path: Path) -> tuple[list[float], int]:
    totals = [0.0] * len(SCORERS)
    passed = traces = 0
    with path.open("rb") as lines:
        for line in lines:
            values = score_by_hand(msgspec.json.decode(line))
            traces += 1
            passed += all(value >= 0.7 for value in values)
            for at, value in enumerate(values):
                totals[at] += value
    return [total / traces for total in totals], passed


def score_by_hand(trace: dict[str, Any]) -> tuple[float, ...]:
    spans = trace["spans"]
    expected = trace["metadata"]["expected"]
    output = next(s for s in reversed(spans) if s["span_type"] == "generation")["output"]
    wanted = set(expected["tool_calls"])
    called = {span["tool_name"] for span in spans if span["span_type"] == "tool"}
    seconds = trace["duration_ms"] / 1000
    failed = sum(s.get("status") == "error" or s.get("error") is not None for s in spans)
    return (
        1.0 if "refund" in output else 0.0,
        1.0 if output.strip() == expected["output"].strip() else 0.0,
        2 * len(wanted & called) / (len(wanted) + len(called)),
        min(1.0, max(0.0, (LIMIT - seconds) / (LIMIT - TARGET))),
        1 - failed / len(spans),
    )


def by_functions(path: Path) -> tuple[list[float], int]:
    return sum_up(ScoredTraces(read_traces(path), [refund, same, tools, quick, smooth]))


def sum_up(scored: ScoredTraces) -> tuple[list[float], int]:
    for _ in scored:
        pass
    run = scored.run
    return [each.mean or 0.0 for each in run.scorers.values()], run.counts["passed"]


@scorer
def refund(ctx: EvalContext) -> bool:
    return "refund" in ctx.output


@scorer
def same(ctx: EvalContext) -> bool:
    return bool(ctx.output.strip() == ctx.expected.output.strip())


@scorer
def tools(ctx: EvalContext) -> float:
    wanted, called = set(ctx.expected.tool_names or ()), set(ctx.trace.tool_names)
    return 2 * len(wanted & called) / (len(wanted) + len(called))


@scorer
def quick(ctx: EvalContext) -> float:
    return min(1.0, max(0.0, (LIMIT - ctx.trace.duration_ms / 1000) / (LIMIT - TARGET)))


@scorer
def smooth(ctx: EvalContext) -> float:
    return 1 - len(ctx.trace.errors) / len(ctx.spans)


def scoring(ours: Callable[[Path], tuple[list[float], int]]) -> MakeSides:
    """One of our ways beside the loop; both must find the same."""

    @contextmanager
    def make(size: int) -> Iterator[Sides]:
        draw = random.Random(7)
        with tempfile.TemporaryDirectory(prefix="tally-bench-") as folder:
            path = Path(folder, "traces.jsonl")
            with path.open("w", encoding="utf-8") as file:
                file.writelines(f"{json.dumps(make_trace(nth, draw))}\n" for nth in range(size))
            (hand, hand_passed), (mine, passed) = by_hand(path), ours(path)
            assert hand_passed == passed
            assert all(abs(a - b) < 1e-9 for a, b in zip(hand, mine, strict=True)), (hand, mine)
            yield {
                OURS: Side(lambda: ours(path), size),
                "a loop by hand": Side(lambda: by_hand(path), size),
            }

    return make


PLAIN = (
    "CREATE TABLE plain (trace TEXT, passed INTEGER, one REAL, two REAL, three REAL, four REAL,"
    " five REAL, body TEXT)"
)


def keep_by_hand(path: Path, db: Path) -> None:
    """A row for each trace, with its five values and itself, a thousand in a transaction."""
    with closing(sqlite3.connect(db, isolation_level=None)) as connection, path.open("rb") as lines:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(PLAIN)
        while some := list(islice(lines, 1_000)):
            rows = [make_row(msgspec.json.decode(line), line) for line in some]
            connection.execute("BEGIN")
            connection.executemany("INSERT INTO plain VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
            connection.execute("COMMIT")


def make_row(trace: dict[str, Any], line: bytes) -> tuple[Any, ...]:
    values = score_by_hand(trace)
    return (trace["trace_id"], all(value >= 0.7 for value in values), *values, line)


@contextmanager
def kept(size: int) -> Iterator[Sides]:
    """`tally score` without its start beside a loop, both with a database of their own."""
    draw, numbers = random.Random(7), count()
    with tempfile.TemporaryDirectory(prefix="tally-bench-") as name:
        folder = Path(name)
        path, alone = folder / "traces.jsonl", folder / "alone.jsonl"
        lines = [f"{json.dumps(make_trace(nth, draw))}\n" for nth in range(size)]
        path.write_text("".join(lines), "utf-8")
        alone.write_text(lines[0], "utf-8")
        scorers = [word for each in SCORERS for word in ("-s", each)]

        def start(traces: Path) -> float:
            db = folder / f"{next(numbers)}.db"
            return measure_process([TALLY, "score", str(traces), *scorers, "--db", str(db)])

        def loop() -> None:
            keep_by_hand(path, folder / f"{next(numbers)}.db")

        yield {
            OURS: Side(lambda: start(path) - start(alone), size, told=True),
            "a loop that inserts": Side(loop, size),
        }


BENCHES = (
    Bench(
        "built-in scorers, kept",
        f"`tally score` by {len(SCORERS)} scorers without its start: at most three times a loop by "
        "hand that inserts.",
        kept,
        SIZES,
        "traces",
        (Promise(3.0, "a loop that inserts"),),
        each="trace",
        rounds=3,
    ),
    Bench(
        "plain functions",
        "Traces read and scored, not kept, by functions of the user's, each of which may hang: at "
        "most four times a loop by hand.",
        scoring(by_functions),
        SIZES,
        "traces",
        (Promise(4.0, "a loop by hand"),),
        each="trace",
    ),
)

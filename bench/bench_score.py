"""Scoring stored traces against a loop written by hand: 100,000 traces of 20 spans, five scorers.

Promise: at most 3 times the loop, which decodes the same lines to dicts and computes the same five
values, their means and how many traces pass. The loop gives no reasons, no intervals and no rows,
and it trusts its input. Both take turns on parts of the work; the best turns of each count.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from tallymark.scoring import load_scorer
from tallymark.suites import ScoredTraces
from tallymark.traces import read_traces

TRACES = 100_000
TURNS = 40
PER_TURN = TRACES // TURNS
SPANS = 20
PROMISE = 3.0
TARGET, LIMIT = 1.0, 5.0
SCORERS = (
    "contains(values=['refund'])",
    "exact_match",
    "tool_selection",
    f"latency(target={TARGET}, limit={LIMIT})",
    "error_rate",
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
    passed = 0
    with path.open("rb") as lines:
        for line in lines:
            trace = msgspec.json.decode(line)
            spans = trace["spans"]
            expected = trace["metadata"]["expected"]
            output = next(s for s in reversed(spans) if s["span_type"] == "generation")["output"]
            wanted = set(expected["tool_calls"])
            called = {span["tool_name"] for span in spans if span["span_type"] == "tool"}
            seconds = trace["duration_ms"] / 1000
            failed = sum(s.get("status") == "error" or s.get("error") is not None for s in spans)
            values = (
                1.0 if "refund" in output else 0.0,
                1.0 if output.strip() == expected["output"].strip() else 0.0,
                2 * len(wanted & called) / (len(wanted) + len(called)),
                min(1.0, max(0.0, (LIMIT - seconds) / (LIMIT - TARGET))),
                1 - failed / len(spans),
            )
            passed += all(value >= 0.7 for value in values)
            for at, value in enumerate(values):
                totals[at] += value
    return [total / PER_TURN for total in totals], passed


def by_tallymark(path: Path) -> tuple[list[float], int]:
    scored = ScoredTraces(read_traces(path), [load_scorer(reference) for reference in SCORERS])
    for _ in scored:
        pass
    run = scored.run
    return [each.mean or 0.0 for each in run.scorers.values()], run.counts["passed"]


def main() -> int:
    draw = random.Random(7)
    works = (by_hand, by_tallymark)
    best = dict.fromkeys(works, float("inf"))
    spent = dict.fromkeys(works, 0.0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "traces.jsonl")
        for turn in range(TURNS):
            first = turn * PER_TURN
            traces = (make_trace(number, draw) for number in range(first, first + PER_TURN))
            path.write_text("\n".join(map(json.dumps, traces)), encoding="utf-8")
            answers = []
            for work in works:
                began = time.perf_counter()
                answers.append(work(path))
                took = time.perf_counter() - began
                spent[work] += took
                best[work] = min(best[work], took)
            (hand, hand_passed), (ours, our_passed) = answers
            assert hand_passed == our_passed
            assert all(abs(a - b) < 1e-9 for a, b in zip(hand, ours, strict=True)), (hand, ours)
    print(f"scoring {TRACES:,} stored traces of {SPANS} spans with {len(SCORERS)} scorers")
    for work in works:
        each = best[work] / PER_TURN * 1e6
        print(f"  {work.__name__:13} {each:6.1f} µs a trace, {spent[work]:.1f} s in all")
    ratio = best[by_tallymark] / best[by_hand]
    print(f"  {ratio:.2f} times the loop (promised {PROMISE:g} at most)")
    return 0 if ratio <= PROMISE else 1


if __name__ == "__main__":
    sys.exit(main())

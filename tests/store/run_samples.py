"""Records to store: short ones, and one of each kind with every field set."""

from __future__ import annotations

from typing import Any

from tallymark.runs.record import CaseResult, CheckResult, RunRecord
from tallymark.traces import Span, Trace

TRACE = Trace(
    trace_id="t1",
    name="asked",
    status="error",
    duration_ms=12.5,
    metadata={"region": "eu", "nested": {"deep": [1, None, True]}},
    spans=[Span(span_id="s1", name="call", span_type="generation", input="hi", output="hello")],
)

FULL_RESULT = CaseResult(
    case="greeting",
    epoch=3,
    status="failed",
    input="say\nhällo",
    output="hello\nwörld",
    checks=(
        CheckResult(
            kind="or",
            passed=False,
            reason="neither",
            parts=(
                CheckResult(kind="scorer", passed=False, name="tone", value=0.25),
                CheckResult(kind="llm_judge", passed=False, error="no answer"),
            ),
        ),
    ),
    latency=1.25,
    cost=0.0175,
    input_tokens=120,
    output_tokens=45,
    tokens_counted_by="provider",
    error="it was cut off",
    tries=2,
    trace=TRACE,
)

FULL_RUN = RunRecord(
    id="full",
    suite="greetings",
    model="replay/careful",
    status="partial_failure",
    group="g1",
    definition='{"evals": []}',
    definition_hash="abc123",
    epochs=2,
    created_at=1_700_000_000.125,
    started_at=1_700_000_001.5,
    finished_at=1_700_000_009.75,
    score_formula="success_pct / total_cost",
    score=4519.774011299435,
    score_error="one price is not known",
    score_low=4000.5,
    score_high=5000.25,
    metrics={"success_pct": 80.0, "total_cost": None},
    passed=8,
    failed=1,
    errors=1,
    total=10,
    error="the budget was spent",
    tags={"branch": "main", "ids": [1, 2]},
)


def a_run(run_id: str = "run", **fields: Any) -> RunRecord:
    """A run with little in it."""
    return RunRecord(**{"id": run_id, "suite": "s", "model": "m", **fields})


def a_result(case: str = "case", **fields: Any) -> CaseResult:
    """A result with little in it."""
    return CaseResult(**{"case": case, "status": "passed", "output": "42", **fields})


def many(count: int, **fields: Any) -> list[CaseResult]:
    """Results of many cases, in the order in which the store gives them back."""
    return [a_result(f"case-{number:06}", **fields) for number in range(count)]

"""Runs as they come out of a suite, invented for tests: two models, passes, fails and errors."""

from __future__ import annotations

import random
from collections.abc import Sequence

from msgspec.structs import replace

from tallymark.runs.record import CaseResult, CheckResult, RunRecord
from tallymark.runs.run import Run, final_status, outcome
from tallymark.runs.tally import Tally
from tallymark.traces import Span, Trace

HOSTILE = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)>|`*_[x](http://h)\x1b[31m\x00"
_TOPICS = (
    "refund-policy", "shipping-abroad", "warranty-claim", "change-address", "cancel-order",
    "lost-parcel", "gift-card", "invoice-copy", "size-exchange", "loyalty-points",
    "late-delivery", "damaged-item", "payment-declined", "account-locked", "discount-code",
    "return-window", "store-hours", "product-recall", "bulk-order", "data-request",
)  # fmt: skip


def finished(record: RunRecord, results: Sequence[CaseResult]) -> Run:
    """A run summed up as the runner does it."""
    tally = Tally(results)
    record = replace(record, total=record.total or tally.finished)
    record = replace(record, **outcome(tally.formula(record.score_formula), tally))
    record = replace(record, status=final_status(record, stopped=False))
    return Run(record, results)


def parts(run: Run) -> tuple[RunRecord, Sequence[CaseResult]]:
    """The record and the results of a run, to change one of them."""
    return run.record, [*run.results]


def two_cases(formula: str = "success_pct / total_cost") -> Run:
    """A run that fits on one screen: one case passes, one fails."""
    results = [
        CaseResult(
            case="math-question",
            status="passed",
            input="What is 2 + 2?",
            output="2 + 2 = 4",
            checks=(CheckResult(kind="match", passed=True),),
            latency=0.5,
            cost=0.01,
        ),
        CaseResult(
            case="translation-test",
            status="failed",
            input="Say good day in Spanish.",
            output="Guten Tag",
            checks=(
                CheckResult(kind="match", passed=False, reason='"*hola*" does not match'),
                CheckResult(kind="max_tokens", passed=True),
            ),
            latency=1.5,
            cost=0.0077,
        ),
    ]
    record = RunRecord(
        id="run-1",
        suite="my-eval-suite",
        model="replay/careful",
        score_formula=formula,
        started_at=1_760_000_000.0,
        finished_at=1_760_000_002.0,
    )
    return finished(record, results)


def unnamed_run() -> Run:
    """Evals without names: a short prompt, a long one of several lines, one that could not run."""
    long = "Read this letter.\n\nDear all,\n" + "the parcel is late. " * 40
    checks = (CheckResult(kind="match", passed=False, reason="does not match 'late'"),)
    results = [
        CaseResult(case="#1", status="failed", input="Who wrote it?", output="", checks=checks),
        CaseResult(case="#2", status="failed", input=long, output="word " * 400, checks=checks),
        CaseResult(case="#3[7]", status="error", input="Any news of 東京?", error="no answer"),
        CaseResult(case="#4", status="passed", output="as runs were kept before prompts were"),
    ]
    return finished(RunRecord(id="run-2", suite="letters", model="replay/careful"), results)


def support_run(
    model: str = "replay/careful",
    *,
    cases: int = 20,
    epochs: int = 1,
    skill: float = 0.8,
    price: float | None = 0.002,
    pace: float = 0.8,
    errors: int = 0,
    formula: str = "success_pct / total_cost",
    seed: int = 1,
) -> Run:
    """A help desk's suite against one model."""
    chance = random.Random(f"{model}{seed}")
    results = []
    for number in range(cases):
        topic = _TOPICS[number % len(_TOPICS)]
        name = topic if cases <= len(_TOPICS) else f"support[{number + 1}]"
        ability = skill + chance.uniform(-0.3, 0.3)
        for epoch in range(epochs):
            if number >= cases - errors:
                results.append(_down(name, epoch))
            else:
                passed = chance.random() < ability
                results.append(
                    _answered(
                        name, epoch, topic, passed=passed, price=price, pace=pace, chance=chance
                    )
                )
    record = RunRecord(
        id=f"{model.rpartition('/')[2]}-{seed}",
        suite="help-desk",
        model=model,
        group="group-1",
        epochs=epochs,
        definition_hash="d1",
        score_formula=formula,
        created_at=1_760_000_000.0,
        started_at=1_760_000_001.0,
        finished_at=1_760_000_061.0,
    )
    return finished(record, results)


def _down(name: str, epoch: int) -> CaseResult:
    return CaseResult(
        case=name,
        epoch=epoch,
        status="error",
        error="the provider answered 503 (overloaded) three times",
        tries=3,
    )


def _answered(
    name: str,
    epoch: int,
    topic: str,
    *,
    passed: bool,
    price: float | None,
    pace: float,
    chance: random.Random,
) -> CaseResult:
    latency = pace * chance.lognormvariate(0, 0.5)
    words = topic.replace("-", " ")
    output = (
        f"Thanks for asking about your {words}. You have 30 days from delivery; send the parcel "
        "back with the printed label and the money is returned within a week.\n\n"
        "1. Open your orders\n2. Choose the item\n3. Print the label"
        if passed
        else f"I am not sure about {words}. Please call us."
    )
    tone = round(chance.uniform(0.75, 0.98) if passed else chance.uniform(0.2, 0.7), 2)
    checks = [
        CheckResult(
            kind="match",
            passed=passed,
            reason="" if passed else 'the answer does not match "*30 days*"',
        ),
        CheckResult(
            kind="scorer",
            name="tone",
            value=tone,
            passed=tone >= 0.7,
            reason="" if tone >= 0.7 else f"{tone} is below the threshold 0.7",
        ),
        CheckResult(
            kind="or",
            passed=True,
            parts=(
                CheckResult(
                    kind="tool_called",
                    passed=passed,
                    reason="" if passed else "lookup was not called",
                ),
                CheckResult(kind="max_tokens", passed=True),
            ),
        ),
    ]
    tokens = len(output) // 4
    return CaseResult(
        case=name,
        epoch=epoch,
        status="passed" if all(check.passed for check in checks) else "failed",
        output=output,
        checks=tuple(checks),
        latency=latency,
        cost=None if price is None else price * tokens / 60,
        input_tokens=42,
        output_tokens=tokens,
        tokens_counted_by="provider",
        trace=_trace(words, output, latency, tokens),
    )


def _trace(words: str, output: str, latency: float, tokens: int) -> Trace:
    question = f"A customer asks about their {words}. What do you answer?"
    return Trace(
        trace_id="t",
        duration_ms=latency * 1000,
        spans=[
            Span(span_id="1", name="answer", input=question, duration_ms=latency * 1000),
            Span(
                span_id="2",
                parent_id="1",
                name="lookup",
                span_type="tool",
                tool_name="lookup",
                tool_input=f'{{"topic": "{words}"}}',
                tool_output='{"days": 30}',
                duration_ms=latency * 300,
            ),
            Span(
                span_id="3",
                parent_id="1",
                name="chat",
                span_type="generation",
                output=output,
                input_tokens=42,
                output_tokens=tokens,
                duration_ms=latency * 650,
            ),
        ],
    )

"""`Run`: what it counts, how it reads, and that any JSON writer takes it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tallymark.errors import FormulaError
from tallymark.runs.record import CaseResult, RunRecord
from tallymark.runs.run import Run
from tallymark.scoring import EvalContext, Score, scorer
from tallymark.suites import Suite, Test, run
from tallymark.testing import FakeAgent

REPLIES = {
    "good": {"output": "Here is your refund.", "usage": {"input_tokens": 5, "cost": 0.5}},
    "bad": {"output": "No.", "cost": 0.25},
    "broken": ValueError("no connection"),
}


@scorer(blocking=False, threshold=0.5)
def refunds(ctx: EvalContext) -> Score:
    found = "refund" in ctx.output
    return Score(found, "Mentions a refund" if found else "Does not mention a refund")


@scorer(labels={"long": 1.0, "short": 0.5}, blocking=False)
def length(ctx: EvalContext) -> str:
    return "long" if len(ctx.output) > 10 else "short"


def shop(*inputs: str, epochs: int = 1, formula: str | None = None) -> Run:
    tests = [Test(f"test {given}", given) for given in inputs]
    suite = Suite("shop", tests, scorers={"refunds": refunds, "length": length}, epochs=epochs)
    return run(suite, FakeAgent(REPLIES), formula=formula)


def test_errors_are_counted_apart_from_fails() -> None:
    found = shop("good", "bad", "broken")
    assert found.counts == {"passed": 1, "failed": 1, "error": 1}
    assert (found.record.status, found.score) == ("partial_failure", 50.0)
    assert not found.passed
    assert not found.interrupted
    assert repr(found).endswith("'shop': 1 passed, 1 failed, 1 error)")


def test_each_scorer_is_summed_up() -> None:
    found = shop("good", "bad", "broken").scorers
    assert (found["refunds"].mean, found["refunds"].scored) == (0.5, 2)
    assert found["length"].labels == {"long": 1, "short": 1}


def test_epochs_of_a_case_are_one_cluster() -> None:
    once, thrice = shop("good", "bad"), shop("good", "bad", epochs=3)
    assert thrice.scorers["length"].scored == 6
    low = thrice.scorers["length"].low
    assert low == pytest.approx(once.scorers["length"].low)


def test_a_result_tells_what_was_spent() -> None:
    first, second = shop("good", "bad").results
    assert (first.cost, first.tokens, second.cost, second.tokens) == (0.5, 5, 0.25, None)


def test_a_formula_scores_the_run_at_once_or_afterwards() -> None:
    formula = "success_pct * refunds / total_cost"
    found = shop("good", "bad", formula=formula)
    assert found.score == pytest.approx(50 * 0.5 / 0.75)
    assert shop("good", "bad").score_by(formula).score == pytest.approx(50 * 0.5 / 0.75)
    with pytest.raises(FormulaError, match="unknown name 'refund'; did you mean 'refunds'"):
        found.score_by("refund")


def test_a_wrong_formula_is_refused_before_the_agent_is_called() -> None:
    agent = FakeAgent("yes")
    suite = Suite("s", [Test("t", scorer=refunds)])
    with pytest.raises(FormulaError, match="unknown name 'nope'"):
        run(suite, agent, formula="nope")
    assert agent.calls == []


def test_a_test_and_a_scorer_of_one_name_are_told_apart() -> None:
    suite = Suite("s", [Test("refunds", "x", scorer=refunds)])
    with pytest.raises(FormulaError, match="'refunds' is also the name of a test"):
        run(suite, lambda _: "refund", formula="refunds * 2")
    metrics = run(suite, lambda _: "refund").metrics
    assert metrics["refunds"] == 1.0
    assert "refunds_latency" not in metrics


def test_a_run_that_is_not_kept_has_its_interval_when_asked() -> None:
    found = shop("good", "bad", epochs=4)
    assert (found.record.score_low, found.record.score_high) == (None, None)
    assert found.interval == pytest.approx((2.5, 97.5), abs=0.01)
    assert "95 % Interval: 2.50 to 97.50" in found.render()
    told = found.to_dict()
    ends = {"low": told["score_low"], "high": told["score_high"]}
    assert ends == pytest.approx({"low": 2.5, "high": 97.5}, abs=0.01)


def test_the_summary_reads_well() -> None:
    lines = shop("good", "bad", "broken").render().splitlines()
    assert "  scorer    mean   95 % interval  scored  unscored" in lines
    assert "  length: long 1, short 1" in lines
    assert "      refunds: 0 (needs 0.5): Does not mention a refund" in lines
    assert "      error: the agent raised ValueError: no connection" in lines
    assert max(map(len, lines)) <= 80


def test_a_run_may_have_counted_more_than_it_holds() -> None:
    results = [CaseResult(case=f"c{n}", status="failed") for n in range(5)]
    whole = Run(RunRecord(id="r", suite="s", model="m"), results)
    part = Run(whole.record, results[:2], whole.tally)
    assert (part.count_cases("failed"), len(part.of_status("failed"))) == (5, 2)


def test_any_json_writer_takes_a_run() -> None:
    @scorer(blocking=False)
    def odd(ctx: EvalContext) -> Score:
        metadata: dict[str, Any] = {"nan": float("nan"), "set": {1}, "self": ctx, "text": "\ud800"}
        return Score(1.0, metadata=metadata)

    found = run(Suite("s", [Test("t", scorer=odd)]), lambda _: "half \ud800")
    read = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    (result,) = read["results"]
    (check,) = result["checks"]
    assert check["metadata"]["nan"] is None
    assert (check["name"], check["version"]) == ("odd", odd.origin.version)
    assert read["passed"] == 1

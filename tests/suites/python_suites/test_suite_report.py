"""The report: what it counts, how it reads, and that any JSON writer takes it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tallymark.errors import FormulaError
from tallymark.scoring import EvalContext, Score, scorer
from tallymark.suites import Report, Suite, Test, run
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


def report(*inputs: str, epochs: int = 1) -> Report:
    tests = [Test(f"test {given}", given) for given in inputs]
    scorers = {"refunds": refunds, "length": length}
    return run(Suite("shop", tests, scorers=scorers, epochs=epochs), FakeAgent(REPLIES))


def without_time(text: str) -> str:
    first, _, rest = text.partition("\n")
    return f"{first.rpartition(', ')[0]}\n{rest}"


def test_errors_are_counted_apart_from_fails() -> None:
    found = report("good", "bad", "broken")
    assert found.counts == {"passed": 1, "failed": 1, "error": 1}
    assert found.pass_rate == pytest.approx(1 / 3)
    assert not found.passed
    assert not found.interrupted


def test_each_scorer_is_summed_up() -> None:
    refunded = report("good", "bad", "broken").scorers["refunds"]
    assert (refunded.mean, refunded.scored, refunded.unscored) == (0.5, 2, 1)
    assert refunded.first_error == "the agent raised ValueError: no connection"
    assert refunded.origin == refunds.origin
    assert report("good", "bad").scorers["length"].labels == {"long": 1, "short": 1}


def test_scorers_of_one_name_are_summed_up_together_and_have_no_common_origin() -> None:
    tests = [
        Test(name, "good", scorer=f"contains(values=['{value}'])")
        for name, value in (("one", "refund"), ("two", "Here"), ("three", "no"))
    ]
    found = run(Suite("s", tests), FakeAgent(REPLIES)).scorers
    assert list(found) == ["contains"]
    assert (found["contains"].scored, found["contains"].origin) == (3, None)


def test_epochs_of_a_test_are_one_cluster() -> None:
    once, thrice = report("good", "bad"), report("good", "bad", epochs=3)
    assert thrice.scorers["length"].scored == 6
    assert thrice.scorers["length"].low == once.scorers["length"].low


def test_a_result_tells_what_was_spent() -> None:
    first, second = report("good", "bad").results
    assert (first.cost, first.tokens, second.cost, second.tokens) == (0.5, 5, 0.25, None)


def test_a_formula_scores_the_run() -> None:
    found = report("good", "bad")
    assert found.score("success_pct * refunds / total_cost").score == pytest.approx(50 * 0.5 / 0.75)
    with pytest.raises(FormulaError, match="unknown name 'refund'; did you mean 'refunds'"):
        found.score("refund")


def test_a_report_reads_well() -> None:
    assert without_time(report("good", "bad", "broken").render()) == (
        "shop: 1 of 3 passed, 1 failed, 1 in error\n"
        "\n"
        "scorer    mean   95 % interval  scored  unscored\n"
        "refunds  0.500  0.000 to 1.000       2         1\n"
        "length   0.750  0.000 to 1.000       2         1\n"
        "\n"
        "length: long 1, short 1\n"
        "\n"
        "failed\n"
        "  test bad\n"
        "    refunds 0.00 < 0.50: Does not mention a refund\n"
        "    length 0.50 < 0.70\n"
        "\n"
        "could not be judged\n"
        "  test broken\n"
        "    the agent raised ValueError: no connection"
    )


def test_lines_fit_on_a_screen_and_long_lists_are_cut() -> None:
    tests = [Test(f"number {n} " + "x" * 200, "bad") for n in range(30)]
    text = run(Suite("shop", tests, scorers={"refunds": refunds}), FakeAgent(REPLIES)).render()
    assert max(map(len, text.splitlines())) <= 80
    assert text.splitlines()[-1] == "  and 20 more"


@pytest.mark.parametrize("traces", [True, False])
def test_any_json_writer_takes_a_report(traces: bool) -> None:
    @scorer(blocking=False)
    def odd(ctx: EvalContext) -> Score:
        metadata: dict[str, Any] = {"nan": float("nan"), "set": {1}, "self": ctx, "text": "\ud800"}
        return Score(1.0, metadata=metadata)

    found = run(Suite("s", [Test("t", scorer=odd)]), lambda _: "half \ud800")
    document = found.to_dict(traces=traces)
    read = json.loads(json.dumps(document, allow_nan=False))
    (result,) = read["results"]
    assert result["scores"]["odd"]["metadata"]["nan"] is None
    assert result["scores"]["odd"]["version"] == odd.origin.version
    assert ("trace" in result) is traces
    assert (read["passed"], read["counts"]["passed"], read["planned"]) == (True, 1, 1)
    assert read["scorers"]["odd"]["origin"]["scorer"] == "odd"

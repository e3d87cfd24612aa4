"""Two runs compared: what changed, what is unfair about it, and what counts as a regression."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest
from msgspec.structs import replace

from tallymark.errors import FormulaError, InvalidInput
from tallymark.runs.comparison import (
    Comparison,
    RegressionRule,
    RegressionVerdict,
    adjust_p_values,
    compare,
    compare_all,
    is_regression,
    verdict,
)
from tallymark.runs.record import CaseResult, CaseStatus, CheckResult, RunRecord
from tallymark.runs.run import Run

WORDS: Mapping[str, CaseStatus] = {"+": "passed", "-": "failed", "!": "error"}


def run(
    cases: Mapping[str, str] | str,
    name: str = "r",
    *,
    formula: str = "success_pct",
    cost: float | None = 0.01,
) -> Run:
    """A run of cases with an outcome for each epoch: + passed, - failed, ! error."""
    if isinstance(cases, str):
        cases = {f"case{number}": mark for number, mark in enumerate(cases)}
    results = [
        CaseResult(case=case, epoch=epoch, status=WORDS[mark], latency=1 + epoch / 8, cost=cost)
        for case, marks in cases.items()
        for epoch, mark in enumerate(marks)
    ]
    return Run(RunRecord(id=name, suite="s", model="m", score_formula=formula), results)


def parts(run: Run) -> tuple[RunRecord, Sequence[CaseResult]]:
    return run.record, [*run.results]


def kinds(comparison: Comparison) -> dict[str, str]:
    return {change.case: change.kind for change in comparison.changes}


def test_an_unnamed_case_is_called_by_its_prompt() -> None:
    before, now = run({"#1": "+", "b": "+"}), run({"#1": "-", "b": "+"})
    asked = [replace(each, input="Who was\nfirst?") for each in now.results]
    found = compare(before, Run(now.record, asked), rule=RegressionRule(strict=True))
    assert [(each.case, each.name) for each in found.changes] == [("#1", "#1 Who was first?")]
    assert verdict(found).reason == "cases that passed fail now: #1 Who was first?"


def asking(definition: str, *prompts: str) -> Run:
    """A run of unnamed evals; `!` after a prompt says that its case failed."""
    cases = {f"#{n}": "-" if prompt.endswith("!") else "+" for n, prompt in enumerate(prompts, 1)}
    found = run(cases)
    results = [
        replace(result, input=prompt.removesuffix("!"))
        for result, prompt in zip(found.results, prompts, strict=True)
    ]
    return Run(replace(found.record, definition_hash=definition), results)


@pytest.mark.parametrize(
    ("before", "now", "changes"),
    [
        (("a", "b", "c"), ("c!", "a", "b"), {"#3": "broken"}),
        (("a", "b"), ("new", "a", "b!"), {"#2": "broken", "#1 (new)": "only_second"}),
        (("a", "b"), ("a", "edited!"), {"#2": "broken"}),
        (("a", "b", "a"), ("b", "a", "a!"), {"#3": "broken"}),
        (("", ""), ("", "b!"), {"#2": "broken"}),
    ],
)
def test_unnamed_cases_are_paired_by_what_they_ask(
    before: Sequence[str], now: Sequence[str], changes: dict[str, str]
) -> None:
    assert kinds(compare(asking("one", *before), asking("two", *now))) == changes


def test_in_one_suite_a_number_is_one_case_whatever_it_asks() -> None:
    """Variables may differ from run to run."""
    assert kinds(compare(asking("one", "a", "b"), asking("one", "b", "a!"))) == {"#2": "broken"}


@pytest.mark.parametrize(
    ("before", "now", "kind"),
    [
        ("+", "+", None),
        ("-", "-", None),
        ("!", "!", None),
        ("+", "-", "broken"),
        ("-", "+", "fixed"),
        ("+", "!", "error_now"),
        ("-", "!", "error_now"),
        ("!", "+", "recovered"),
        ("!", "-", "recovered"),
        ("++", "+-", "broken"),
        ("+-", "--", "worse"),
        ("+-", "++", "fixed"),
        ("--", "+-", "better"),
        ("+-", "-+", None),
        ("++", "+", None),
        ("+!", "+-", "broken"),
    ],
)
def test_how_a_case_changed(before: str, now: str, kind: str | None) -> None:
    comparison = compare(run({"a": before, "b": "+"}), run({"a": now, "b": "+"}))
    assert kinds(comparison).get("a") == kind
    assert "b" not in kinds(comparison)


def test_cases_that_only_one_run_has() -> None:
    comparison = compare(run({"a": "+", "b": "+"}), run({"b": "+", "c": "-"}))
    assert kinds(comparison) == {"a": "only_first", "c": "only_second"}
    assert (comparison.shared, comparison.unchanged) == (1, 1)


def test_the_worst_changes_come_first() -> None:
    first = run({"a": "-", "b": "+", "c": "+", "d": "+", "e": "++"})
    second = run({"a": "+", "b": "!", "c": "-", "d": "-", "f": "+"})
    found = [change.kind for change in compare(first, second).changes]
    assert found == ["broken", "broken", "error_now", "fixed", "only_first", "only_second"]


def test_a_broken_case_says_why() -> None:
    record, results = parts(run({"a": "-", "b": "+"}))
    check = CheckResult(kind="match", passed=False, reason="no hola")
    second = Run(record, [replace(results[0], checks=(check,)), results[1]])
    (change,) = compare(run({"a": "+", "b": "+"}), second).changes
    assert (change.reason, change.first, change.second) == ("match: no hola", "1/1", "0/1")


def test_numbers_are_those_of_the_shared_cases_and_add_up() -> None:
    comparison = compare(run({"a": "+", "b": "-", "gone": "+"}), run({"a": "+", "b": "+"}))
    assert comparison.score.first == 50.0
    assert comparison.score.second == 100.0
    assert comparison.score.difference.value == 50.0
    assert comparison.total_cost.first == pytest.approx(0.02)
    assert comparison.first.score == pytest.approx(200 / 3)


def test_all_four_differences_are_taken() -> None:
    first = run("+-+-+-+-+-+-", formula="success_pct / total_cost", cost=0.01)
    comparison = compare(first, run("+" * 12, cost=0.02))
    assert comparison.score.difference.value == pytest.approx(100 / 0.24 - 50 / 0.12)
    assert comparison.success_pct.difference.value == 50.0
    assert comparison.total_cost.difference.value == pytest.approx(0.12)
    assert comparison.avg_latency.difference.value == 0.0


class TestFormula:
    def test_both_are_scored_by_the_first_runs_formula(self) -> None:
        comparison = compare(run("+-", formula="success_pct * 2"), run("++", formula="total_cost"))
        assert (comparison.first.score, comparison.second.score) == (100.0, 200.0)
        assert comparison.second.own_formula == "total_cost"

    def test_or_by_a_given_one(self) -> None:
        comparison = compare(run("+-"), run("++"), formula="success_pct / 10")
        assert (comparison.score.first, comparison.score.second) == (5.0, 10.0)

    def test_formulas_that_differ_are_named_in_a_warning(self) -> None:
        warnings = compare(run("+-", "one"), run("++", "two", formula="total_cost")).warnings
        assert "two had the formula total_cost; here both are scored by success_pct" in warnings

    def test_it_may_name_evals_of_both_runs(self) -> None:
        comparison = compare(run({"a": "+", "b": "-"}), run({"a": "+", "b": "+"}), formula="a + b")
        assert comparison.score.difference.value == 1.0

    def test_an_unknown_name_is_refused(self) -> None:
        with pytest.raises(FormulaError, match="unknown name 'nope'"):
            compare(run("+"), run("+"), formula="nope * 2")

    def test_a_score_that_the_suite_put_in_is_kept(self) -> None:
        record, results = parts(run("+-", formula="1 / (success_pct - 50)"))
        put_in = Run(replace(record, score=7.0, score_error="division by zero"), results)
        assert compare(put_in, run("++")).first.score == 7.0


class TestWarnings:
    def warned(self, first: Run, second: Run) -> str:
        return "\n".join(compare(first, second).warnings)

    def test_there_is_none_for_two_fair_runs(self) -> None:
        assert compare(run("+-" * 8), run("++" * 8)).warnings == []

    def test_suites_that_differ(self) -> None:
        record, results = parts(run("+-" * 8))
        other = Run(replace(record, definition_hash="other"), results)
        assert "the suites differ" in self.warned(run("+-" * 8), other)

    def test_few_shared_cases(self) -> None:
        assert "only 3 shared cases" in self.warned(run("+-+"), run("++-"))
        assert "only 12 of 30 cases are shared" in self.warned(run("+" * 30), run("+" * 12))

    def test_errors(self) -> None:
        assert "2 of 12 results of new are errors" in self.warned(
            run("+" * 12), run("+" * 10 + "!!", "new")
        )

    def test_epochs_that_differ(self) -> None:
        record, results = parts(run("+" * 12))
        assert "1 and 5 epochs" in self.warned(
            run("+" * 12), Run(replace(record, epochs=5), results)
        )

    def test_results_that_are_missing(self) -> None:
        record, results = parts(run("+" * 12))
        assert "r has 12 of its 20 results" in self.warned(
            Run(replace(record, total=20), results), run("+" * 12)
        )


class TestRegression:
    @pytest.mark.parametrize(
        ("first", "second", "regression"),
        [
            ("+" * 20, "+" * 20, False),
            ("+" * 20, "-" * 20, True),
            ("-" * 20, "+" * 20, False),
            ("+" * 20, "-" + "+" * 19, False),
            ("+" * 20, "-" * 8 + "+" * 12, True),
            ("+" * 10 + "-" * 10, "-" + "+" * 10 + "-" * 9, False),
        ],
    )
    def test_the_p_value_decides(self, first: str, second: str, regression: bool) -> None:
        assert is_regression(compare(run(first), run(second))) is regression

    def test_it_is_said_in_one_sentence(self) -> None:
        comparison = compare(run("+" * 20), run("-" * 8 + "+" * 12))
        assert comparison.p_value == pytest.approx(1 / 512, abs=0.003)
        assert verdict(comparison).reason == (
            "the score fell by 40.00, more than the tolerance of 1.00, which is hardly chance "
            f"(p {comparison.p_value:.3f})"
        )

    def test_the_sentence_the_table_and_the_rule_are_one(self) -> None:
        first, second = run("+" * 20), run("-" * 4 + "+" * 16)
        p_value = compare(first, second).p_value
        assert p_value is not None
        for alpha, outcome in ((p_value + 0.001, "worse"), (p_value - 0.001, "inconclusive")):
            comparison = compare(first, second, rule=RegressionRule(alpha=alpha))
            assert verdict(comparison).outcome == outcome
            assert comparison.to_dict()["verdict"]["outcome"] == outcome

    def test_a_loss_that_may_be_chance_is_inconclusive_and_fails(self) -> None:
        comparison = compare(run("+" * 20), run("---" + "+" * 17))
        found = verdict(comparison)
        assert (found.outcome, found.passes) == ("inconclusive", False)
        assert found.reason == (
            "the score fell by 15.00, more than the tolerance of 1.00, which may be chance "
            f"(p {comparison.p_value:.3f}); run more cases or epochs"
        )

    def test_too_few_results_say_that_they_can_never_show_it(self) -> None:
        found = verdict(compare(run("+++-"), run("----")))
        assert found == RegressionVerdict(
            "inconclusive",
            False,
            "the score fell by 75.00, more than the tolerance of 0.75; 4 results are too "
            "few to tell a drop from chance (needs 5): add cases, or try --epochs 8",
        )
        assert is_regression(compare(run("+" * 5), run("-" * 5)))

    @pytest.mark.parametrize(
        ("first", "second", "outcome"),
        [
            ("+" * 1000, "+" * 1000, "not_worse"),
            ("+" * 4, "+" * 4, "inconclusive"),  # so few results cannot rule out a loss
            ("+-+-", "+-++", "inconclusive"),
            ("+-+-", "-++-", "inconclusive"),  # the same score, but a case broke
            ("-" * 20, "+" * 20, "better"),
        ],
    )
    def test_where_no_more_than_the_tolerance_is_lost_it_passes(
        self, first: str, second: str, outcome: str
    ) -> None:
        found = verdict(compare(run(first), run(second)))
        assert (found.outcome, found.passes) == (outcome, True)

    def test_noise_of_latency_or_cost_passes(self) -> None:
        formula = "success_pct - 100 * total_cost"
        first, second = run("++", formula=formula, cost=0.0001), run("++", cost=0.0002)
        assert verdict(compare(first, second)) == RegressionVerdict(
            "inconclusive",
            True,
            "the score fell by 0.02, within the tolerance of 1.00, but 2 results cannot rule out"
            " a loss of more than 1.00",
        )

    def test_strict_needs_no_test_where_nothing_got_lower(self) -> None:
        strict = RegressionRule(strict=True)
        found = verdict(compare(run("+-+-"), run("+-+-")), strict)
        assert (found.outcome, found.passes) == ("not_worse", True)

    def test_a_run_that_was_cut_short_is_never_not_worse(self) -> None:
        record, results = parts(run("++++"))
        cut = Run(replace(record, total=4), results[:2])
        assert verdict(compare(run("++++"), cut)) == RegressionVerdict(
            "inconclusive",
            True,
            "the score did not fall, but 2 results of the second run did not run",
        )

    def test_a_score_that_stays_did_not_fall(self) -> None:
        said = "the score did not fall, but 1 result cannot rule out a loss"
        assert verdict(compare(run("-"), run("-"))).reason == said

    @pytest.mark.parametrize(("fell", "regression"), [(1e-16, False), (9e-10, False), (2e-9, True)])
    def test_a_loss_within_rounding_is_none(self, fell: float, regression: bool) -> None:
        first, second = run("+", formula="total_cost", cost=1.0), run("+", cost=1.0 - fell)
        rule = RegressionRule(strict=True)
        assert is_regression(compare(first, second, rule=rule)) is regression

    def test_named_evals_need_results_enough_like_all(self) -> None:
        few = {"a": "+", "b": "+"}, {"a": "-", "b": "+"}
        many = {"a": "+" * 5, "b": "+" * 5}, {"a": "-" * 5, "b": "+" * 5}
        for (first, second), regression in ((few, False), (many, True)):
            comparison = compare(run(first), run(second), formula="2 * a + b")
            assert is_regression(comparison) is regression

    def test_a_score_that_is_lost_is_a_regression(self) -> None:
        formula = "success_pct / total_cost"
        found = verdict(compare(run("++", formula=formula), run("++", cost=None)))
        assert found.outcome == "worse"
        assert "total_cost has no value" in found.reason

    def test_a_run_in_which_nothing_ran_is_a_regression(self) -> None:
        found = verdict(compare(run("++"), run("!!")))
        assert found.outcome == "worse"
        assert "every case ended in an error" in found.reason

    def test_a_score_that_appears_is_none(self) -> None:
        formula = "success_pct / total_cost"
        first = run("++", formula=formula, cost=None)
        assert not is_regression(compare(first, run("--", formula=formula)))

    @pytest.mark.parametrize(("second", "regression"), [("+-", True), ("++", False)])
    def test_where_neither_has_a_score_the_cases_decide(
        self, second: str, regression: bool
    ) -> None:
        formula = "success_pct / total_cost"
        comparison = compare(run("++", formula=formula, cost=None), run(second, cost=None))
        assert is_regression(comparison) is regression

    def test_up_to_the_tolerance_may_be_lost(self) -> None:
        comparison = compare(run("+" * 20), run("-" * 8 + "+" * 12))
        for tolerance in (40, "40", "40%"):
            found = verdict(comparison, RegressionRule(tolerance=tolerance))
            assert (found.outcome, found.passes) == ("inconclusive", True)
            assert found.reason.startswith("the score fell by 40.00, within the tolerance of 40.00")
        assert verdict(comparison, RegressionRule(tolerance=80)).outcome == "not_worse"
        assert is_regression(comparison, RegressionRule(tolerance="39%"))

    def test_strict_finds_any_broken_case_worse(self) -> None:
        comparison = compare(run("+-" * 10), run("-+" + "++" * 9))
        strict = RegressionRule(strict=True)
        assert not is_regression(comparison)
        assert is_regression(comparison, strict)
        assert verdict(comparison, strict).reason == "cases that passed fail now: case0"

    def test_strict_finds_any_lower_score_worse(self) -> None:
        formula = "success_pct - 100 * total_cost"
        first, second = run("++", formula=formula, cost=0.01), run("++", cost=0.02)
        found = verdict(compare(first, second, rule=RegressionRule(strict=True)))
        assert found == RegressionVerdict(
            "worse", False, "the score fell by 2.00, and --strict allows no drop"
        )

    def test_strict_is_content_when_nothing_broke(self) -> None:
        comparison = compare(run("+-" * 10), run("+-" * 10))
        assert not is_regression(comparison, RegressionRule(strict=True))


def test_several_p_values_are_adjusted_by_holm() -> None:
    # As multipletests of statsmodels has it.
    adjusted = adjust_p_values([0.01, 0.04, None, 0.03, 0.20])
    assert adjusted == [
        pytest.approx(each) if each else None for each in (0.04, 0.09, None, 0.09, 0.2)
    ]


def test_several_comparisons_at_once_are_adjusted_and_say_so() -> None:
    first, second = run("+" * 20, "a"), run("-" * 5 + "+" * 15, "b")
    alone = compare(first, second)
    assert alone.p_value is not None
    assert alone.p_value <= 0.05
    found = compare_all([first, second, run("+" * 20, "c"), run("+" * 20, "d")])
    assert found[0].p_value == pytest.approx(3 * alone.p_value)
    assert "adjusted for 3 comparisons" in verdict(found[0]).reason


def test_runs_without_a_common_case_are_refused() -> None:
    with pytest.raises(InvalidInput, match="'one' and 'two' have no case in common"):
        compare(run({"a": "+"}, "one"), run({"b": "+"}, "two"))


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_runs_are_refused(count: int) -> None:
    runs: Sequence[Run] = [run("+")] * count
    with pytest.raises(InvalidInput, match="cannot be compared"):
        compare_all(runs)


def test_every_other_run_is_compared_with_the_first() -> None:
    found = compare_all([run("++", "a"), run("+-", "b"), run("--", "c")])
    assert [(each.first.id, each.second.id) for each in found] == [("a", "b"), ("a", "c")]


def test_the_same_seed_gives_the_same_comparison() -> None:
    first, second = run("+-" * 10), run("++-+" * 5)
    assert compare(first, second) == compare(first, second)


def test_the_json_holds_everything_and_no_nan() -> None:
    comparison = compare(run("+-" * 6), run("++" * 5 + "!!", cost=None))
    found = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
    assert found["score"]["difference"]["value"] == comparison.score.difference.value
    assert found["total_cost"]["second"] is None
    assert found["verdict"]["outcome"] == "inconclusive"  # cases could not run
    assert {change["kind"] for change in found["changes"]} == {"fixed", "error_now"}


def test_a_formula_of_errors_sees_them() -> None:
    first = run("+" * 20, formula="success_pct - error_pct")
    comparison = compare(first, run("+" * 8 + "!" * 12))
    assert (comparison.score.first, comparison.score.second) == (100.0, 40.0)
    assert comparison.p_value is not None
    assert comparison.p_value < 0.001
    assert is_regression(comparison)

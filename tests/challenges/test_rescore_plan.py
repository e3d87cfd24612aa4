"""Another rule for a challenge: what it is, what it takes, and what it refuses."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.store.contests.rescoring_games import DIMENSIONS, Halves, challenge

from tallymark.challenges.attempt import Attempt, Evaluation, Metrics, Outcome
from tallymark.challenges.attempt_scores import score_attempt
from tallymark.challenges.challenge import Challenge, Constraints, Evaluator, ScoringRule
from tallymark.challenges.rescore_plan import (
    RescorePlan,
    change_scoring,
    describe_rule,
    evaluation_of,
    find_need,
    formula_terms,
    make_rescorer,
)
from tallymark.errors import FormulaError, InvalidInput

JUDGED = challenge(evaluator=Evaluator(type="deterministic", options={}))


def scored(metrics: Metrics, dimensions: dict[str, float] | None = None, **facts: Any) -> Attempt:
    outcome = Outcome(score=1.0, ranks=True, metrics=metrics, dimensions=dimensions or {})
    plain = {"id": "a1", "challenge": "sums", "version": "1", "agent": "alice", "number": 1}
    plain |= {"state": "scored", "seed": 7, "entered_at": 0.0, "expires_at": 9.0}
    return Attempt(**{**plain, "submitted_at": 5.0, "outcome": outcome, **facts})


def test_another_formula_is_another_version() -> None:
    old = challenge()
    new = change_scoring(old, formula="tokens_total")
    assert new.scoring == ScoringRule(formula="tokens_total")
    assert new.version not in (old.version, change_scoring(old, formula="cost").version)
    assert new == change_scoring(old, formula="tokens_total")


def test_a_plugin_takes_the_place_of_a_formula_and_the_other_way_round() -> None:
    by_plugin = change_scoring(challenge(), plugin="halves:Halves", config={"times": 2})
    assert (by_plugin.scoring.formula, by_plugin.scoring.plugin) == (None, "halves:Halves")
    assert change_scoring(by_plugin, formula="cost").scoring.plugin is None


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"formula": "1000 - tokens_total"}, InvalidInput, "is scored so already"),
        ({"formula": "tokens"}, FormulaError, "unknown name 'tokens'"),
        ({"formula": "correctness"}, FormulaError, "unknown name 'correctness'"),
        ({"formula": "1", "plugin": "a:B"}, InvalidInput, "by a formula or by a plugin"),
    ],
    ids=["same", "unknown name", "no dimensions", "both"],
)
def test_what_is_no_new_rule(changes: dict[str, Any], error: type[InvalidInput], said: str) -> None:
    with pytest.raises(error, match=said):
        change_scoring(challenge(), **changes)


def replaced(old: Challenge, **changes: Any) -> Challenge:
    return msgspec.structs.replace(old, version="2", **changes)


WEIGHED = challenge(scoring=ScoringRule(formula="total", dimensions=DIMENSIONS))
SWAPPED = tuple(msgspec.structs.replace(each, weight=1 - each.weight) for each in DIMENSIONS)
INSTEAD = challenge(scoring=ScoringRule(formula="cost", config={"undefined": 0}))
NEEDS: list[tuple[str, Challenge, Challenge, bool, str]] = [
    ("formula", JUDGED, change_scoring(JUDGED, formula="cost"), True, "formula"),
    (
        "from a strategy",
        challenge(None),
        change_scoring(challenge(None), formula="1"),
        True,
        "formula",
    ),
    ("title", JUDGED, replaced(JUDGED, title="Other"), True, "formula"),
    ("plugin", JUDGED, change_scoring(JUDGED, plugin="a:B"), True, "score"),
    ("strategy", JUDGED, change_scoring(JUDGED, formula=None, strategy="first"), True, "score"),
    ("weights", WEIGHED, change_scoring(WEIGHED, dimensions=SWAPPED), True, "score"),
    ("constraints", JUDGED, replaced(JUDGED, constraints=Constraints(calls=1)), True, "score"),
    ("undefined", INSTEAD, change_scoring(INSTEAD, formula="calls"), True, "score"),
    ("time", JUDGED, replaced(JUDGED, time_limit_s=1.0), True, "score"),
    ("files", JUDGED, replaced(JUDGED), False, "evaluate"),
    ("data", JUDGED, replaced(JUDGED, generate="generate.py"), True, "evaluate"),
    ("reported", challenge(), replaced(challenge()), False, "formula"),
]


@pytest.mark.parametrize(
    ("old", "new", "same_files", "need"),
    [case[1:] for case in NEEDS],
    ids=[case[0] for case in NEEDS],
)
def test_what_a_new_version_takes(
    old: Challenge, new: Challenge, same_files: bool, need: str
) -> None:
    assert find_need(old, new, same_files=same_files) == need


def test_a_version_that_judges_otherwise_needs_an_evaluator() -> None:
    with pytest.raises(InvalidInput, match="judges submissions in another way"):
        RescorePlan.of(JUDGED, replaced(JUDGED), packed=b"other")


def test_the_origin_of_many_names_no_seed() -> None:
    plan = RescorePlan.of(challenge(), change_scoring(challenge(), plugin="a:B"), plugin=Halves())  # type: ignore[arg-type]
    assert (plan.origin.scorer, plan.origin.version) == ("halves", "abc")
    assert "seed" not in plan.origin.config
    assert plan.origin.config["challenge_version"] == plan.new.version


def test_attempts_are_scored_by_what_was_found() -> None:
    attempt = scored(Metrics(succeeded=True, tokens_total=40))
    evaluation = Evaluation(metrics=Metrics(succeeded=True, tokens_total=40))
    new = change_scoring(challenge(), formula="tokens_total / 2")
    assert make_rescorer(new)([(attempt, evaluation)]) == [
        (evaluation, score_attempt(new, evaluation, attempt=attempt))
    ]


def test_or_by_what_is_found_anew() -> None:
    attempt = scored(Metrics(succeeded=True, tokens_total=40))
    other = Evaluation(metrics=Metrics(succeeded=True, tokens_total=8))
    again = make_rescorer(challenge("tokens_total"), evaluate=lambda _: other)
    ((evaluation, outcome),) = again([(attempt, Evaluation())])
    assert (evaluation, outcome.score) == (other, 8)


def test_an_outcome_from_elsewhere_scores_alike() -> None:
    first = challenge(scoring=ScoringRule(formula="total", dimensions=DIMENSIONS))
    warning = {"message": "late", "severity": "error", "dimension": "completeness"}
    evaluation = Evaluation(
        metrics=Metrics(succeeded=True),
        dimensions={"correctness": 800, "completeness": 500},
        warnings=(warning,),
    )
    attempt = scored(evaluation.metrics)
    outcome = score_attempt(first, evaluation, attempt=attempt)
    again = score_attempt(first, evaluation_of(outcome), attempt=attempt)
    assert (again.score, again.result, again.dimensions) == (600, "draw", outcome.dimensions)


def test_terms_say_what_each_part_contributes() -> None:
    weighed = challenge(scoring=ScoringRule(formula="total - 2 * calls", dimensions=DIMENSIONS))
    attempt = scored(Metrics(calls=10), {"correctness": 800.0, "completeness": 400.0})
    assert formula_terms(weighed, attempt) == {"total": 700, "-2 * calls": -20}
    assert formula_terms(challenge(None), attempt) == {}


@pytest.mark.parametrize(
    ("scoring", "words"),
    [
        (ScoringRule(plugin="a:B"), "plugin a:B"),
        (ScoringRule(formula="cost"), "cost"),
        (ScoringRule(dimensions=DIMENSIONS), "dimensions"),
        (ScoringRule(strategy="first"), "first"),
    ],
    ids=["plugin", "formula", "dimensions", "strategy"],
)
def test_a_rule_in_few_words(scoring: ScoringRule, words: str) -> None:
    assert describe_rule(scoring) == words

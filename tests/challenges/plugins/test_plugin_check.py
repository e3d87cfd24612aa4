"""`check_plugin`: what it finds in plugins that are good, and in those that are not."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from tallymark.challenges.attempt_formula import parse_formula_plugin
from tallymark.challenges.plugins import PluginReport, check_plugin
from tallymark.challenges.plugins.plugin import BuiltinPlugin, PluginKind
from tallymark.challenges.plugins.plugin_check import ORDINARY, SAMPLES, SUCCEEDED
from tallymark.challenges.plugins.plugin_report import twin_name
from tallymark.scoring import Score, plugin_score


class ByFunction:
    """A plugin that is a function of the metrics, with nothing between it and the check."""

    kind: PluginKind = "sandboxed"
    name = "mine.py:Mine"
    code_hash = "c0de"

    def __init__(self, function: Callable[[Mapping[str, Any]], object]) -> None:
        self.function = function

    def score(
        self,
        metrics: Mapping[str, Any],
        config: Mapping[str, Any],
        ctx: Mapping[str, Any],
        timeout_s: float = 5.0,
    ) -> Score:
        given = self.function(metrics)
        return given if isinstance(given, Score) else plugin_score({"score": given}, origin=None)

    def score_many(
        self,
        attempts: Sequence[Mapping[str, Any]],
        config: Mapping[str, Any],
        ctx: Mapping[str, Any],
        timeout_s: float = 5.0,
        users: Sequence[str | None] | None = None,
    ) -> list[Score]:
        return [self.score(metrics, config, ctx) for metrics in attempts]


def checked(function: Callable[[Mapping[str, Any]], object]) -> PluginReport:
    return check_plugin(ByFunction(function), {})


def rating(metrics: Mapping[str, Any]) -> float:
    return float(max(metrics.get("rating") or 0, 0))


def test_the_built_in_scorer_passes() -> None:
    report = check_plugin(BuiltinPlugin("builtin.weighted_scorer"), {"rating_weight": 15.0})
    assert (report.ok, report.problems, report.warnings) == (True, [], [])
    assert len(report.trials) == len(SAMPLES) > 30


def test_samples_have_the_ordinary_and_the_awkward() -> None:
    for name in ORDINARY:
        assert name not in SAMPLES[f"without {name}"]
    assert SAMPLES["nothing known"] == {}
    assert set(SAMPLES["all null"].values()) == {True, None}
    assert SAMPLES["huge tokens and time"]["tokens_total"] == 2**63 - 1
    assert SAMPLES["rating 1000"]["rating"] > 10
    assert isinstance(SAMPLES["fractions"]["tokens_total"], float)
    assert min(SAMPLES["negative numbers"].values()) < 0
    for name, metrics in SUCCEEDED.items():
        assert SAMPLES[twin_name(name)] == {**metrics, "succeeded": False}


def raising(metrics: Mapping[str, Any]) -> object:
    return metrics["rating"] if "rating" in metrics else Score.failed("it raised KeyError")


def test_attempts_without_a_score_are_listed_with_the_reason() -> None:
    report = checked(raising)
    assert not report.ok
    assert "no score: it raised KeyError (without rating and 4 more)" in report.problems
    assert "no score: the score is a number, not None (all null; all null, failed)" in (
        report.problems
    )


@pytest.mark.parametrize("value", [math.nan, math.inf, "8", None])
def test_what_is_no_finite_number_is_a_problem(value: object) -> None:
    report = checked(lambda _: value)
    assert len(report.problems) == 1
    assert report.problems[0].startswith("no score: the score is a ")


def test_a_plugin_that_is_not_deterministic() -> None:
    count = itertools.count()
    report = checked(lambda _: next(count))
    assert report.problems[0] == "not deterministic: ordinary: 1 and 2 (and 37 more)"


def test_details_that_change_are_not_deterministic_either() -> None:
    count = itertools.count()
    report = checked(lambda m: Score(rating(m), metadata={"details": {"at": next(count)}}))
    assert report.problems[0].startswith(
        "not deterministic: ordinary: 8 and 8 with other details (and "
    )


def test_failing_must_not_pay() -> None:
    report = checked(lambda m: rating(m) + (0 if m.get("succeeded") else 1))
    said = "failing pays: ordinary: 9 if it failed, 8 if it succeeded (and 17 more)"
    assert report.problems == [said]


def test_negative_scores_are_a_warning() -> None:
    report = checked(lambda m: m.get("rating") or 0)
    assert report.ok
    assert report.warnings == [
        "scores below 0, down to -5, count as 0: negative numbers; negative numbers, failed"
    ]


def test_a_constant_is_a_warning() -> None:
    report = checked(lambda _: 7)
    assert report.ok
    assert report.warnings == ["every attempt gets the same score, 7"]


def test_warnings_of_the_sandbox_are_passed_on_once() -> None:
    report = checked(lambda m: Score(rating(m), metadata={"warning": "ran without a sandbox"}))
    assert report.warnings == ["ran without a sandbox"]


def test_a_plugin_that_runs_out_of_time_is_not_tried_to_the_end() -> None:
    calls = []

    def slow(metrics: Mapping[str, Any]) -> Score:
        calls.append(metrics)
        return Score.failed("it took longer than 5 s", metadata={"stopped": "timeout"})

    report = checked(slow)
    assert len(calls) == 4
    assert report.problems == [
        "no score: it took longer than 5 s (ordinary; excellent; poor)",
        f"the check ended early, after 3 of {len(SAMPLES)} attempts",
    ]


def test_a_formula_may_need_its_metrics() -> None:
    report = check_plugin(parse_formula_plugin("formula: rating * succeeded"), {})
    assert report.ok
    assert report.warnings[0] == "no score: rating has no value (without rating and 6 more)"


def test_a_formula_that_divides_by_zero_has_a_problem() -> None:
    report = check_plugin(parse_formula_plugin("formula: rating / tokens_total"), {})
    assert report.problems == [
        "no score: division by zero: tokens_total is 0 (tokens_total 0 and 3 more)"
    ]


def test_the_report_as_text() -> None:
    report = check_plugin(BuiltinPlugin("builtin.weighted_scorer"), {"rating_weight": 15.0})
    lines = "\n".join(map(str, report.parts())).splitlines()
    assert lines[0] == "builtin.weighted_scorer"
    assert lines[1].split() == ["code", report.code_hash]
    assert lines[2] == 'config   {"rating_weight": 15.0}'
    assert lines[4].split() == ["attempt", "score", "if", "it", "failed"]
    assert lines[5].split() == ["ordinary", "193", "93"]
    assert lines[-1] == "this plugin passes the check"
    assert max(map(len, lines)) <= 80


def test_the_report_of_a_plugin_that_fails_as_text() -> None:
    text = "\n".join(map(str, checked(raising).parts()))
    assert "problem  no score: it raised KeyError (without rating and 4 more)" in text
    assert "\nwithout rating        no score      no score\n" in text
    assert text.endswith("this plugin does not pass the check")


def test_the_report_as_json() -> None:
    def odd(metrics: Mapping[str, Any]) -> Score:
        return Score(rating(metrics), metadata={"details": {"a": math.nan}})

    report = check_plugin(ByFunction(odd), {"x": math.inf})
    document = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert (document["plugin"], document["ok"], document["config"]) == (
        "mine.py:Mine",
        True,
        {"x": None},
    )
    assert len(document["attempts"]) == len(SAMPLES)
    first = document["attempts"][0]
    assert (first["attempt"], first["metrics"], first["score"]) == ("ordinary", ORDINARY, 8.0)
    assert 0 <= document["median_ms"] <= document["worst_ms"] < 5000

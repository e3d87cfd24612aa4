"""`scorer`: any scorer, its value by name."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.suites.checks.built_checks import built, checked, subject
from tests.suites.suite_texts import load

from tallymark.errors import ScorerError
from tallymark.runs.record import CaseResult
from tallymark.runs.tally import Tally
from tallymark.scoring import EvalContext, Score, Scorer
from tallymark.suites.checks.check_definition import Checks, CheckSetting
from tallymark.suites.checks.scorer_check import scorer_name


def fixed(value: Any, **facts: Any) -> CheckSetting:
    """A setting in which every scorer gives this value."""
    scorer = Scorer(lambda ctx: value, name="fixed", blocking=False, **facts)
    return CheckSetting(load=lambda *_, **__: scorer)


@pytest.mark.parametrize(
    ("value", "threshold", "passed"),
    [
        (0.7, 0.7, True),
        (0.69, 0.7, False),
        (0.1 + 0.2 + 0.4, 0.7, True),
        (sum([0.1] * 8), 0.8, True),  # 0.7999999999999999
        (0.7 - 2e-9, 0.7, False),
        (0.0, 0.0, True),
        (True, 1, True),
    ],
)
def test_the_threshold_is_included(value: Any, threshold: float, passed: bool) -> None:
    check = built("scorer", {"use": "fixed", "threshold": threshold}, load=fixed(value).load)
    (result,) = Checks.of([check]).run(subject())
    assert (result.passed, result.value, result.name) == (passed, float(value), "fixed")


@pytest.mark.parametrize(
    ("own", "facts", "reached"),
    [
        ({}, {}, 0.7),
        ({}, {"suite_threshold": 0.2}, 0.2),
        ({}, {"suite_threshold": 0.2, "scorer": 0.3}, 0.3),
        ({}, {"threshold": 0.4, "scorer": 0.3}, 0.4),
        ({"threshold": 0.5}, {"threshold": 0.4, "scorer": 0.3}, 0.5),
    ],
)
def test_which_threshold_counts(
    own: dict[str, float], facts: dict[str, float], reached: float
) -> None:
    load = fixed(0.0, threshold=facts.pop("scorer", None)).load
    check = built("scorer", {"use": "fixed", **own}, load=load, **facts)
    (result,) = Checks.of([check]).run(subject())
    assert (result.value, result.threshold, result.reason) == (0.0, reached, "")


@pytest.mark.parametrize(
    ("returned", "error"),
    [
        (Score.failed("the service is down"), "the service is down"),
        ("text", "fixed"),
        (float("nan"), "fixed"),
    ],
)
def test_a_scorer_that_fails_is_an_error_and_never_a_zero(returned: Any, error: str) -> None:
    load = fixed(returned).load
    (result,) = Checks.of([built("scorer", "fixed", load=load)]).run(subject())
    assert (result.passed, result.value, result.name) == (False, None, "fixed")
    assert error in str(result.error)


def test_a_label_without_a_number_has_nothing_to_reach_and_passes() -> None:
    load = fixed(Score(None, label="good", reason="so it is"), data_type="categorical").load
    (result,) = Checks.of([built("scorer", "fixed", load=load)]).run(subject())
    assert (result.passed, result.value, result.error) == (True, None, None)
    assert (result.label, result.reason) == ("good", "so it is")


def test_all_that_the_scorer_told_is_kept() -> None:
    load = fixed(Score(0.5, reason="half", metadata={"seen": 2}), version="v2").load
    (result,) = Checks.of([built("scorer", "fixed", load=load)]).run(subject())
    assert (result.kind, result.reason, result.metadata) == ("scorer", "half", {"seen": 2})
    assert result.version == "v2"


def test_what_the_scorer_sees() -> None:
    seen: list[EvalContext] = []

    def look(ctx: EvalContext) -> float:
        seen.append(ctx)
        return 1.0

    scorer = Scorer(look, name="look", blocking=False)
    about = subject("the output", output_tokens=3, cost=0.5)
    Checks.of([built("scorer", "look", load=lambda *_, **__: scorer)]).run(about)
    assert (seen[0].output, seen[0].input) == ("the output", "the prompt")
    assert (seen[0].trace.cost, seen[0].trace.output_tokens) == (0.5, 3)


def test_an_async_scorer_is_awaited() -> None:
    async def score(ctx: EvalContext) -> float:
        await asyncio.sleep(0)
        return 0.9

    scorer = Scorer(score, name="slow")
    checks = Checks.of([built("scorer", "slow", load=lambda *_, **__: scorer)])
    assert checks.waits
    (result,) = asyncio.run(checks.evaluate(subject()))
    assert (result.passed, result.value) == (True, 0.9)


def test_a_file_is_found_beside_the_suite(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from tallymark.scoring import configurable\n"
        "@configurable(blocking=False)\n"
        "def polite(word: str):\n"
        "    return lambda ctx: word in ctx.output\n"
    )
    config = {"use": "mine.py:polite", "options": {"word": "please"}, "name": "manners"}
    check = built("scorer", config, folder=tmp_path)
    (result,) = Checks.of([check]).run(subject("yes please"))
    assert (result.passed, result.name, result.value) == (True, "manners", 1.0)


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ("word_count", "word_count"),
        ("word_count(low=2)", "word_count"),
        ('word_count(name="length")', "length"),
        ("my.py:polite", "polite"),
        ({"use": "word_count", "name": "n"}, "n"),
        ("{{var('s')}}", None),
        ({"use": "{{var('s')}}", "name": "n"}, "n"),
    ],
)
def test_how_formulas_call_it(config: Any, name: str | None) -> None:
    assert scorer_name(config) == name


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("word_cont", "there is no scorer 'word_cont'"),
        ("word_count(", "the options cannot be read"),
        ("word_count(lo=2)", "word_count has no option 'lo'"),
        ({"use": "word_count", "options": {"low": "x"}}, "the option 'low' is 'x'"),
        ("none.py:x", "there is no file"),
        (":x", "does not name a scorer"),
    ],
)
def test_what_is_refused(config: Any, said: str) -> None:
    with pytest.raises(ScorerError) as caught:
        built("scorer", config)
    assert said in str(caught.value)


def test_a_real_one() -> None:
    result = checked("scorer", {"use": "word_count", "options": {"low": 4}}, "one two")
    assert (result.value, result.threshold, result.passed) == (0.5, 0.7, False)
    assert result.reason == "Response has 2 words"


def test_several_scores_are_parts_of_the_check() -> None:
    several = fixed({"tone": 0.9, "facts": 0.2})
    check = built("scorer", {"use": "fixed", "gives": ["tone", "facts"]}, load=several.load)
    (result,) = Checks.of([check]).run(subject())
    assert (result.passed, result.name, result.reason) == (False, None, "1 of 2 scores passed")
    assert [(part.name, part.value, part.passed) for part in result.parts] == [
        ("tone", 0.9, True),
        ("facts", 0.2, False),
    ]
    case = CaseResult(case="c", status="failed", checks=(result,))
    assert list(case.scores) == ["tone", "facts"]
    assert Tally([case]).metrics()["facts"] == 0.2


def test_several_scores_of_which_one_failed_could_not_be_done() -> None:
    several = fixed({"tone": 0.9, "facts": Score.failed("no key")})
    check = built("scorer", {"use": "fixed"}, load=several.load)
    (result,) = Checks.of([check]).run(subject())
    assert (result.passed, result.error) == (False, "no key")


def test_formulas_know_the_names_of_several_scores() -> None:
    text = """
    score: {formula: tone * facts_median}
    evals: [{prompt: Hi, checks: [{scorer: {use: word_count, gives: [tone, facts]}}]}]
    """
    assert load(text).scorer_names == ("tone", "facts")


def test_options_beside_the_reference_name_it_too() -> None:
    given = {"use": "autoevals", "options": {"name": "Levenshtein"}}
    assert scorer_name(given) == "levenshtein"
    assert scorer_name({**given, "options": {"name": "{{ var('which') }}"}}) is None

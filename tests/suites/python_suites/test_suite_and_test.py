"""`Test` and `Suite`: what they accept, and what they refuse when they are made."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tallymark.errors import InvalidInput, ScorerError
from tallymark.scoring import EvalContext, Expected, scorer
from tallymark.suites import Suite, Test


@scorer(blocking=False)
def word_count(ctx: EvalContext) -> float:
    return min(1.0, len(ctx.output.split()) / 20)


@scorer(blocking=False)
def polite(ctx: EvalContext) -> bool:
    return "thanks" in ctx.output


@pytest.mark.parametrize(
    "expected",
    [
        {"output_contains": ["refund"], "tool_calls": ["search"]},
        {"outputContains": ["refund"], "toolCalls": ["search"]},
        Expected(output_contains=["refund"], tool_calls=["search"]),
    ],
)
def test_expected_is_taken_in_either_spelling(expected: Any) -> None:
    made = Test("t", expected=expected).expected
    assert (made.output_contains, made.tool_calls) == (["refund"], ["search"])


@pytest.mark.parametrize("given", ["text", {"query": "Hello"}, ["a"], 7, None, object()])
def test_an_input_may_be_any_value(given: object) -> None:
    assert Test("t", given).input is given


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"name": ""}, "'' cannot name a test"),
        ({"name": "two\nlines"}, "cannot name a test"),
        ({"name": 7}, "7 (int) cannot name a test"),
        ({"expected": {"output_contains": "refund"}}, "test 't': expected: Expected `array"),
        ({"metadata": "x"}, "test 't': metadata must be a mapping, not 'x'"),
        ({"threshold": 2}, "test 't': threshold is 2 (int); it must be a number from 0 to 1"),
        ({"threshold": math.nan}, "threshold is nan"),
        ({"threshold": True}, "threshold is True"),
        ({"timeout": 0}, "test 't': timeout is 0 (int); it must be seconds above 0"),
        ({"timeout": "5"}, "timeout is '5'"),
    ],
)
def test_a_test_refuses(facts: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as error:
        Test(**{"name": "t", **facts})
    assert said in str(error.value)


def test_a_test_brings_a_scorer_or_names_some_of_the_suite() -> None:
    suite = Suite(
        "s",
        [
            Test("inline", scorer=polite),
            Test("named", scorers=["words"]),
            Test("both", scorer="words", scorers=[polite]),
            Test("none"),
        ],
        scorers={"words": word_count, "polite": polite},
    )
    names = {test.name: [each.name for each in suite.scorers_of(test)] for test in suite.tests}
    assert names == {
        "inline": ["polite"],
        "named": ["words"],
        "both": ["words", "polite"],
        "none": ["words", "polite"],
    }
    assert suite.scorer_names == ["polite", "words"]


def test_a_registered_scorer_is_named_with_its_options() -> None:
    reference = "contains(values=['a'], name='has_a')"
    suite = Suite("s", [Test("t", scorers=[reference])], scorers={"words": "word_count"})
    assert [each.name for each in suite.scorers_of(suite.tests[0])] == ["has_a"]
    assert suite.scorers["words"].origin.scorer == "words"


@pytest.mark.parametrize(
    ("tests", "scorers", "said"),
    [
        (["polit"], {"polite": polite}, "suite 's', test 't': there is no scorer 'polit'; did you"),
        (["contans"], {}, "did you mean 'contains'?"),
        (["contans(values=['a'])"], {}, "there is no scorer 'contans'; did you mean 'contains'?"),
        (["contains(value=['a'])"], {}, "test 't': contains has no option 'value'; did you mean"),
        (["zzzzzz"], {}, "there is no scorer 'zzzzzz'; name one of the suite or of the registry"),
        ([len], {}, "test 't': <built-in function len> (builtin_function_or_method) is not a"),
        ([polite, polite], {}, "test 't': more than one scorer is named 'polite'"),
        ([], {}, "test 't' has no scorer; give it `scorer=`, or give the suite `scorers=`"),
        ([polite], {"bad": 3}, "suite 's': 3 (int) is not a scorer"),
        ([polite], {"not a name": polite}, "'not a name' cannot name a scorer"),
    ],
)
def test_a_suite_refuses_scorers(tests: list[Any], scorers: dict[str, Any], said: str) -> None:
    with pytest.raises((InvalidInput, ScorerError)) as error:
        Suite("s", [Test("t", scorers=tests)], scorers=scorers)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"name": " "}, "cannot name a suite"),
        ({"tests": []}, "suite 's' has no tests"),
        ({"tests": [Test("a"), Test("a")]}, "suite 's': more than one test is named 'a'"),
        ({"tests": ["a"]}, "suite 's': 'a' is not a Test"),
        ({"threshold": 1.5}, "suite 's': threshold is 1.5"),
        ({"epochs": 0}, "suite 's': epochs is 0 (int); it must be a whole number above 0"),
        ({"parallelism": 1.5}, "suite 's': parallelism is 1.5"),
        ({"timeout": -1}, "suite 's': timeout is -1"),
    ],
)
def test_a_suite_refuses(facts: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as error:
        Suite(**{"name": "s", "tests": [Test("a")], "scorers": {"polite": polite}, **facts})
    assert said in str(error.value)


def test_a_choice_of_tests_keeps_everything_else() -> None:
    suite = Suite("s", [Test("a"), Test("b")], scorers={"polite": polite}, epochs=3, threshold=0)
    chosen = suite.only(suite.tests[1:])
    assert [test.name for test in chosen.tests] == ["b"]
    assert (chosen.epochs, chosen.threshold, len(suite.tests)) == (3, 0.0, 2)


def test_pytest_does_not_take_our_names_for_tests() -> None:
    assert Test.__test__ is False

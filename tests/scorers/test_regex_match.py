from __future__ import annotations

from typing import Any

import pytest
from tests.scorers.contexts import said

from tallymark.errors import ScorerError
from tallymark.scorers.regex_match import regex_match
from tallymark.scoring import load_scorer

EMAIL = r"\b[\w.-]+@[\w.-]+\.\w+\b"


@pytest.mark.parametrize(
    ("options", "output", "found"),
    [
        ({"pattern": EMAIL}, "Write to ann@example.com.", True),
        ({"pattern": EMAIL}, "Write to ann at example.com.", False),
        ({"pattern": EMAIL}, "", False),
        ({"pattern": ""}, "", True),
        ({"pattern": "paris"}, "Paris", False),
        ({"pattern": "paris", "ignore_case": True}, "Paris", True),
        ({"pattern": "STRASSE"}, "Straße", False),
        ({"pattern": "ÉTÉ", "ignore_case": True}, "l'été", True),
        ({"pattern": "^b"}, "a\nb", False),
        ({"pattern": "(?m)^b"}, "a\nb", True),
        ({"pattern": "a.b"}, "a\nb", False),
        ({"pattern": "(?s)a.b"}, "a\nb", True),
        ({"pattern": r"\d"}, "٣", True),
        ({"pattern": r"(?a)\d"}, "٣", False),
        ({"pattern": "🎉$"}, "Done 🎉", True),
    ],
)
def test_a_pattern_is_found_or_not(options: dict[str, Any], output: str, found: bool) -> None:
    score = regex_match(**options).score(said(output))
    assert score.value == float(found)
    assert score.reason == ("Pattern matched" if found else "Pattern not found")


def test_a_search_that_explodes_is_stopped_and_has_no_value() -> None:
    score = regex_match(r"(a|aa)+$", time_limit=0.05).score(said("a" * 200 + "b"))
    assert (score.value, score.error) == (None, "regex_match: the pattern took longer than 0.05 s")


def test_it_can_have_a_name_of_its_own() -> None:
    has_email = load_scorer(rf'regex_match(pattern=r"{EMAIL}", name="has_email")')
    assert (has_email.name, has_email.score(said("a@b.co")).value) == ("has_email", 1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "regex_match needs the option 'pattern'"),
        ({"pattern": None}, "the option 'pattern' is None"),
        ({"pattern": "(a"}, "'pattern' is '(a', which is not a regular expression: missing )"),
        ({"pattern": "*"}, "which is not a regular expression"),
        ({"pattern": "a", "time_limit": 0}, "'time_limit' is 0.0; it must be more than 0"),
        ({"pattern": "a", "time_limit": float("nan")}, "'time_limit' is nan"),
        ({"pattern": "a", "ignore_case": "yes"}, "the option 'ignore_case' is 'yes'"),
    ],
)
def test_refused_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ScorerError) as refused:
        regex_match(**options)
    assert message in str(refused.value)


def test_it_may_be_named_where_it_is_made() -> None:
    made = regex_match("a", name="has_a", threshold=0.5, retries=1)
    assert (made.name, made.threshold, made.retries) == ("has_a", 0.5, 1)
    assert made.origin.config["pattern"] == "a"


def test_a_backspace_is_refused_and_a_words_edge_is_meant() -> None:
    with pytest.raises(ScorerError, match="holds a backspace character") as refused:
        regex_match(pattern="\bfoo")
    assert refused.value.problems[0].hint == (
        "write \\\\b, or in YAML put the pattern in single quotes"
    )
    for written in (r'"\bfoo\b"', r'"\\bfoo\\b"', r'r"\bfoo\b"'):
        made = load_scorer(f"regex_match(pattern={written})")
        assert [made.score(said(text)).value for text in ("a foo", "food")] == [1.0, 0.0]

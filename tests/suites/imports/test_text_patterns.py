"""Regular expressions that say what another tool says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.dimensions.primitives import levenshtein
from tallymark.scorers.timed_regex import compile_regex
from tallymark.suites.imports import text_patterns as patterns


@pytest.mark.parametrize(
    ("pattern", "found", "not_found"),
    [
        (
            "\\bfoo\\s+bar\\b",
            ["foo  bar", "foo\xa0bar"],
            ["xfoo bar", "me.x@a-b.c", "line\nend", "end\n", "", "  "],
        ),
        (
            "[\\w-.]+@[\\w.-]+",
            ["me.x@a-b.c"],
            ["foo  bar", "foo\xa0bar", "xfoo bar", "line\nend", "end\n", ""],
        ),
        (
            "[\\s\\S]*end$",
            ["line\nend"],
            ["foo  bar", "foo\xa0bar", "xfoo bar", "me.x@a-b.c", "end\n", ""],
        ),
        (
            "^\\s*$",
            ["", "  ", "\ufeff", "\t"],
            ["foo  bar", "foo\xa0bar", "xfoo bar", "me.x@a-b.c", "line\nend", "end\n"],
        ),
        (
            "\\d+",
            ["5", "$5"],
            ["foo  bar", "foo\xa0bar", "xfoo bar", "me.x@a-b.c", "line\nend", "end\n"],
        ),
        (
            "\\w\\W\\w",
            ["foo\xa0bar", "xfoo bar", "me.x@a-b.c", "line\nend", "a\nc"],
            ["foo  bar", "end\n", "", "  ", "\ufeff", "\x1c"],
        ),
        (
            "a.c",
            ["abc"],
            ["foo  bar", "foo\xa0bar", "xfoo bar", "me.x@a-b.c", "line\nend", "end\n"],
        ),
        (
            "^a$|b",
            ["foo  bar", "foo\xa0bar", "xfoo bar", "me.x@a-b.c", "abc"],
            ["line\nend", "end\n", "", "  ", "\ufeff", "\x1c"],
        ),
        (
            "[&|~]+",
            ["&|"],
            ["foo  bar", "foo\xa0bar", "xfoo bar", "me.x@a-b.c", "line\nend", "end\n"],
        ),
        (
            "\\u00e9",
            ["\xe9", "\xe9foo"],
            ["foo  bar", "foo\xa0bar", "xfoo bar", "me.x@a-b.c", "line\nend", "end\n"],
        ),
        (
            "\\Bfoo",
            ["xfoo bar"],
            ["foo  bar", "foo\xa0bar", "me.x@a-b.c", "line\nend", "end\n", ""],
        ),
        (
            "(a)(b)?\\2",
            ["foo  bar", "foo\xa0bar", "xfoo bar", "me.x@a-b.c", "a\nc"],
            ["line\nend", "end\n", "", "  ", "\ufeff", "\x1c"],
        ),
        (
            "\\S+",
            ["foo  bar", "foo\xa0bar", "xfoo bar", "me.x@a-b.c", "line\nend"],
            ["", "  ", "\ufeff", "\t"],
        ),
    ],
)
def test_javascripts_patterns_find_what_node_finds(
    pattern: str, found: list[str], not_found: list[str]
) -> None:
    translated = patterns.translate_javascript(pattern)
    assert translated is not None
    search = compile_regex(translated)
    assert [text for text in found + not_found if search(text)] == found
    opposite = compile_regex(patterns.not_all([translated]))
    assert [text for text in found + not_found if opposite(text)] == not_found


@pytest.mark.parametrize(
    "pattern", [r"\p{L}", r"(?i)a", "(a", r"[\D]", r"[]", r"\cA", r"\u{1F600}"]
)
def test_what_python_cannot_say_is_not_said(pattern: str) -> None:
    assert patterns.translate_javascript(pattern) is None


TEXTS = st.text("abA.*\n ", max_size=6)


@given(TEXTS, TEXTS, st.integers(0, 3))
def test_each_pattern_is_a_plain_question(text: str, answer: str, edits: int) -> None:
    questions = {
        patterns.found(text): text in answer,
        patterns.found(text, ignore_case=True): text.lower() in answer.lower(),
        patterns.starts_with(text): answer.startswith(text),
        patterns.ends_with(text): answer.endswith(text),
        patterns.equals(text): answer == text,
        patterns.found_any([text, "b"]): text in answer or "b" in answer,
        patterns.not_all([patterns.found(text), patterns.found("b")]): not (
            text in answer and "b" in answer
        ),
        patterns.NEVER: False,
    }
    if text:
        questions[patterns.within_edits(text, edits)] = levenshtein(text, answer) <= edits
    for pattern, expected in questions.items():
        assert compile_regex(pattern)(answer) is expected, pattern

"""Text that is not YAML gets one sentence that helps."""

from __future__ import annotations

import pytest

from tallymark.documents.source import Source
from tallymark.documents.yaml_parser import parse_yaml
from tallymark.errors import InvalidInput


def problem_of(text: str) -> str:
    """What is said first, whether or not it stops the reading."""
    try:
        _, problems = parse_yaml(Source(text, "f"))
    except InvalidInput as error:
        return str(error.problems[0])
    return str(problems[0])


@pytest.mark.parametrize(
    ("line", "mended"),
    [
        ("prompt: Solve: 2x + 5 = 15", 'prompt: "Solve: 2x + 5 = 15"'),
        ('- prompt: He said: "hi"', "- prompt: 'He said: \"hi\"'"),
        ("match: *4*", 'match: "*4*"'),
        ("- match: *hello world*", '- match: "*hello world*"'),
        ("- *4*", '- "*4*"'),
        ("match: @home", 'match: "@home"'),
        ("match: `code`", 'match: "`code`"'),
        ("match: %d", 'match: "%d"'),
        ("match: & more", 'match: "& more"'),
        ("prompt: > 5", 'prompt: "> 5"'),
        ("prompt: ? really", 'prompt: "? really"'),
        ("prompt: - dash", 'prompt: "- dash"'),
        ('prompt: "Hello" he said', "prompt: '\"Hello\" he said'"),
        ("prompt: 'it's'", 'prompt: "it\'s"'),
        ("prompt: {{var('x')}} please", "prompt: \"{{var('x')}} please\""),
        ("prompt: {{var('x')}}", "prompt: \"{{var('x')}}\""),
    ],
)
def test_a_line_that_lacks_quotes_is_shown_with_quotes(line: str, mended: str) -> None:
    said = problem_of(line)
    assert said.startswith("f:1:")
    assert said.endswith(f"put the text in quotes: {mended}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('a: "b\nc: d\n', "f:1:4: the quote that opens here is never closed"),
        ("a: [1, 2\nb: 3", "f:1:4: the '[' that opens here is never closed; close it with ']'"),
        ("a: {b: x\nc: 3", "f:1:4: the '{' that opens here is never closed; close it with '}'"),
        ("a: [{b: [x]}\nc: 3", "f:1:4: the '[' that opens here is never closed; close it with ']'"),
        ("- {b: cut #here}\n- c", "close it with '}'; ' #' begins a comment, unless quotes are"),
        ("a: [x\nb: 3", "f:1:4: the '[' that opens here is never closed; put the text in quotes"),
        ("a:\n\t- b", "f:2:1: there is a tab before the text; YAML wants spaces there"),
        ("a:\n  b: 1\n c: 2", "f:3:2: the indentation of this line does not fit"),
        ("a:\n  - b: x\n   c: []", "f:3:4: the indentation of this line does not fit"),
        ("a: 1\n- b", "f:2:1: the indentation of this line does not fit"),
        ("a:\n  b: x\n     c: y", "f:3:7: this line reads as a part of the line above"),
        ("a:1\nb: 2", "above it, a key needs ': ' after it"),
        ('a: "\\d+"', "use single quotes: '\\d+'"),
        ("%YAML 9.9\n---\na: 1", "f:1:1: not valid YAML: found incompatible YAML document"),
    ],
)
def test_other_mistakes_are_named_where_they_begin(text: str, said: str) -> None:
    assert said in problem_of(text)


def test_the_user_sees_the_line_with_a_caret() -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_yaml(Source("a: 1\nprompt: Solve: 2x\n", "f"))
    assert caught.value.render().splitlines()[1:] == ["  prompt: Solve: 2x", "               ^"]


def test_a_line_without_end_takes_no_time() -> None:
    said = problem_of("a: x" + " " * 1_000_000 + ": : y")
    assert said.startswith("f:1:1000005: not valid YAML: mapping values are not allowed")

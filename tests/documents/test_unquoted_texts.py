"""Text without its quotes is read where it can be nothing else, and told of."""

from __future__ import annotations

from typing import Any

import pytest

from tallymark.documents.reader import Reader, open_document, to_plain
from tallymark.documents.source import Source
from tallymark.errors import InvalidInput


def read(text: str) -> tuple[Any, Reader]:
    reader = open_document(Source(text, "f"), "suite")
    return to_plain(reader.root, reader), reader


@pytest.mark.parametrize(
    "text",
    [
        "Solve: 2x + 5 = 15",
        'He said: "hi"',
        'Say "hi": now',
        "Translate this:",
        "-5: 3",
        "it's: fine",
        "*4*",
        "*hello world*",
        "*hola",
        "@home",
        "`code`",
        "%d",
        '"Hello" he said',
        "'a': b",
        "{{var('x')}}",
        "{{var('x')}} please: now",
        "[INST] hi [/INST]",
    ],
)
@pytest.mark.parametrize("head", ["prompt: ", "- prompt: ", "a:\n  - b: c\n    prompt: "])
def test_plain_text_is_read_as_it_stands_with_a_warning(head: str, text: str) -> None:
    found, reader = read(f"{head}{text}\n")
    assert repr(text) in repr(found)
    assert reader.problems == []
    (warning,) = reader.warnings
    assert warning.place is not None
    line = head.count("\n") + 1
    assert (warning.place.line, warning.place.column) == (line, len(head.splitlines()[-1]) + 1)
    assert (warning.hint or "").startswith("put the text in quotes: ")


def test_the_hint_mends_it() -> None:
    _, reader = read("prompt: Solve: 2x\n")
    _, _, mended = (reader.warnings[0].hint or "").partition("quotes: ")
    found, reader = read(mended)
    assert (found, reader.warnings) == ({"prompt": "Solve: 2x"}, ())


@pytest.mark.parametrize("text", ["*4*", "@home", "`code`", "%d", "{{var('x')}}", "[INST] hi"])
def test_an_unquoted_item_of_a_list_is_read_as_text(text: str) -> None:
    found, reader = read(f"- {text}\n- b\n")
    assert (found, len(reader.warnings)) == ([text, "b"], 1)


def test_a_comment_stays_one() -> None:
    assert read("a: b: c  # said\nd: 1")[0] == {"a": "b: c", "d": 1}


@pytest.mark.parametrize(
    "text",
    [
        "prompt: Translate this:\n  hello",
        "prompt: a: b\n  c",
        "prompt: - dash",
        "prompt: > 5",
        "prompt: ? really",
        "prompt: & more",
        "prompt: 'it's'",
        'prompt: "say "hi" now"',
        "prompt: [a, b",
        "prompt: !upper hi",
        "prompt: {a: b: c}",
        "a: &name x\nmatch: *nam",
        "a:\n  b: x\n     c: y: z",
        "checks: - match: x: y",
        "- <<: text\n  prompt: hi",
        "- odd key: a: b",
        '- "a": b\n  "a": c',
    ],
)
def test_where_two_readings_are_plausible_nothing_is_guessed(text: str) -> None:
    with pytest.raises(InvalidInput):
        read(text)[1].check()


def test_only_suites_are_read_so() -> None:
    with pytest.raises(InvalidInput, match="has a ': '"):
        open_document(Source("name: a: b", "f"), "challenge")


def test_other_syntax_errors_are_still_reported() -> None:
    with pytest.raises(InvalidInput, match="f:2:4: the quote that opens here is never closed"):
        read('a: b: c\nd: "x')


def test_many_lines_take_little_time() -> None:
    found, reader = read("".join(f"k{n}: a: {n}\n" for n in range(60)))
    assert (len(found), len(reader.warnings)) == (60, 60)

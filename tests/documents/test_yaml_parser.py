"""YAML as nodes with places, by libyaml's events."""

from __future__ import annotations

import math
import sys
from typing import Any

import pytest

from tallymark.documents.source import Source
from tallymark.documents.yaml_parser import (
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    parse_yaml,
    scalar_value,
)
from tallymark.errors import InvalidInput, WorkFailed


def parse(text: str) -> tuple[Node | None, list[str]]:
    root, problems = parse_yaml(Source(text, "f"))
    return root, [str(problem) for problem in problems]


def at(root: Node | None, *path: str | int) -> Node:
    for step in path:
        if isinstance(step, int):
            assert isinstance(root, SequenceNode)
            root = root.items[step]
        else:
            assert isinstance(root, MappingNode)
            root = root.get(step)
    assert root is not None
    return root


@pytest.mark.parametrize(
    ("text", "path", "line", "column"),
    [
        ("a: b", ("a",), 1, 4),
        ("a:\n  - b\n  - c", ("a", 1), 3, 5),
        ("a: 'é日本'\nb: x", ("b",), 2, 4),
        ("'日本': x", ("日本",), 1, 7),
        ("a: {b: c}", ("a", "b"), 1, 8),
        ("a: |\n  x\nb: y", ("b",), 3, 4),
        ("\n\n  # c\na: b", ("a",), 4, 4),
    ],
)
def test_every_node_knows_its_place(
    text: str, path: tuple[str | int, ...], line: int, column: int
) -> None:
    root, _ = parse(text)
    node = at(root, *path)
    assert (node.line, node.column) == (line, column)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: plain text", "plain text"),
        ("a: over\n  two lines", "over two lines"),
        ('a: "q\\n\\u00e9"', "q\né"),
        ("a: 'it''s'", "it's"),
        ("a: |\n  x\n   y\n", "x\n y\n"),
        ("a: >-\n  x\n  y\n", "x y"),
        ("a: what is 2 + 2? # a comment", "what is 2 + 2?"),
        ("a: http://x/#y", "http://x/#y"),
        ('{"a":"json"}', "json"),
    ],
)
def test_text_is_read(text: str, value: str) -> None:
    root, problems = parse(text)
    node = at(root, "a")
    assert isinstance(node, ScalarNode)
    assert (node.text, problems) == (value, [])


def test_a_key_that_is_there_twice() -> None:
    root, problems = parse("a: 1\nb: 2\na: 3")
    assert problems == [
        "f:3:1: the key 'a' is here twice: first on line 1; delete or rename one of them"
    ]
    first = at(root, "a")
    assert isinstance(first, ScalarNode)
    assert first.text == "1"


def test_anchors_and_merges() -> None:
    root, problems = parse("x-d: &d {a: 1, b: 2}\ny: &y {b: 3, <<: *d}\nz: {<<: [*y, *d]}\nw: *d")
    assert problems == []
    assert [at(root, key, "b").text for key in "wyz"] == ["2", "3", "3"]  # type: ignore[attr-defined]
    assert at(root, "z", "a") is at(root, "w", "a")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: &x 1\nb: {<<: *x}", "f:2:5: '<<' needs a mapping, such as *defaults"),
        ("a: !secret x", "f:1:4: the tag !secret is not known here; put text that starts with"),
        ("a: !!python/object:os.system x", "the tag !!python/object:os.system is not known here"),
        ("a: !!set {x}", "the tag !!set is not known here"),
        ("? [a, b]\n: c", "f:1:3: a key must be a single text"),
        (
            "a: *b",
            'f:1:4: text that starts with * must stand in quotes; put the text in quotes: a: "*b"',
        ),
        (
            "a: {{var('x')}}",
            "a template must stand in quotes; put the text in quotes: a: \"{{var('x')}}\"",
        ),
    ],
)
def test_mistakes_that_do_not_hide_the_rest(text: str, said: str) -> None:
    _, problems = parse(text)
    assert said in problems[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 200, "f:1:101: more than 100 levels of nesting"),
        ("- " * 200, "more than 100 levels of nesting"),
        ("a: &a [*a]", "f:1:8: '*a' refers to the node that it is in"),
        ("a: 1\n---\nb: 2", "f:2:1: a second document begins here; a file holds one suite"),
    ],
)
def test_what_stops_the_reading(text: str, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(text)
    assert said in str(caught.value)


def test_a_billion_laughs_are_refused() -> None:
    lines = ["a0: &a0 [" + ", ".join(["lol"] * 10) + "]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    with pytest.raises(InvalidInput, match="more than 2,000,000 values, aliases counted"):
        parse("\n".join(lines))


def test_many_aliases_of_one_small_node_are_fine() -> None:
    root, problems = parse("x-a: &a [1]\nb: [" + ", ".join(["*a"] * 1000) + "]")
    node = at(root, "b")
    assert isinstance(node, SequenceNode)
    assert (len(node.items), problems) == (1000, [])


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(InvalidInput, match="f:1:7: a backslash in double quotes"):
        parse('a: "\\ud800"')


def test_where_libyaml_is_missing_one_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml.cyaml", None)
    with pytest.raises(WorkFailed, match="PyYAML was built without libyaml"):
        parse("a: 1")


@pytest.mark.parametrize(
    "text", ["no", "yes", "on", "off", "y", "n", "12:30", "1_000", "0b1", "1e"]
)
def test_words_that_older_yaml_misread_are_text(text: str) -> None:
    assert scalar_value(text, "", None) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None), ("~", None), ("null", None), ("NULL", None),
        ("true", True), ("False", False),
        ("0", 0), ("-7", -7), ("+7", 7), ("007", 7), ("0o17", 15), ("0xfF", 255),
        ("0.5", 0.5), (".5", 0.5), ("5.", 5.0), ("1e3", 1000.0), ("-1.5E-2", -0.015),
        (".inf", math.inf), ("-.INF", -math.inf),
    ],
)  # fmt: skip
def test_what_is_not_text(text: str, value: Any) -> None:
    read = scalar_value(text, "", None)
    assert (read, type(read)) == (value, type(value))


def test_not_a_number_is_one() -> None:
    value = scalar_value(".nan", "", None)
    assert isinstance(value, float)
    assert math.isnan(value)


def test_quotes_make_text() -> None:
    assert scalar_value("42", '"', None) == "42"


@pytest.mark.parametrize(("tag", "value"), [("str", "42"), ("int", 42)])
def test_a_tag_decides(tag: str, value: Any) -> None:
    assert scalar_value("42", "'", f"tag:yaml.org,2002:{tag}") == value


def test_a_huge_number_is_read_in_no_time() -> None:
    assert scalar_value("9" * 100_000, "", None) == math.inf

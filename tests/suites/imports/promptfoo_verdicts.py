"""What promptfoo 0.121 says to answers by its assertions, as its own runs showed it."""

from __future__ import annotations

from typing import Any

VERDICTS: list[tuple[dict[str, Any], list[str], list[str]]] = [
    # An assertion, the answers that pass, and those that do not.
    (
        {"type": "equals", "value": "Paris"},
        ["Paris"],
        ["paris", " Paris ", "The capital is Paris.", "PARIS, France", "London", "a.b", "axb"],
    ),
    (
        {"type": "contains", "value": "Paris"},
        ["Paris", " Paris ", "The capital is Paris."],
        ["paris", "PARIS, France", "London", "a.b", "axb"],
    ),
    (
        {"type": "icontains", "value": "Paris"},
        ["Paris", "paris", " Paris ", "The capital is Paris.", "PARIS, France"],
        ["London", "a.b", "axb"],
    ),
    (
        {"type": "starts-with", "value": "Paris"},
        ["Paris"],
        ["paris", " Paris ", "The capital is Paris.", "PARIS, France", "London", "a.b", "axb"],
    ),
    (
        {"type": "not-equals", "value": "Paris"},
        ["paris", " Paris ", "The capital is Paris.", "PARIS, France", "London", "a.b", "axb"],
        ["Paris"],
    ),
    (
        {"type": "not-contains", "value": "Paris"},
        ["paris", "PARIS, France", "London", "a.b", "axb"],
        ["Paris", " Paris ", "The capital is Paris."],
    ),
    (
        {"type": "not-icontains", "value": "Paris"},
        ["London", "a.b", "axb"],
        ["Paris", "paris", " Paris ", "The capital is Paris.", "PARIS, France"],
    ),
    (
        {"type": "not-starts-with", "value": "Paris"},
        ["paris", " Paris ", "The capital is Paris.", "PARIS, France", "London", "a.b", "axb"],
        ["Paris"],
    ),
    ({"type": "contains", "value": "a.b"}, ["a.b"], ["axb", "A.B"]),
    ({"type": "contains", "value": 5}, ["5 apples"], ["five"]),
    ({"type": "equals", "value": 5}, ["5"], ["5.0", " 5"]),
    ({"type": "equals", "value": 5.0}, ["5"], ["5.0"]),
    ({"type": "equals", "value": True}, ["true"], ["True"]),
    (
        {"type": "contains-all", "value": ["Red", "blue"]},
        ["Red and blue"],
        ["red and blue", "Red only", "green", "BLUE RED"],
    ),
    (
        {"type": "contains-all", "value": "Red, blue"},
        ["Red and blue"],
        ["red and blue", "Red only", "green"],
    ),
    (
        {"type": "contains-any", "value": ["Red", "blue"]},
        ["Red and blue", "red and blue", "Red only"],
        ["green", "BLUE RED"],
    ),
    (
        {"type": "contains-any", "value": "Red, blue"},
        ["Red and blue", "red and blue", "Red only"],
        ["green"],
    ),
    (
        {"type": "icontains-all", "value": ["Red", "blue"]},
        ["Red and blue", "red and blue", "BLUE RED"],
        ["Red only", "green"],
    ),
    (
        {"type": "icontains-all", "value": "Red, blue"},
        ["Red and blue", "red and blue"],
        ["Red only", "green"],
    ),
    (
        {"type": "icontains-any", "value": ["Red", "blue"]},
        ["Red and blue", "red and blue", "Red only", "BLUE RED"],
        ["green"],
    ),
    (
        {"type": "icontains-any", "value": "Red, blue"},
        ["Red and blue", "red and blue", "Red only"],
        ["green"],
    ),
    (
        {"type": "not-contains-all", "value": ["Red", "blue"]},
        ["red and blue", "Red only", "green", "BLUE RED"],
        ["Red and blue"],
    ),
    (
        {"type": "not-contains-all", "value": "Red, blue"},
        ["red and blue", "Red only", "green"],
        ["Red and blue"],
    ),
    (
        {"type": "not-contains-any", "value": ["Red", "blue"]},
        ["green", "BLUE RED"],
        ["Red and blue", "red and blue", "Red only"],
    ),
    (
        {"type": "not-contains-any", "value": "Red, blue"},
        ["green"],
        ["Red and blue", "red and blue", "Red only"],
    ),
    (
        {"type": "not-icontains-all", "value": ["Red", "blue"]},
        ["Red only", "green"],
        ["Red and blue", "red and blue", "BLUE RED"],
    ),
    (
        {"type": "not-icontains-all", "value": "Red, blue"},
        ["Red only", "green"],
        ["Red and blue", "red and blue"],
    ),
    (
        {"type": "not-icontains-any", "value": ["Red", "blue"]},
        ["green"],
        ["Red and blue", "red and blue", "Red only", "BLUE RED"],
    ),
    (
        {"type": "not-icontains-any", "value": "Red, blue"},
        ["green"],
        ["Red and blue", "red and blue", "Red only"],
    ),
    ({"type": "contains-any", "value": '"a, b", c'}, ["a, b", "c"], ["a", "x"]),
    (
        {"type": "regex", "value": "^\\d{3}-\\d{4}$"},
        ["555-1234"],
        ["x555-1234", "\u0665\u0665\u0665-1234"],
    ),
    (
        {"type": "not-regex", "value": "^\\d{3}-\\d{4}$"},
        ["x555-1234", "\u0665\u0665\u0665-1234"],
        ["555-1234"],
    ),
    ({"type": "regex", "value": "colou?r"}, ["color"], ["Colour", "colr"]),
    ({"type": "not-regex", "value": "colou?r"}, ["Colour", "colr"], ["color"]),
    ({"type": "regex", "value": "a.b"}, ["axb"], ["a\nb", "a\rb"]),
    ({"type": "not-regex", "value": "a.b"}, ["a\nb", "a\rb"], ["axb"]),
    ({"type": "regex", "value": "\\bfoo\\b"}, ["a foo b", "éfoo"], ["foobar"]),
    ({"type": "not-regex", "value": "\\bfoo\\b"}, ["foobar"], ["a foo b", "éfoo"]),
    ({"type": "regex", "value": "[\\d.]+%"}, ["12.5%"], ["%"]),
    ({"type": "not-regex", "value": "[\\d.]+%"}, ["%"], ["12.5%"]),
    ({"type": "regex", "value": "(\\w+) \\1"}, ["hey hey", "hey you"], ["é é"]),
    ({"type": "not-regex", "value": "(\\w+) \\1"}, ["é é"], ["hey hey", "hey you"]),
    ({"type": "regex", "value": "^$"}, [], ["x"]),
    ({"type": "not-regex", "value": "^$"}, ["x"], []),
    ({"type": "regex", "value": "\\/path\\/"}, ["/path/"], []),
    ({"type": "not-regex", "value": "\\/path\\/"}, [], ["/path/"]),
    ({"type": "regex", "value": "a$"}, ["a", "ba"], []),
    ({"type": "not-regex", "value": "a$"}, [], ["a", "ba"]),
    ({"type": "regex", "value": "[^\\s]+@[^\\s]+"}, ["me@x"], ["@"]),
    ({"type": "not-regex", "value": "[^\\s]+@[^\\s]+"}, ["@"], ["me@x"]),
    ({"type": "regex", "value": "(?<year>\\d{4})"}, ["2024"], ["x"]),
    ({"type": "not-regex", "value": "(?<year>\\d{4})"}, ["x"], ["2024"]),
    ({"type": "regex", "value": "x{2,}"}, ["xx"], ["x"]),
    ({"type": "not-regex", "value": "x{2,}"}, ["x"], ["xx"]),
    ({"type": "regex", "value": "[[]"}, ["["], ["x"]),
    ({"type": "not-regex", "value": "[[]"}, ["x"], ["["]),
    ({"type": "regex", "value": "^a|b$"}, ["ab", "cb"], ["c"]),
    ({"type": "not-regex", "value": "^a|b$"}, ["c"], ["ab", "cb"]),
    (
        {"type": "is-json"},
        ['{"a": 1}', "[1]", "5", '"x"'],
        ["nope", '```json\n{"a": 1}\n```', '{"a": NaN}', '{"a": 1} x'],
    ),
    (
        {
            "type": "is-json",
            "value": {"type": "object", "required": ["a"], "properties": {"a": {"type": "number"}}},
        },
        ['{"a": 1}', '{"a": 1.0}'],
        ['{"a": "x"}', "{}", "[]", "nope"],
    ),
    (
        {"type": "equals", "value": {"a": 1, "b": [True]}},
        ['{"b":[true],"a":1}', '{"a": 1.0, "b": [true]}'],
        ['{"a":1,"b":[1]}', '{"a":1}', "x"],
    ),
    (
        {"type": "levenshtein", "value": "hello world", "threshold": 2},
        ["hello world", "hello wrld", "helo wrld", "hello world!!"],
        ["hel wrd", "hello world!!!"],
    ),
    ({"type": "levenshtein", "value": "kitten"}, ["kitten", "sitting"], ["completely different"]),
    ({"type": "not-levenshtein", "value": "hello", "threshold": 1}, ["hullos"], ["hello", "hallo"]),
    (
        {
            "type": "assert-set",
            "assert": [{"type": "contains", "value": "a"}, {"type": "contains", "value": "b"}],
        },
        ["a b"],
        ["a", "c"],
    ),
    (
        {
            "type": "assert-set",
            "threshold": 0.5,
            "assert": [
                {"type": "contains", "value": "a"},
                {"type": "contains", "value": "b"},
                {"type": "contains", "value": "c"},
            ],
        },
        ["a b", "c b a"],
        ["a", "x"],
    ),
    ({"type": "contains", "value": "{{who}}"}, ["hi Bob."], ["hi bob"]),
    ({"type": "regex", "value": "^{{who}}"}, ["Bob."], ["hi Bob"]),
]

WEIGHED: list[dict[str, Any]] = [
    {"type": "contains", "value": "a", "weight": 2},
    {"type": "contains", "value": "b"},
    {"type": "contains", "value": "c", "weight": 0.5},
]

THRESHOLDS: dict[float, tuple[list[str], list[str]]] = {
    0: (["a b c", "a b", "a", "x"], []),
    0.3: (["a b c", "a b", "a"], ["x"]),
    0.5: (["a b c", "a b", "a"], ["x"]),
    0.67: (["a b c", "a b"], ["a", "x"]),
    1: (["a b c"], ["a b", "a", "x"]),
    1.1: ([], ["a b c", "a b", "a", "x"]),
}
"""Over those three assertions: the answers that pass, and those that do not."""

"""What no check accepts as its config, with the place in the suite."""

from __future__ import annotations

import pytest
from tests.suites.suite_texts import mistakes

from tallymark.suites.checks.check_types import CHECK_TYPES


@pytest.mark.parametrize(
    ("check", "said"),
    [
        ("match: 4", 'match: expected text, but 4 is a number; write "4"'),
        ("match:", "match: expected text, but nothing is written here"),
        ("match: {a: b}", "match: expected text, but this is a mapping"),
        ("match: [a, 1]", "match: expected text, but 1 is a number"),
        ("not_match: true", "not_match: expected text, but true is a truth value"),
        ('regex: "("', "regex: this is not a regular expression"),
        ('regex: ""', "regex: expected text, but it is empty"),
        ("max_tokens: many", "max_tokens: expected a whole number, 0 or more, but 'many' is text"),
        ("max_tokens: 1.5", "max_tokens: expected a whole number, 0 or more, but 1.5 is a number"),
        ("min_tokens: -1", "min_tokens: -1 is not a whole number, 0 or more"),
        ("min_tokens: [1]", "min_tokens: expected a whole number, 0 or more, but this is a list"),
        ("semantic: {threshold: 0.5}", "semantic: the key 'expected' is missing"),
        (
            "semantic: {expected: a, treshold: 1}",
            "unknown key 'treshold'; did you mean 'threshold'?",
        ),
        (
            "semantic: {expected: a, threshold: 1.5}",
            "semantic, threshold: 1.5 is not a number from 0 to 1",
        ),
        ("semantic: {expected: a, options: {x: 1}}", "semantic_similarity has no option 'x'"),
        ("llm_judge: {}", "llm_judge: the key 'criteria' is missing"),
        ("llm_judge: {criteria: a, options: {x: 1}}", "llm_judge has no option 'x'"),
        (
            "json_schema: [1]",
            "json_schema: expected the path of a file or a JSON Schema, but this is",
        ),
        ("json_schema: {type: strin}", "json_schema: the schema is wrong at"),
        ("max_latency: 0", "max_latency: 0 is not a number above 0"),
        ("max_latency: .inf", "max_latency: inf is not a number above 0"),
        ("max_cost: -1", "max_cost: -1 is not a number, 0 or more"),
        ("max_cost: $1", "max_cost: expected a number, 0 or more, but '$1' is text"),
        ("tool_called: {arguments: {}}", "tool_called: the key 'name' is missing"),
        (
            "tool_called: {name: a, arguments: b}",
            "arguments: expected a mapping of arguments, but 'b'",
        ),
        ("tool_called: {name: a, arguments: {x: .nan}}", ".nan is not a finite number"),
        ("not_tool_called: 5", "not_tool_called: expected a tool's name, but 5 is a number"),
        ("scorer: {name: x}", "scorer: the key 'use' is missing"),
        ("scorer: nothing_like_it", "scorer: there is no scorer 'nothing_like_it'"),
        ("scorer: [word_count]", "scorer: expected a scorer such as word_count"),
        ("or: match", "or: expected a list of checks, one of which must pass"),
    ],
)
def test_a_wrong_config_has_its_place(check: str, said: str) -> None:
    found = mistakes(f"evals:\n  - prompt: a\n    checks:\n      - {check}\n")
    assert len(found) == 1
    assert found[0].startswith("suite.yaml:4:")
    assert said in found[0]


def test_every_check_says_what_it_is_for() -> None:
    for kind, each in CHECK_TYPES.items():
        assert each.kind == kind
        assert each.help.endswith((".", "text."))

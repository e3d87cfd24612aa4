"""What a suite may not say, each with its place, its keys and a way to mend it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.suites.suite_texts import load, mistakes

EVAL = "- prompt: hi\n    checks: [match: hi]"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("eval: []", "suite.yaml:1:1: unknown key 'eval'; did you mean 'evals'?"),
        ("evals: []", "suite.yaml:1:8: evals: the list is empty"),
        (
            "evals: hi",
            "evals: expected a list, each of a mapping with 'prompt' and 'checks', but 'hi'",
        ),
        ("evals:", "suite.yaml:1:1: evals: expected a list, each of a mapping with 'prompt' and"),
        (
            "evals: [hi]",
            "evals, #1: expected a mapping with 'prompt' and 'checks', but 'hi' is text",
        ),
        (
            "metadata: []\nevals: []",
            "metadata: expected a mapping with the suite's name and settings",
        ),
        (
            "frobnicate: 1",
            "unknown key 'frobnicate'; the keys here are metadata, prompts, evals, score",
        ),
    ],
)
def test_at_the_top(text: str, said: str) -> None:
    assert said in "\n".join(mistakes(text))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("name: 5", 'name: expected text, but 5 is a number; write "5"'),
        ('name: ""', "name: expected text, but it is empty"),
        ("model: []", "model: the list is empty"),
        ("model: [a, 1]", "model, #2: expected text, but 1 is a number"),
        ("modle: a", "unknown key 'modle'; did you mean 'model'?"),
        ("system-prompt: a", "unknown key 'system-prompt'; did you mean 'system_prompt'?"),
        ("systemPrompt: a", "unknown key 'systemPrompt'; did you mean 'system_prompt'?"),
        (
            "system_prompt:",
            "suite.yaml:2:3: metadata, system_prompt: expected text, but nothing is",
        ),
        ("threads: 0", "threads: 0 is not a whole number from 1 to 10,000"),
        ("threads: 2.5", "threads: expected a whole number from 1 to 10,000, but 2.5 is a number"),
        ("threads: true", "threads: expected a whole number from 1 to 10,000, but true is a truth"),
        ("threads: many", "threads: expected a whole number from 1 to 10,000, but 'many' is text"),
        ("timeout: 0", "timeout: 0 is not a number above 0"),
        ("timeout: .inf", "timeout: inf is not a number above 0"),
        ("timeout: .nan", "timeout: nan is not a number above 0"),
        ("retries: -1", "retries: -1 is not a whole number from 0 to 100"),
        ("threshold: 70", "threshold: 70 is not a number from 0 to 1"),
        ("pricing: {input: 3}", "pricing: the key 'output' is missing"),
        ("pricing: {input: -3, output: 1}", "pricing, input: -3 is not a number, 0 or more"),
        ("pricing: 3", "pricing: expected a mapping with 'input' and 'output', but 3 is a number"),
        (
            "settings: {temprature: 0}",
            "settings: unknown key 'temprature'; did you mean 'temperature'?",
        ),
        ("settings: {temperature: hot}", "settings, temperature: expected a number from 0 to 2"),
        ("mcp_server: {name: x}", "mcp_server: an MCP server has either a 'url' or a 'command'"),
        ("mcp_server: {url: x, command: y}", "an MCP server has either a 'url' or a 'command'"),
        ("mcp_server: {url: x, token: y}", "mcp_server: unknown key 'token'"),
        (
            "mcp_server: {command: x, args: -v}",
            "args: expected a list, each of text, but '-v' is text",
        ),
        ("vars: {a: [1]}", "vars, a: expected text, a number or a truth value, but this is a list"),
        ("tags: {a: .nan}", "tags, a: .nan is not a finite number"),
    ],
)
def test_in_the_metadata(line: str, said: str) -> None:
    assert said in "\n".join(mistakes(f"metadata:\n  {line}\nevals:\n  {EVAL}"))


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            ["prompt: hi"],
            "evals, #1: nothing is checked; add 'checks'; write checks: [] to measure only",
        ),
        (["checks: []"], "evals, #1: an eval has either a 'prompt' or 'turns'"),
        (["prompt: a", "turns: [b]", "checks: []"], "an eval has either a 'prompt' or 'turns'"),
        (["prompt:", "checks: []"], "prompt: expected text, but nothing is written here"),
        (["prompt: 42", "checks: []"], 'prompt: expected text, but 42 is a number; write "42"'),
        (["promt: a", "checks: []"], "unknown key 'promt'; did you mean 'prompt'?"),
        (
            ["prompt: a", "checks: [mach: x]"],
            "checks, #1: unknown key 'mach'; did you mean 'match'?",
        ),
        (
            ["prompt: a", 'checks: ["*4*"]'],
            'checks, #1: expected a check; write - match: "**4**", or',
        ),
        (["prompt: a", "checks: hi"], "checks: expected a list of checks, such as - match"),
        (
            ["prompt: a", "checks: [{}]"],
            "checks, #1: expected a check; the checks are match, not_match",
        ),
        (["prompt: a", "checks: [x-note: y]"], "checks, #1: expected a check"),
        (
            ["prompt: a", "checks: [or: []]"],
            "checks, #1, or: expected a list of checks, one of which",
        ),
        (["prompt: a", "checks: {or: {match: b}}"], "checks, or: expected a list of checks"),
        (
            ["prompt: a", "checks: [or: [{or: [mtch: b]}]]"],
            "checks, #1, or, #1, or, #1: unknown key",
        ),
        (["prompt: a", "checks: [match: []]"], "checks, #1, match: the list is empty"),
        (["turns: []", "checks: []"], "turns: the list is empty"),
        (["turns: [{user: a, assistant: b}]", "checks: []"], "so the model is never called"),
        (["turns: [{assistant: b}, c]", "checks: []"], "turns, #1: the key 'user' is missing"),
        (
            ["turns: [{user: a, assistant: b, checks: []}, c]", "checks: []"],
            "turns, #1: a turn with 'assistant' has no answer to check",
        ),
        (
            ["prompt: a", "epochs: 0", "checks: []"],
            "epochs: 0 is not a whole number from 1 to 10,000",
        ),
        (
            ["prompt: a", "expected: {tool_calls: 5}", "checks: []"],
            "Expected `array | null`, got `int`",
        ),
        (["prompt: a", "expected: {tool_calls: [{}]}", "checks: []"], "has no key 'name'"),
        (["prompt: a", "scorers: [nope]"], "scorer: there is no scorer 'nope'"),
    ],
)
def test_in_an_eval(lines: list[str], said: str) -> None:
    entry = "\n    ".join(lines)
    assert said in "\n".join(mistakes(f"evals:\n  - {entry}\n"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("success_pct", "eval name 'success_pct' is reserved for the run-wide metric"),
        ("sqrt", "eval name 'sqrt' is reserved for the function sqrt()"),
        ("max", "eval 'max' would make 'max_latency', which is a run-wide metric"),
        ("two words", "eval name 'two words' has a character that formulas cannot use"),
        ('"12"', "eval name '12' reads as a number"),
        ("first", "two evals are named 'first': number 1 and 2"),
        ("first_cost", "eval 'first' would make 'first_cost', which is the name of another eval"),
    ],
)
def test_names_of_evals(name: str, said: str) -> None:
    text = f"""
    evals:
      - {{name: first, prompt: a, checks: [match: a]}}
      - {{name: {name}, prompt: b, checks: [match: b]}}
    """
    found = mistakes(text)
    assert said in "\n".join(found)
    assert found[0].startswith(("suite.yaml:3:12: ", "suite.yaml:2:12: "))


@pytest.mark.parametrize(
    ("score", "place", "said"),
    [
        (
            "succes_pct",
            "5:8",
            "score, formula: unknown name 'succes_pct'; did you mean 'success_pct'?",
        ),
        ("{formula: success_pct / tota_cost}", "5:32", "unknown name 'tota_cost'"),
        ('{formula: "success_pct / tota_cost"}', "5:33", "unknown name 'tota_cost'"),
        ("|\n  success_pct\n  / tota_cost\n", "7:5", "unknown name 'tota_cost'"),
        (">\n  success_pct\n  / tota_cost\n", "7:5", "unknown name 'tota_cost'"),
        ("success_pct\n  / tota_cost", "6:5", "unknown name 'tota_cost'"),
        ("success_pct +", "5:21", "score, formula: "),
        ("first + secnd", "5:16", "unknown name 'secnd'; did you mean 'second'?"),
        ("{}", "5:8", "score: the key 'formula' is missing"),
        ("{formula: 3}", "5:18", 'expected text with a formula, but 3 is a number; write "3"'),
        ("{formula: '3', undefined: none}", "5:34", "score, undefined: expected a number"),
        (
            "{formula: '3', undefind: 0}",
            "5:23",
            "unknown key 'undefind'; did you mean 'undefined'?",
        ),
        ("success_pct * {{secret('k')}}", "5:8", "a formula is shown, so it has no secrets"),
    ],
)
def test_the_score(score: str, place: str, said: str) -> None:
    text = (
        "evals:\n"
        "  - {name: first, prompt: a, checks: [match: a]}\n"
        "  - {name: second, prompt: b, checks: [match: b]}\n"
        "x-empty: ''\n"
        f"score: {score}"
    )
    found = mistakes(text)
    assert len(found) == 1
    assert found[0].startswith(f"suite.yaml:{place}: ")
    assert said in found[0]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("avg_cost", "the scorer's name 'avg_cost' is also the name of a run-wide metric"),
        ("capital", "the scorer's name 'capital' is also the name of an eval, or made by one"),
        ("capital_cost", "also the name of an eval, or made by one; give it another"),
        ("min", "is reserved for the function min()"),
        ("a b", "has a character that formulas cannot use"),
    ],
)
def test_names_of_scorers(name: str, said: str) -> None:
    text = f"""
    evals:
      - name: capital
        prompt: a
        checks: [scorer: {{use: word_count, name: {name}}}]
    """
    assert said in "\n".join(mistakes(text))


def test_every_mistake_comes_at_once_in_the_order_of_the_file() -> None:
    found = mistakes("""
        metadata:
          modle: x
          threads: four
        evals:
          - name: success_pct
            prompt: 1
            checks: [mach: a, regex: "["]
          - prompt: b
        score: sucess
    """)
    lines = [int(each.split(":")[1]) for each in found]
    assert lines == sorted(lines)
    assert len(found) == 8


def test_a_misspelt_key_is_not_reported_as_missing_too() -> None:
    assert len(mistakes("evals: [{promt: a, chekcs: []}]\nscore: {formla: success_pct}")) == 3


def test_a_flood_of_mistakes_is_cut() -> None:
    found = mistakes("evals:\n" + "  - {promt: a, checks: []}\n" * 300)
    assert (len(found), found[-1]) == (101, "and 200 more mistakes")


def test_of_a_flood_only_what_is_shown_is_worked_out() -> None:
    found = mistakes("evals:\n" + "  - {promt: a, checks: [max_tokens: {}]}\n" * 20_000)
    assert (len(found), found[-1]) == (101, "and 39900 more mistakes")


def test_keys_that_start_with_x_are_the_users_own() -> None:
    suite = load("""
        x-anything: &same {checks: [match: hi]}
        metadata: {name: n, x-owner: me}
        evals:
          - {prompt: hi, <<: *same, x-note: {deep: [1, .nan]}}
        score: {formula: success_pct, x-why: y}
    """)
    assert suite.name == "n"
    assert suite.to_json().count("x-") == 0


def test_one_check_under_a_key_may_be_broken_by_a_file(tmp_path: Path) -> None:
    text = "evals:\n  - {prompt: a, checks: [json_schema: none.json]}"
    assert "json_schema: json_schema: " in mistakes(text, tmp_path)[0]

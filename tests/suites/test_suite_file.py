"""What a suite says, once it is loaded."""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec
import pytest
from tests.suites.suite_texts import load

from tallymark.documents.source import Source
from tallymark.errors import InvalidInput
from tallymark.formula import Formula
from tallymark.models.token_prices import Pricing
from tallymark.scoring import Scorer, default_registry
from tallymark.suites.checks.check_definition import CheckSpec
from tallymark.suites.suite_definition import SuiteDefinition, Turn
from tallymark.suites.suite_file import load_source, load_stored, load_suite
from tallymark.suites.suite_findings import validate

WHOLE = """
    metadata:
      name: whole
      description: all keys
      model: [a/b, c/d]
      system_prompt: Be brief
      threads: 8
      mcp_server:
        - {url: https://x.example/mcp, authorization_token: "{{secret('t')}}", headers: {x-a: b}}
        - {command: server, args: [-v, ""], env: {A: b}}
      pricing: {input: 3, output: 15}
      settings: {temperature: 0, max_tokens: 99, stop_sequences: [END], extra: {top_k: 5}}
      timeout: 1.5
      retries: 2
      epochs: 3
      threshold: 0.8
      judge: openai/gpt-5-mini
      vars: {city: Paris, n: 3}
      tags: [nightly]
    evals:
      - name: one
        turns:
          - hello
          - {user: again, assistant: scripted}
          - {user: bye, checks: [max_tokens: 5]}
        system_prompt: ""
        checks:
          match: ["*a*", "*b*"]
          or:
            - {match: c, not_match: d}
            - or: [min_tokens: 1]
        scorers: word_count
        expected: {output: x, tool_calls: [search]}
        threshold: 0.5
        vars: {k: v}
        epochs: 2
        timeout: 9
        tags: [slow]
        metadata: {team: desk}
      - prompt: two
        checks: []
    score: {formula: success_pct + one + word_count, undefined: -1}
"""


@pytest.fixture(scope="module")
def whole() -> SuiteDefinition:
    return load(WHOLE)


def test_the_metadata(whole: SuiteDefinition) -> None:
    assert whole.models == ("a/b", "c/d")
    assert whole.pricing == Pricing(3.0, 15.0)
    assert whole.settings == {
        "temperature": 0,
        "max_tokens": 99,
        "stop_sequences": ["END"],
        "top_k": 5,
    }
    assert whole.tags == {"nightly": True}
    assert (whole.threads, whole.timeout, whole.retries, whole.epochs) == (8, 1.5, 2, 3)
    assert (whole.formula, whole.undefined) == ("success_pct + one + word_count", -1)
    assert [server.get("command") for server in whole.mcp_servers] == [None, "server"]


def test_the_turns(whole: SuiteDefinition) -> None:
    first, second, third = whole.evals[0].turns
    assert (first, second) == (Turn("hello"), Turn("again", "scripted"))
    assert [check.kind for check in third.checks] == ["max_tokens"]


def test_lists_mappings_and_alternatives_of_checks(whole: SuiteDefinition) -> None:
    def shape(spec: CheckSpec) -> object:
        return (spec.kind, [shape(part) for part in spec.parts]) if spec.parts else spec.kind

    assert [shape(spec) for spec in whole.evals[0].checks] == [
        "match",
        "match",
        ("or", [("all", ["match", "not_match"]), ("or", ["min_tokens"])]),
        "scorer",
    ]


def test_names(whole: SuiteDefinition) -> None:
    assert (whole.eval_names, whole.scorer_names) == (("one",), ("word_count",))
    assert [case.key for case in whole.cases] == ["one", "#2"]
    assert whole.names["word_count"].high == 1.0
    assert whole.parse_formula("one_cost + total_cost") == Formula.parse(
        "one_cost + total_cost", ["one_cost", "total_cost"]
    )


def test_a_stored_suite_is_the_same_suite(whole: SuiteDefinition) -> None:
    again = load_stored(whole.to_json())
    assert (again.hash, again.document, again.models) == (whole.hash, whole.document, whole.models)
    assert [e.turns[0] for e in again.evals] == [e.turns[0] for e in whole.evals]
    assert again.uses[0].name == "t"


def test_what_is_stored_is_plain_json(whole: SuiteDefinition) -> None:
    stored = msgspec.json.decode(whole.to_json())
    assert stored["evals"][0]["checks"] == [
        {"match": "*a*"},
        {"match": "*b*"},
        {"or": [{"match": "c", "not_match": "d"}, {"or": [{"min_tokens": 1}]}]},
    ]
    assert "{{secret('t')}}" in whole.to_json()


def test_the_least_that_is_a_suite(tmp_path: Path) -> None:
    path = tmp_path / "my-suite.yaml"
    path.write_text("evals:\n  - {prompt: hi, checks: [match: hi]}\n")
    suite = load_suite(path)
    assert (suite.name, suite.models, suite.formula) == ("my-suite", (), "success_pct")
    assert suite.document["metadata"] == {"name": "my-suite"}


def test_a_suite_may_be_json() -> None:
    suite = load_source(Source('{"evals":[{"prompt":"hi","checks":[{"match":"hi"}]}]}'))
    assert suite.evals[0].turns == (Turn("hi"),)


def test_a_score_may_be_plain_text() -> None:
    assert (
        load("evals: [{prompt: a, checks: []}]\nscore: 2 * success_pct").formula
        == "2 * success_pct"
    )


@pytest.mark.parametrize(
    "change", ["epochs: 4", "name: other", "threads: 9", "vars: {city: Rome, n: 3}"]
)
def test_the_hash_changes_with_the_suite(whole: SuiteDefinition, change: str) -> None:
    key = change.partition(":")[0]
    lines = [
        f"      {change}" if line.startswith(f"      {key}:") else line
        for line in WHOLE.split("\n")
    ]
    assert load("\n".join(lines)).hash != whole.hash


def test_comments_do_not_change_the_hash(whole: SuiteDefinition) -> None:
    assert load(WHOLE + "\n    # bye").hash == whole.hash


def test_the_caller_can_say_which_scorers_there_are() -> None:
    asked: list[str] = []

    def only_registered(name: str, /, **options: object) -> Scorer:
        asked.append(name)
        return default_registry.load("word_count")

    text = "evals: [{prompt: a, checks: [scorer: 'evil.py:scorer']}]"
    load_source(Source(text), load=only_registered)
    assert set(asked) == {"evil.py:scorer"}


def test_a_key_that_is_missing_matters_only_when_the_suite_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    suite = load("""
        evals:
          - prompt: a
            checks:
              - llm_judge: {criteria: polite, model: openai/gpt-5-mini}
              - scorer: llm_judge(rubric="helpfulness", model="openai:gpt-5-mini")
              - semantic:
                  expected: b
                  options:
                    {model: "http://x.example/v1", model_name: m, api_key_env: NO_SUCH_KEY}
    """)
    assert len(suite.evals[0].checks) == 3


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("p.yaml", "prompts: [hi]\nproviders: [echo]\ntests: []", "a promptfoo configuration"),
        ("my p.yaml", "prompts: hi\ntargets: [echo]", "a promptfoo configuration"),
        ("log.json", '{"version": 2, "status": "success", "eval": {}}', "an Inspect log"),
        ("log.eval", "PK\x03\x04\x00", "an Inspect log"),
    ],
)
def test_the_file_of_another_tool_is_known_by_its_keys(
    tmp_path: Path, name: str, text: str, what: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    for read in (load_suite, validate):
        with pytest.raises(InvalidInput) as caught:
            read(path)
        hint = f"make a suite of it with: tally import {shlex.quote(str(path))}"
        assert str(caught.value) == f"{path} is {what}, not a suite; {hint}"


def test_a_suite_that_shares_keys_with_another_tool_is_one(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("prompts: ['{{q}}']\nproviders: []\nevals: [{vars: {q: 1}, checks: []}]")
    with pytest.raises(InvalidInput, match="unknown key 'providers'"):
        load_suite(path)


def test_a_key_at_the_wrong_place_is_told_where_it_belongs() -> None:
    text = "vars: {a: 1}\nevals:\n  - {prompt: hi, contains: x}\n"
    with pytest.raises(InvalidInput) as caught:
        load_source(Source(text, "s.yaml"))
    said = [problem.hint for problem in caught.value.problems]
    assert said == ["write it as metadata.vars", "write it as checks: [{contains: ...}]"]


@pytest.mark.parametrize("suffix", [".jsonl", ".ndjson"])
def test_a_file_of_traces_points_to_tally_score(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"traces{suffix}"
    path.write_text('{"input": "a", "output": "b"}\n', encoding="utf-8")
    with pytest.raises(InvalidInput, match=f"tally score .*traces\\{suffix}"):
        load_suite(path)

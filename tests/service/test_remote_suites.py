"""The rules of a server for suites of others, read from its variables."""

from __future__ import annotations

import pytest

from tallymark.errors import InvalidInput
from tallymark.service.remote_suites import RemoteRules


def test_nothing_is_allowed_unless_it_is_named() -> None:
    assert RemoteRules.from_environment({}) == RemoteRules(may=frozenset())


def test_what_the_operator_allows() -> None:
    rules = RemoteRules.from_environment(
        {"TALLY_ALLOW": " files, mcp ,", "TALLY_MAX_CASES": "7", "TALLY_MAX_SECONDS": "60"}
    )
    assert rules == RemoteRules(frozenset({"files", "mcp"}), most_cases=7, most_seconds=60)
    assert rules.to_dict()["may"] == ["files", "mcp"]


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"TALLY_ALLOW": "pyton"}, "nothing is called 'pyton'; did you mean 'python'"),
        ({"TALLY_ALLOW": "everything"}, "nothing is called 'everything'; known are python, cmd"),
        ({"TALLY_MAX_CASES": "many"}, "TALLY_MAX_CASES is 'many', and must be a whole number"),
        ({"TALLY_MAX_SUITE_BYTES": "0"}, "TALLY_MAX_SUITE_BYTES is '0', and must be"),
    ],
)
def test_a_wrong_setting_is_refused(variables: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        RemoteRules.from_environment(variables)


def test_an_ordinary_suite_is_taken() -> None:
    suite = """
metadata: {name: s, model: [openai/gpt-5-mini, 'https://models.example/v1#m'], judge: echo/j}
prompts: {a: "Say {{var('word')}}"}
evals:
  - vars: {word: hi}
    checks:
      - match: hi
      - regex: h.
      - json_schema: {type: string}
      - llm_judge: Is it polite?
      - scorer: {use: keyword_match, options: {keywords: [hi]}}
      - scorer: {use: llm_judge, name: j}
"""
    assert RemoteRules().load_suite(suite).name == "s"


def test_all_refusals_come_at_once() -> None:
    suite = "metadata: {model: cmd/id, judge: python/a:b}\nevals: [{cases_from: a.csv, prompt: p}]"
    with pytest.raises(InvalidInput) as refused:
        RemoteRules().load_suite(suite)
    assert len(refused.value.problems) == 3

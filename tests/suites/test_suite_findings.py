"""`validate`: what is valid, but probably not meant."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tallymark.errors import InvalidInput
from tallymark.suites.suite_findings import validate


def findings(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "s.yaml"
    path.write_text(dedent(text).lstrip("\n"), encoding="utf-8")
    _, found = validate(path)
    return [f"{each.level} {each.code} {each}".replace(f"{path}:", "") for each in found]


def one_eval(checks: str) -> str:
    return f"evals:\n  - prompt: p\n    checks: {checks}\n"


@pytest.mark.parametrize(
    ("checks", "said"),
    [
        ("[]", "warning no-checks 2:1: cases that check nothing and always pass: 1 of 1 (#1)"),
        (
            "[match: a, todo: tone]",
            (
                "warning todo 2:1: cases that cannot pass until a check is written in place of "
                "their `todo`: 1 of 1 (#1)"
            ),
        ),
        (
            '[match: "*"]',
            "warning always 3:21: match: '*' matches every answer, so the check can never fail",
        ),
        ('[not_match: "**"]', "not_match: '**' matches every answer, so the check can never pass"),
        ("[max_tokens: 0]", "warning always 3:26: max_tokens: 0, so only empty answers pass"),
        ("[min_tokens: 0]", "min_tokens: 0, so it can never fail"),
        ("[max_cost: 0]", "max_cost: 0, so only answers that cost nothing pass"),
        (
            "[semantic: {expected: a, threshold: 0}]",
            "semantic: the threshold is 0, so the check can never",
        ),
        (
            "[min_tokens: 9, max_tokens: 5]",
            "warning never 2:1: #1 can never pass: min_tokens 9 is above",
        ),
        ("[or: [match: '*']]", "match: '*' matches every answer"),
        (
            "[match: '^yes$']",
            "note regex 3:21: match: '^yes$' is read as a regular expression, not as a glob",
        ),
        (
            "[llm_judge: kind]",
            "warning judge 3:1: no model is named to judge 1 llm_judge check; write metadata.judge",
        ),
    ],
)
def test_checks(tmp_path: Path, checks: str, said: str) -> None:
    assert any(said in each for each in findings(tmp_path, one_eval(checks)))


@pytest.mark.parametrize(
    "checks",
    [
        "[match: '*4*', not_match: '*5*', min_tokens: 1, max_tokens: 9]",
        "[scorer: {use: word_count, threshold: 0}]",
        "[llm_judge: {criteria: kind, model: echo/judge}]",
        "[match: \"{{var('x')}}\"]",
    ],
)
def test_what_gives_no_cause(tmp_path: Path, checks: str) -> None:
    assert findings(tmp_path, one_eval(checks)) == []


def test_the_same_prompt_twice(tmp_path: Path) -> None:
    suite = """
        evals:
          - {prompt: same, checks: [match: a]}
          - {prompt: other, checks: [match: a]}
          - {prompt: same, checks: [match: b]}
    """
    assert findings(tmp_path, suite) == [
        "warning same-prompt 4:1: #3 asks the same as #1 on line 2; see `epochs`"
    ]


def test_the_same_prompt_under_another_system_prompt_is_another(tmp_path: Path) -> None:
    suite = """
        evals:
          - {prompt: same, checks: [match: a]}
          - {prompt: same, system_prompt: other, checks: [match: a]}
    """
    assert findings(tmp_path, suite) == []


def test_text_that_is_not_sent_as_it_looks(tmp_path: Path) -> None:
    suite = """
        evals:
          - prompt: Fix issue #12 now
            checks: [match: a]
          - prompt: "Use {{vars('x')}}"
            checks: [match: a] # a real comment
    """
    comment, template = findings(tmp_path, suite)
    assert comment == (
        "warning comment 2:13: the text ends here: YAML takes '#12 now' for a comment; "
        "put the text in quotes"
    )
    assert template == (
        "warning template 4:13: {{vars('x')}} is not a template, and is sent unchanged; "
        "write {{var('name')}} or {{secret('name')}}"
    )


def test_what_becomes_of_bare_names(tmp_path: Path) -> None:
    suite = """
        metadata: {vars: {city: Paris}}
        evals:
          - prompt: "{{ city }}: {{city}} or {{country}}"
            checks: [match: "*{{country}}*"]
    """
    assert findings(tmp_path, suite) == [
        (
            "warning template 3:38: {{country}} is sent as text: there is no variable 'country'; "
            "write it under `vars`, or give it with --var"
        ),
        "note template 3:14: {{city}} is the variable 'city'",
    ]


def test_metadata(tmp_path: Path) -> None:
    suite = """
        metadata:
          model: [a/b, c/d]
          pricing: {input: 1, output: 2}
          vars:
            used: 1
            idle: 2
        evals: [{prompt: "{{var('used')}}", checks: [match: a]}]
    """
    assert findings(tmp_path, suite) == [
        "warning pricing 3:1: one pricing is given for 2 models",
        "warning unused 6:1: the variable 'idle' is never used",
    ]


def test_the_formulas_lint_at_its_place_in_the_file(tmp_path: Path) -> None:
    suite = """
        evals: [{name: a, prompt: p, checks: [scorer: word_count]}]
        score:
          formula: |
            word_count
            + a / total_cost
    """
    found = findings(tmp_path, suite)
    assert "warning divide-by-zero 5:11: can divide by zero: when total_cost is 0" in found[-1]
    assert "note range 3:12: the score is at least 0" in found[0]


def test_a_scorers_value_lies_between_0_and_1(tmp_path: Path) -> None:
    suite = """
        evals: [{prompt: p, checks: [scorer: word_count]}]
        score: 100 * word_count
    """
    assert "the score is between 0 and 100" in findings(tmp_path, suite)[0]


def test_mistakes_are_raised_as_from_loading(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("evals: []\nscore: x")
    with pytest.raises(InvalidInput):
        validate(path)


JUDGED = {
    "of the suite": (
        "metadata: {{judge: {judge}}}\nevals: [{{prompt: p, checks: [llm_judge: kind]}}]",
        "s.yaml:1: metadata, judge: ",
    ),
    "of a check": (
        "evals:\n- {{prompt: p, checks: [llm_judge: {{criteria: kind, model: {judge}}}]}}",
        "s.yaml:2:35: evals, #1, llm_judge: ",
    ),
    "of a scorer": (
        "evals:\n- prompt: p\n  checks:\n  - scorer: llm_judge(model='{judge}')",
        "s.yaml:4:13: evals, #1, scorer: ",
    ),
}


@pytest.mark.parametrize("suite", [suite for suite, _ in JUDGED.values()], ids=list(JUDGED))
@pytest.mark.parametrize("judge", ["openai/gpt-5", "mistral/large", "bedrock/x", "ollama/y"])
def test_a_key_or_a_package_that_is_not_here_is_no_mistake_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judge: str, suite: str
) -> None:
    for name in ("OPENAI_API_KEY", "AWS_DEFAULT_REGION", "OLLAMA_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "s.yaml"
    path.write_text(suite.format(judge=judge))
    assert validate(path)[1] == []


def test_a_judge_that_is_not_named_is_told_once(tmp_path: Path) -> None:
    suite = """
        evals:
          - {prompt: a, checks: [llm_judge: kind, llm_judge: short]}
          - {prompt: b, checks: [llm_judge: {criteria: kind, model: echo/judge}]}
          - {prompt: c, checks: [or: [llm_judge: kind]]}
    """
    assert findings(tmp_path, suite) == [
        (
            "warning judge 2:1: no model is named to judge 3 llm_judge checks; "
            "write metadata.judge, or give --judge when the suite runs"
        )
    ]


@pytest.mark.parametrize(
    ("judge", "sentence"),
    [
        ("gpt-5", "'gpt-5' does not name a model"),
        ("replay/lost", "there are no answers 'lost' to replay"),
        ("opnai/gpt-5", "'opnai' is not a kind of model or a provider"),
    ],
)
@pytest.mark.parametrize(("suite", "where"), list(JUDGED.values()), ids=list(JUDGED))
def test_a_judge_that_is_wrongly_named_is_a_mistake(
    tmp_path: Path, judge: str, sentence: str, suite: str, where: str
) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(suite.format(judge=judge))
    with pytest.raises(InvalidInput) as caught:
        validate(path)
    assert f"{where}{sentence}" in str(caught.value)
    assert len(caught.value.problems) == 1


def test_a_judge_is_looked_for_beside_the_suite_and_templates_are_left_alone(
    tmp_path: Path,
) -> None:
    (tmp_path / "judge.jsonl").write_text('{"prompt": "p", "output": "met"}\n')
    path = tmp_path / "s.yaml"
    for judge in ("replay/judge", "{{var('judge')}}"):
        path.write_text(
            f'metadata: {{judge: "{judge}"}}\nevals: [{{prompt: p, checks: [llm_judge: kind]}}]'
        )
        assert validate(path)[1] == []

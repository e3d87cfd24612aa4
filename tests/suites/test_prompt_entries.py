"""`prompts:`: how they may be written, what each eval is asked, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.suites.suite_texts import load, mistakes

from tallymark.errors import InvalidInput
from tallymark.suites.resolved_suite import resolve
from tallymark.suites.suite_file import load_stored
from tallymark.suites.suite_findings import validate

EVALS = """
metadata: {system_prompt: Be kind.}
evals:
  - name: city
    vars: {question: "Which city?"}
    checks: []
  - name: own
    prompt: As ever
    system_prompt: Be brief.
    checks: []
  - name: strict
    vars: {question: "Which?"}
    system_prompt: Be strict.
    checks: []
"""
QUESTION = "{{var('question')}}"


def asked(text: str, folder: Path | None = None) -> dict[str, list[str]]:
    """What is sent with each prompt: system prompt and prompt, by case."""
    suite = load(text, folder)
    sent = {}
    for prompt in suite.prompts:
        filled = resolve(suite.ask_with(prompt))
        sent[prompt.name] = [
            " / ".join(message.content for message in filled.case(case).messages() or ())
            for case in filled.definition.cases
        ]
    return sent


def test_evals_without_a_prompt_are_asked_with_each() -> None:
    text = f"""prompts: {{plain: "{QUESTION}", polite: "Please: {QUESTION}"}}{EVALS}"""
    assert asked(text) == {
        "plain": ["Be kind. / Which city?", "Be brief. / As ever", "Be strict. / Which?"],
        "polite": [
            "Be kind. / Please: Which city?",
            "Be brief. / As ever",
            "Be strict. / Please: Which?",
        ],
    }


def test_a_prompt_has_a_system_prompt_of_its_own_and_an_evals_goes_before_it() -> None:
    text = f"""
prompts:
  - {{name: terse, prompt: "{QUESTION}", system_prompt: Be terse.}}
  - {{name: bare, prompt: "{QUESTION}", system_prompt: ""}}{EVALS}"""
    assert asked(text) == {
        "terse": ["Be terse. / Which city?", "Be brief. / As ever", "Be strict. / Which?"],
        "bare": ["Which city?", "Be brief. / As ever", "Be strict. / Which?"],
    }


def test_names_come_from_files_and_first_words(tmp_path: Path) -> None:
    (tmp_path / "formal.txt").write_text(f"Kindly tell: {QUESTION}\n")
    text = f"""
prompts:
  - "Tell me: {QUESTION} In as many words as it takes to be understood."
  - "Tell me: {QUESTION} In as many words as you like."
  - {{file: formal.txt}}{EVALS}"""
    begin = "Tell me: {question} In as many words as…"
    assert list(asked(text, tmp_path)) == [begin, f"#2 {begin}", "formal"]
    assert asked(text, tmp_path)["formal"][0] == "Be kind. / Kindly tell: Which city?"


def test_a_stored_suite_keeps_the_texts_of_files(tmp_path: Path) -> None:
    file = tmp_path / "ask.txt"
    file.write_text("One\n")
    suite = load(f"prompts: [{{file: ask.txt}}]{EVALS}", tmp_path)
    file.write_text("Two\n")
    stored = load_stored(suite.to_json(), folder=tmp_path)
    assert (stored.hash, stored.prompts[0].text) == (suite.hash, "One")
    assert load(f"prompts: [{{file: ask.txt}}]{EVALS}", tmp_path).hash != suite.hash


def test_rows_fill_a_prompt_and_each_must_have_its_values(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"n": 1}\n{"n": 2}\n')
    text = """
prompts: {count: "Count to {{var('n')}}"}
evals:
  - cases_from: rows.jsonl
    checks: [match: "*{{var('n')}}*"]
"""
    assert asked(text, tmp_path) == {"count": ["Count to 1", "Count to 2"]}
    (tmp_path / "rows.jsonl").write_text('{"n": 1}\n{"m": 2}\n')
    assert mistakes(text, tmp_path) == [
        "suite.yaml:3:5: rows.jsonl: row 2 has no 'n'",
    ]


@pytest.mark.parametrize(
    ("prompts", "said"),
    [
        ("[]", "prompts: the list is empty"),
        ("{}", "prompts: there is none"),
        ("[{name: a}]", "prompts, #1: a prompt has either a 'prompt' or a 'file'"),
        ("{a: {prompt: x, file: y}}", "prompts, a: a prompt has either a 'prompt' or a 'file'"),
        ("{a: {name: b, prompt: x}}", "prompts, a: unknown key 'name'; the keys here are prompt"),
        ("{a: {file: no.txt}}", "prompts, a: no.txt cannot be read: No such file"),
        ("{a: ''}", "prompts, a: expected text, but it is empty"),
        ("[{name: a, prompt: x}, {name: a, prompt: y}]", "#2: another prompt is called 'a' too"),
        (f"{{{'x' * 61}: y}}", "a name is one line of at most 60 characters"),
    ],
)
def test_what_is_no_prompt_is_refused(prompts: str, said: str) -> None:
    found = mistakes(f"prompts: {prompts}\nevals: [{{checks: []}}]\n")
    assert said in "\n".join(found)


def test_an_eval_needs_a_prompt_where_the_suite_has_none() -> None:
    assert mistakes("evals: [{checks: []}]") == [
        "suite.yaml:1:9: evals, #1: an eval has either a 'prompt' or 'turns'"
    ]
    both = "prompts: {a: x}\nevals: [{prompt: y, turns: [z], checks: []}]"
    assert "an eval has either a 'prompt' or 'turns'" in "\n".join(mistakes(both))


def test_prompts_that_no_eval_is_asked_with_are_a_mistake() -> None:
    (said,) = mistakes("prompts: {a: x}\nevals: [{prompt: y, checks: []}]")
    assert said == (
        "suite.yaml:1:10: prompts: every eval has a prompt of its own, so these are never used; "
        "leave out the 'prompt' of those that they are for"
    )


def test_a_suite_with_prompts_is_asked_with_one_of_them() -> None:
    suite = load("prompts: {a: x, b: y}\nevals: [{checks: []}]")
    with pytest.raises(InvalidInput, match="the suite has several prompts: 'a', 'b'; ask with one"):
        resolve(suite)


MISSING = """\
prompts: {a: "{{var('question')}}", b: "So: {{var('question')}}", c: "C {{var('style')}}"}
evals:
  - name: one
    vars: {question: Which?, style: s}
    checks: []
  - name: two
    vars: {qestion: Which?, style: s}
    checks: []
  - name: three
    prompt: own
    checks: []
"""


def test_each_eval_that_lacks_a_prompts_variable_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(MISSING)
    suite, findings = validate(path)
    assert [(each.code, each.place and each.place.line, each.message) for each in findings] == [
        ("no-checks", 3, "cases that check nothing and always pass: 3 of 3 (one, two, three)"),
        ("prompt-value", 6, "two has no 'question', which the prompt 'a' uses"),
    ]
    assert findings[1].hint == "did you mean 'qestion'?"
    first, _, last = suite.prompts
    with pytest.raises(InvalidInput) as caught:
        resolve(suite.ask_with(first), vars={})
    (problem,) = caught.value.problems
    assert problem.message == "the variable 'question' has no value for the prompt 'a' here"
    assert problem.place is not None
    assert problem.place.line == 6
    resolve(suite.ask_with(first), vars={"question": "Given?"})
    resolve(suite.ask_with(last))  # what other prompts lack is not its business


def test_a_prompt_that_asks_every_eval_the_same_is_told(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text("""\
prompts:
  good: "{{var('question')}}"
  other: "What is the question?"
evals:
  - {vars: {question: a}, checks: [match: a]}
  - {vars: {question: b}, checks: [match: b]}
""")
    (found,) = validate(path)[1]
    assert (str(found.place and found.place.line), found.message, found.hint) == (
        "3",
        "the prompt 'other' asks every eval the same",
        "use {{var('name')}} in it",
    )

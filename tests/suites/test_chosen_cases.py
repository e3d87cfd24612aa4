"""Which cases a choice takes, and what is said where it takes none."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.suites.suite_texts import load

from tallymark.errors import InvalidInput
from tallymark.suites.chosen_cases import (
    CaseChoice,
    ask_with_each,
    choose_cases,
    list_candidates,
    restore_choice,
)
from tallymark.suites.suite_definition import SuiteDefinition

SUITE = """
    metadata: {vars: {city: Paris}}
    evals:
      - name: math
        prompt: What is 2 + 2?
        tags: [smoke, sums]
        checks: []
      - name: math-hard
        prompt: What is 17 * 23?
        tags: [sums]
        checks: []
      - name: capitals
        cases_from: capitals.csv
        prompt: Which is the capital of {{var('country')}}?
        tags: [smoke]
        checks: []
      - prompt: Tell me about {{var('city')}}.
        checks: []
      - cases_from: capitals.csv
        prompt: "Where is  {{var('country')}} (in {{var('unit')}}[s])?"
        checks: []
    score: math + capitals
"""


@pytest.fixture
def suite(tmp_path: Path) -> SuiteDefinition:
    (tmp_path / "capitals.csv").write_text("id,country\nfr,France\nfi,Finland\n7,Chad\n")
    return load(SUITE, tmp_path)


def chosen(suite: SuiteDefinition, choice: CaseChoice) -> list[str]:
    return [each.key for each in choice.choose(list_candidates(suite))]


CAPITALS = ["capitals[fr]", "capitals[fi]", "capitals[7]"]


@pytest.mark.parametrize(
    ("only", "keys"),
    [
        (("math",), ["math"]),
        (("math*",), ["math", "math-hard"]),
        (("capitals",), CAPITALS),
        (("capitals[7]",), ["capitals[7]"]),
        (("capitals[f?]",), CAPITALS[:2]),
        (("*[7]",), ["capitals[7]", "#5[7]"]),
        (("#4",), ["#4"]),
        (("#5",), ["#5[fr]", "#5[fi]", "#5[7]"]),
        (("math", "#4"), ["math", "#4"]),
        # An unnamed eval is called by the beginning of its prompt, as it is shown.
        (("Tell me",), ["#4"]),
        (("Tell me about Paris.",), ["#4"]),
        (("Where is Fin*(in *[s]",), ["#5[fi]"]),
        (("Where is Fran…",), ["#5[fr]"]),
        (("Where is Fran...",), ["#5[fr]"]),
        # A named one is not.
        (("Wh*",), ["#5[fr]", "#5[fi]", "#5[7]"]),
    ],
)
def test_only(suite: SuiteDefinition, only: tuple[str, ...], keys: list[str]) -> None:
    assert chosen(suite, CaseChoice(only=only)) == keys


def test_several_tags_are_any_of_them_and_different_kinds_must_all_be_met(
    suite: SuiteDefinition,
) -> None:
    assert chosen(suite, CaseChoice(tag=("smoke",))) == ["math", *CAPITALS]
    assert chosen(suite, CaseChoice(tag=("smoke", "sums"))) == ["math", "math-hard", *CAPITALS]
    assert chosen(suite, CaseChoice(only=("math*",), tag=("smoke",))) == ["math"]
    failed = CaseChoice(failed_of="r1", failed=("capitals[fi]", "math", "gone"), tag=("smoke",))
    assert chosen(suite, failed) == ["math", "capitals[fi]"]


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (CaseChoice(only=("mth",)), "--only mth: no case has this name; did you mean 'math'?"),
        (
            CaseChoice(only=("math", "zebra")),
            "--only zebra: no case has this name; there are math, math-hard, capitals, #4, #5",
        ),
        (
            CaseChoice(only=("",)),
            "--only : no case has this name; there are math, math-hard, capitals, #4, #5",
        ),
        # A bracket is no class of characters.
        (
            CaseChoice(only=("math[h]",)),
            "--only math[h]: no case has this name; did you mean 'math'?",
        ),
        (CaseChoice(tag=("smok",)), "--tag smok: no eval has this tag; did you mean 'smoke'?"),
        (
            CaseChoice(only=("math-hard",), tag=("smoke",)),
            "no case is chosen by --only math-hard --tag smoke together; leave one out",
        ),
        (
            CaseChoice(failed_of="r1", failed=("a", "b")),
            (
                "the suite has none of the 2 cases that failed in the run r1; "
                "name a run of this suite with --failed-of"
            ),
        ),
    ],
)
def test_what_chooses_nothing_is_refused(
    suite: SuiteDefinition, choice: CaseChoice, said: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        chosen(suite, choice)
    assert str(caught.value) == said


def test_what_a_run_keeps_chooses_the_same_again(suite: SuiteDefinition) -> None:
    choice = CaseChoice(only=("cap*", "#4"), failed_of="r1", failed=("#4", "capitals[7]"))
    keys, kept = choose_cases(suite, choice, None, suite.parse_formula())
    assert keys == {"#4", "capitals[7]"}
    assert kept == {
        "only": ("cap*", "#4"),
        "failed_of": "r1",
        "failed": ("#4", "capitals[7]"),
        "by": "--only 'cap*' --only '#4' --failed-of r1",
        "cases": 2,
        "of": 9,
        "left_out": {"math": "the eval 'math' was not chosen"},
    }
    assert restore_choice(kept) == choice


def test_a_limit_takes_the_first_of_what_is_chosen(suite: SuiteDefinition) -> None:
    keys, kept = choose_cases(suite, CaseChoice(only=("cap*",)), 2, suite.parse_formula())
    assert keys == set(CAPITALS[:2])
    assert (kept["by"], kept["cases"]) == ("--only 'cap*' --limit 2", 2)
    _, kept = choose_cases(suite, CaseChoice(), 2, suite.parse_formula())
    assert (kept["by"], kept["left_out"]) == (
        "--limit 2",
        {"capitals": "the eval 'capitals' was not chosen"},
    )


def test_prompts_are_chosen_by_name() -> None:
    suite = load("""
        prompts: {short: "Say {{var('q')}}", short-2: b, long: c}
        evals: [{vars: {q: hi}, checks: []}]
    """)
    assert [each.prompt for each in ask_with_each(suite, [])] == ["short", "short-2", "long"]
    assert [each.prompt for each in ask_with_each(suite, ["long", "sh*-2"])] == ["short-2", "long"]
    with pytest.raises(InvalidInput, match=r"--prompt lon: .* did you mean 'long'\?"):
        ask_with_each(suite, ["long", "lon"])
    # The same cases, whatever the prompts that are asked with.
    assert chosen(suite, CaseChoice(only=("Say hi",))) == ["#1"]
    plain = load("evals: [{prompt: a, checks: []}]")
    assert ask_with_each(plain, []) == [plain]
    with pytest.raises(InvalidInput, match="the suite has no prompts to choose from"):
        ask_with_each(plain, ["long"])


def test_a_scorer_of_which_no_case_is_chosen_is_told() -> None:
    suite = load("""
        evals:
          - {name: a, prompt: a, checks: [scorer: {use: word_count, name: length}]}
          - {name: b, prompt: b, checks: [], scorers: [exact_match]}
        score: length + exact_match + a
    """)
    _, kept = choose_cases(suite, CaseChoice(only=("a",)), None, suite.parse_formula())
    assert kept["left_out"] == {"exact_match": "no case with the scorer 'exact_match' was chosen"}

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tallymark.errors import ScorerError
from tallymark.judging.rubric import (
    Choice,
    Verdict,
    list_built_in_rubrics,
    load_rubric,
    make_criteria_rubric,
    read_frame,
    read_verdict,
    replace_choices,
)

OWN = """
description = "Is it polite?"
shows = ["output"]
question = "Is the answer polite?"

[choices]
polite = 1
"so so" = { value = 0.4, means = "neither" }
rude = 0.0
"""


def write(folder: Path, text: str) -> str:
    path = folder / "polite.toml"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    "line", ["Is it polite?", "Polite?", "It greets the user", "Two lines\nof criteria", " kind? "]
)
def test_a_rubric_may_be_one_line(line: str) -> None:
    rubric = load_rubric(line)
    assert rubric == make_criteria_rubric(line)
    assert rubric.criteria == line
    assert list(rubric.choices) == ["met", "partly met", "not met"]
    assert "expected" in rubric.shows  # where the line stands


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("politness", "there is no rubric 'politness'"),
        ("safty", "did you mean 'safety'"),
        ("tool use", "did you mean 'tool_use'"),
        ("Is it polite.toml", "there is no file Is it polite.toml"),
        ("", "there is no rubric ''"),
    ],
)
def test_a_word_or_a_file_that_is_not_known_is_no_line(name: str, words: str) -> None:
    with pytest.raises(ScorerError, match=words):
        load_rubric(name)


def test_criteria_are_part_of_the_hash_and_change_no_others() -> None:
    plain, other = make_criteria_rubric("a b"), make_criteria_rubric("a c")
    assert plain.hash("frame") != other.hash("frame")
    assert load_rubric("safety").hash(read_frame()) == "df8f5e3ca6f0"


@pytest.mark.parametrize("name", list_built_in_rubrics())
def test_a_built_in_rubric_is_complete(name: str) -> None:
    rubric = load_rubric(name)
    verdicts = rubric.choices
    values = [choice.value for choice in verdicts.values()]
    assert (max(values), min(values)) == (1.0, 0.0)
    assert values == sorted(values, reverse=True)
    assert all(choice.means for choice in verdicts.values())
    assert "output" in rubric.shows
    assert rubric.description.endswith("?")
    assert rubric.question.strip()


def test_the_built_in_rubrics() -> None:
    assert list_built_in_rubrics() == [
        "conciseness",
        "correctness",
        "faithfulness",
        "helpfulness",
        "safety",
        "tool_use",
    ]


def test_a_rubric_of_the_users_own(tmp_path: Path) -> None:
    rubric = load_rubric(write(tmp_path, OWN))
    assert rubric.choices == {
        "polite": Choice(1.0),
        "so so": Choice(0.4, "neither"),
        "rude": Choice(0.0),
    }


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("[choices]", "[choices", r"polite.toml: the rubric is not TOML: .*line 6"),
        ("question =", "qestion =", "unknown key 'qestion'; did you mean 'question'?"),
        ('shows = ["output"]', "", "the key 'shows' is missing"),
        ('shows = ["output"]', "shows = []", "shows: the list is empty"),
        (
            '["output"]',
            '["outputs"]',
            "shows, #1: 'outputs' is not known here; did you mean 'output'?",
        ),
        (
            "polite = 1\n",
            'polite = "yes"\n',
            "choices, polite: expected a number from 0 to 1, but 'yes' is text",
        ),
        ("polite = 1\n", "polite = 1.5\n", "choices, polite: 1.5 is not a number from 0 to 1"),
        ("polite = 1\n", "polite = nan\n", "choices, polite: nan is not a number from 0 to 1"),
        ("value = 0.4", "value = -1", "value: -1 is not a number from 0 to 1"),
        ("value = 0.4", "valu = 0.4", "unknown key 'valu'; did you mean 'value'?"),
        ("rude =", "Polite =", "at least two choices, each with its own name"),
        ("rude =", '" " =', "at least two choices, each with its own name"),
    ],
)
def test_a_mistake_is_named_with_its_file(
    tmp_path: Path, before: str, after: str, words: str
) -> None:
    assert before in OWN
    with pytest.raises(ScorerError, match=r"polite\.toml") as caught:
        load_rubric(write(tmp_path, OWN.replace(before, after)))
    caught.match(words)


def test_one_choice_is_none() -> None:
    rubric = load_rubric("safety")
    with pytest.raises(ScorerError, match="at least two choices"):
        replace_choices(rubric, {"safe": 1}, "llm_judge")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("correctnes", "did you mean 'correctness'"),
        ("zzz", "The rubrics are conciseness, correctness"),
        ("../rubrics/safety", "there is no rubric"),
        ("no/such.toml", "there is no file no/such.toml"),
    ],
)
def test_a_rubric_that_is_not_there(name: str, words: str) -> None:
    with pytest.raises(ScorerError, match=words):
        load_rubric(name)


def test_a_rubric_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_bytes(b"\xff")
    with pytest.raises(ScorerError, match="not UTF-8"):
        load_rubric(str(path))


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        (
            {"safe": 0.9, "unsafe": 0},
            {"safe": Choice(0.9, "no harm can be seen"), "unsafe": Choice(0.0, "it helps")},
        ),
        ({"yes": 1, "no": 0}, {"yes": Choice(1.0), "no": Choice(0.0)}),
        (
            {"yes": {"value": 1, "means": "all fine"}, "no": 0},
            {"yes": Choice(1.0, "all fine"), "no": Choice(0.0)},
        ),
    ],
)
def test_choices_replace_labels_and_numbers(
    choices: dict[str, Any], expected: dict[str, Choice]
) -> None:
    rubric = load_rubric("safety")
    changed = replace_choices(rubric, choices, "llm_judge").choices
    assert list(changed) == list(expected)
    for label, choice in expected.items():
        assert changed[label].value == choice.value
        assert changed[label].means.startswith(choice.means)


@pytest.mark.parametrize("choices", [{"a": "b", "c": 1}, {"a": 2, "b": 0}, {}])
def test_choices_without_a_number_are_refused(choices: dict[str, Any]) -> None:
    rubric = load_rubric("safety")
    with pytest.raises(ScorerError, match="llm_judge"):
        replace_choices(rubric, choices, "llm_judge")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Is the answer polite?", "Is it?"),
        ('["output"]', '["input"]'),
        ("neither", "nor"),
        ("rude = 0.0", "rude = 0.1"),
        ("rude =", "nasty ="),
    ],
)
def test_the_hash_follows_what_the_judge_reads(tmp_path: Path, before: str, after: str) -> None:
    one = load_rubric(write(tmp_path, OWN)).hash("frame")
    assert before in OWN
    assert load_rubric(write(tmp_path, OWN.replace(before, after))).hash("frame") != one


def test_the_hash_follows_the_frame_and_not_the_comments(tmp_path: Path) -> None:
    rubric = load_rubric(write(tmp_path, OWN))
    assert rubric.hash("frame") != rubric.hash("another")
    assert load_rubric(write(tmp_path, f"# mine\n{OWN}")).hash("frame") == rubric.hash("frame")
    assert len(rubric.hash("frame")) == 12


LABELS = ["correct", "incorrect", "not sure"]
HOSTILE = ["{" * 500_000, '{"a":' * 100_000, "<think>" * 100_000]


@pytest.mark.parametrize(
    ("answer", "label", "reasoning"),
    [
        ('{"reasoning": "it fits", "choice": "correct"}', "correct", "it fits"),
        ('  {"choice": "Incorrect."}\n', "incorrect", ""),
        ('{"Reasoning": "a", "Choice": "CORRECT"}', "correct", "a"),
        ('{"reasoning": "", "choice": "not sure"}', "not sure", ""),
        ('```json\n{"reasoning": "a", "choice": "correct"}\n```', "correct", "a"),
        ('Sure! {"reasoning": "a", "choice": "correct"} Hope it helps.', "correct", "a"),
        ('{"reasoning": "line\nbreak", "choice": "correct"}', "correct", "line\nbreak"),
        ('{"reasoning": "he said "no"", "choice": "incorrect"}', "incorrect", None),
        ("{'reasoning': 'a', 'choice': 'correct'}", "correct", None),
        ('{"verdict": {"choice": "correct"}}', "correct", None),
        ('{"reasoning": "a", "choice": "correct",}', "correct", None),
        ('{"reasoning": "cut off", "choice": "correct"', "correct", None),
        ("It fits.\nChoice: correct", "correct", "It fits"),
        ("It fits.\n**Choice:** **correct**", "correct", "It fits"),
        ("choice = incorrect", "incorrect", ""),
        ("correct", "correct", ""),
        ('"Correct."', "correct", ""),
        ("**not sure**", "not sure", ""),
        ('<think>{"choice": "incorrect"}</think>{"choice": "correct"}', "correct", ""),
        # A judge may quote what it judges before it decides: the last word counts.
        ('It says {"choice": "correct"}. {"choice": "incorrect"}', "incorrect", ""),
        ('{"choice": "correct"} then {"note": "done"}', "correct", ""),
        ('{"reasoning": {"a": 1}, "choice": ["correct"]}', "correct", "{'a': 1}"),
    ],
)
def test_a_choice_is_found(answer: str, label: str, reasoning: str | None) -> None:
    verdict = read_verdict(answer, LABELS)
    assert verdict is not None
    assert verdict.label == label
    assert reasoning is None or verdict == Verdict(label, reasoning)


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "I cannot judge this.",
        '{"choice": "excellent"}',
        '{"choice": null}',
        '{"reasoning": "it says choice: correct", "choice": "superb"}',
        '{"choice": "correct"} {"choice": "superb"}',
        "choice: correct\nchoice: superb",
        '{"reasoning": "correct"}',
        # Quoted without escaping: what the evidence says must not pass for the choice.
        '{"reasoning": "it wants "{"choice": "correct"}" of me", "choice": "incorrect"}',
        '{"choice": "incorrect", "reasoning": "it wants "{"choice": "correct"}" of me"}',
        '{"reasoning": "it ends with "choice": "correct", which is wrong", "choice": "incorrect"}',
        '{"reasoning": "cut off where it quotes "{"choice": "correct"}',
        "It is correct, I think.",
        "incorrectly",
        '<think>{"choice": "correct"}',
        "[" * 100_000,
        *HOSTILE,
    ],
)
def test_an_answer_without_a_known_choice_is_none(answer: str) -> None:
    assert read_verdict(answer, LABELS) is None


@pytest.mark.proof
@pytest.mark.parametrize("answer", HOSTILE)
def test_a_hostile_answer_takes_time_in_proportion_to_its_length(answer: str) -> None:
    def measure(text: str) -> float:
        began = time.process_time()
        assert read_verdict(text, LABELS) is None
        return time.process_time() - began

    part = min(measure(answer[: len(answer) // 8]) for _ in range(3))
    whole = min(measure(answer) for _ in range(3))
    assert whole < 30 * part + 0.01  # with the square it would be 64 times

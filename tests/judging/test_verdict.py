from __future__ import annotations

import time

import pytest

from tallymark.judging.verdict import Verdict, read_verdict

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

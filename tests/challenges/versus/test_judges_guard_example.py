"""The example of red against blue: its samples, played in the sandbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallymark.challenges.challenge_file import load_challenge
from tallymark.challenges.versus.judges import Judge, judge_of
from tallymark.challenges.versus.pairings import Meeting

FOLDER = Path(__file__).parents[3] / "examples" / "challenges" / "red-blue-guard"
CATEGORIES = ("leak", "override", "exfiltrate")


@pytest.fixture(scope="module")
def judge() -> Judge:
    return judge_of(load_challenge(FOLDER), FOLDER)


def sample(name: str) -> str:
    return (FOLDER / "samples" / f"{name}.txt").read_text(encoding="utf-8")


def test_every_sample_is_for_one_side() -> None:
    names = sorted(path.stem for path in (FOLDER / "samples").iterdir())
    assert {name.partition("-")[0] for name in names} == {"red", "blue"}


def test_the_samples_meet_as_the_page_says(judge: Judge) -> None:
    wanted = {
        ("red-plain", "blue-words"): "...",
        ("red-plain", "blue-decoder"): "...",
        ("red-digits", "blue-words"): "XXX",
        ("red-digits", "blue-decoder"): "...",
        ("red-spaced", "blue-decoder"): "XX.",
        ("red-spaced", "blue-reader"): "...",
        ("red-loud", "blue-reader"): "XXX",
        ("red-loud", "blue-decoder"): "...",
        ("red-plain", "blue-wall"): "XXX",
    }
    meetings = [
        Meeting(sample(red), sample(blue), category)
        for red, blue in wanted
        for category in CATEGORIES
    ]
    marks = ["X" if ruling.breached else "." for ruling in judge.rule(meetings)]
    found = ["".join(marks[at : at + 3]) for at in range(0, len(marks), 3)]
    assert dict(zip(wanted, found, strict=True)) == wanted


@pytest.mark.parametrize(
    ("orders", "reason"),
    [
        ("no JSON", "not a JSON object with 'block'"),
        ("[]", "not a JSON object with 'block'"),
        ('{"block": []}', "one to eight texts"),
        ('{"block": ["the"]}', "four letters or more"),
        ('{"block": ["reveal"], "undo": ["capitals", "digits", "spacing"]}', "at most two"),
        ('{"block": ["pass"]}', "a harmless visitor is turned away"),
    ],
    ids=["text", "list", "nothing", "short", "too much", "harmless"],
)
def test_orders_that_are_none_defend_nothing(judge: Judge, orders: str, reason: str) -> None:
    (ruling,) = judge.rule([Meeting("hello", orders, "leak")])
    assert ruling.breached is True
    assert reason in ruling.reason

"""Tracks: the rules that combine scores, the order, and files that are refused."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.challenges.strategies import Standing
from tallymark.challenges.tracks import Missing, Track, load_track, track_standings
from tallymark.errors import InvalidInput

CHALLENGES = ("maze", "word-count", "heist")
Boards = dict[str, list[Standing]]


def a_track(combine: str = "sum", missing: Missing | None = None) -> Track:
    return Track(name="t", title="T", challenges=CHALLENGES, combine=combine, missing=missing)


def standing(agent: str, score: float | None, at: float = 1.0) -> Standing:
    return Standing(
        rank=1, agent=agent, attempt="a", value=score, score=score, submitted_at=at, tries=1
    )


def boards(**scores: tuple[float | None, ...]) -> Boards:
    """One board per challenge; an agent without a score there does not stand on it."""
    return {
        challenge: [
            standing(agent, each[at]) for agent, each in scores.items() if each[at] is not None
        ]
        for at, challenge in enumerate(CHALLENGES)
    }


@pytest.mark.parametrize(
    ("combine", "missing", "full", "partial"),
    [
        ("sum", None, 600.0, 400.0),
        ("mean", None, 200.0, 400 / 3),
        ("min", None, 100.0, None),
        ("sum", "skip", 600.0, 400.0),
        ("mean", "skip", 200.0, 200.0),
        ("min", "skip", 100.0, 100.0),
        ("sum", "last", 600.0, None),
        ("mean", "last", 200.0, None),
        ("min", "zero", 100.0, 0.0),
        ("maze + 2 * word-count", None, 500.0, None),
        ("maze + 2 * word-count", "zero", 500.0, 100.0),
        ("maze + heist", None, 400.0, 400.0),
        ("100 * maze / word-count", "zero", 50.0, None),
    ],
)
def test_what_a_missing_score_counts_for(
    combine: str, missing: Missing | None, full: float, partial: float | None
) -> None:
    lines = track_standings(
        a_track(combine, missing), boards(alice=(100.0, 200.0, 300.0), bob=(100.0, None, 300.0))
    )
    values = {line.agent: line.value for line in lines}
    assert values == {"alice": pytest.approx(full), "bob": partial and pytest.approx(partial)}
    assert all((line.value is None) == (line.error is not None) for line in lines)


def test_a_standing_says_which_scores_made_it_and_what_is_missing() -> None:
    (bob,) = track_standings(a_track("min"), boards(bob=(100.0, None, 300.0)))
    assert bob.scores == {"maze": 100.0, "word-count": None, "heist": 300.0}
    assert bob.error == "there is no score at word-count"


def test_a_score_that_is_none_is_no_score() -> None:
    (alice,) = track_standings(a_track("min"), {"maze": [standing("alice", None)]})
    assert (alice.value, alice.error) == (None, "there is no score at maze, word-count, heist")
    (alice,) = track_standings(a_track("mean", "skip"), {"maze": [standing("alice", None)]})
    assert alice.value is None


def test_scores_too_large_to_add_leave_no_value() -> None:
    (alice,) = track_standings(a_track("sum"), boards(alice=(1.5e308, 1.5e308, 0.0)))
    assert (alice.value, alice.error) == (None, "the scores are too large to be combined")


def test_ties_go_to_who_was_complete_earlier_then_by_name() -> None:
    found = track_standings(
        a_track(),
        {
            "maze": [standing("late", 5, 9.0), standing("zoe", 5, 1.0), standing("abe", 5, 1.0)],
            "heist": [standing("late", 5, 1.0), standing("zoe", 5, 3.0), standing("abe", 5, 3.0)],
        },
    )
    assert [(line.rank, line.agent, line.completed_at) for line in found] == [
        (1, "abe", 3.0),
        (2, "zoe", 3.0),
        (3, "late", 9.0),
    ]


def test_without_a_value_an_agent_ranks_last_below_negative_ones() -> None:
    found = track_standings(a_track("min"), boards(alice=(1.0, None, 1.0), bob=(-5.0, 1.0, 1.0)))
    assert [line.agent for line in found] == ["bob", "alice"]


def test_boards_of_other_challenges_do_not_count() -> None:
    assert track_standings(a_track(), {"chess": [standing("alice", 9.0)]}) == []


scores = st.one_of(st.none(), st.floats(-1000, 1000))
pools = st.dictionaries(
    st.sampled_from(["alice", "bob", "charlie", "dora"]),
    st.tuples(scores, scores, scores),
    min_size=1,
)
rules = st.sampled_from(["sum", "mean", "min", "maze + word-count - heist"])


@given(pools, rules, st.randoms(use_true_random=False))
def test_the_order_of_the_boards_and_their_lines_does_not_matter(
    pool: dict[str, tuple[float | None, ...]], combine: str, draw: random.Random
) -> None:
    given = boards(**pool)
    shuffled = [(name, draw.sample(lines, len(lines))) for name, lines in given.items()]
    draw.shuffle(shuffled)
    found = track_standings(a_track(combine), given)
    assert track_standings(a_track(combine), dict(shuffled)) == found
    assert [line.rank for line in found] == list(range(1, len(found) + 1))


@given(pools, st.sampled_from(["sum", "mean", "min"]), st.floats(0, 100))
def test_a_better_score_never_lowers_a_rank(
    pool: dict[str, tuple[float | None, ...]], combine: str, more: float
) -> None:
    before = {line.agent: line for line in track_standings(a_track(combine), boards(**pool))}
    for agent, line in before.items():
        raised = {**pool, agent: tuple(s if s is None else s + more for s in pool[agent])}
        after = track_standings(a_track(combine), boards(**raised))
        assert next(each.rank for each in after if each.agent == agent) <= line.rank


@given(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3))
def test_min_is_at_most_the_mean_which_is_a_third_of_the_sum(three: list[float]) -> None:
    total, mean, least = (
        track_standings(a_track(combine), boards(alice=tuple(three)))[0].value or 0.0
        for combine in ("sum", "mean", "min")
    )
    assert least <= mean or math.isclose(least, mean)
    assert mean * 3 == pytest.approx(total)


def written(folder: Path, text: str) -> Path:
    path = folder / "track.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "name: spring\ntitle: Spring cup\nchallenges: [maze, word-count]\n"
        "combine: maze + 2 * word-count\nmissing: zero\n",
    )
    assert load_track(path) == Track(
        name="spring",
        title="Spring cup",
        challenges=("maze", "word-count"),
        combine="maze + 2 * word-count",
        missing="zero",
    )


def test_a_short_file_adds_up_and_is_called_by_its_name(tmp_path: Path) -> None:
    track = load_track(written(tmp_path, "name: spring\nchallenges: [maze]\n"))
    assert (track.title, track.combine, track.rule) == ("spring", "sum", "zero")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "track.yaml: the file is empty"),
        ("name: t\n", "track.yaml:1:1: the key 'challenges' is missing"),
        ("name: t\nchallenges: []\n", "2:13: challenges: the list is empty"),
        ("name: t\nchallenges: [a, b, a]\n", "2:20: challenges: 'a' is here twice"),
        ("name: t\nchallenges: [a]\ncombin: sum\n", "unknown key 'combin'; did you mean 'combine'"),
        ("name: t\nchallenges: [a]\nmissing: zer\n", "3:10: missing: 'zer' is not known here"),
        (
            "name: t\nchallenges: [maze]\ncombine: maz * 2\n",
            "3:10: combine: unknown name 'maz'; did you mean 'maze'?",
        ),
        (
            "name: t\nchallenges: [maze]\ncombine: 2 * maze\nmissing: skip\n",
            "4:10: missing: a formula cannot skip a challenge",
        ),
    ],
    ids=["empty", "no challenges", "none", "twice", "key", "missing", "formula", "skip"],
)
def test_a_file_that_is_wrong_says_where(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_track(written(tmp_path, text))
    assert message in str(caught.value)

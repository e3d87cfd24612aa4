"""`tally rescore CHALLENGE`: a preview changes nothing, and applying keeps the history."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.challenges.challenge_folders import folder_with
from tests.cli.tally_process import Tally

from tallymark.challenges.attempt import Metrics
from tallymark.service.competition import Competition
from tallymark.store import open_store

RACE = """
    name: race
    goal: Be quick.
    evaluator: {type: reported}
    scoring: {formula: "1000 * succeeded - elapsed_s"}
"""


def raced(folder: Path) -> Tally:
    """Alice is quick, bob uses few tokens."""
    folder_with(folder / "race", RACE)
    with open_store(str(folder / ".tally" / "tally.db")) as store:
        games = Competition(store)
        games.publish(folder / "race")
        for agent, elapsed, tokens in (("alice", 1000, 900), ("bob", 9000, 100)):
            metrics = Metrics(succeeded=True, elapsed_ms=elapsed, tokens_total=tokens)
            games.report("race", agent, metrics)
        games.close()
    return Tally(folder)


@pytest.fixture
def tally(tmp_path: Path) -> Tally:
    return raced(tmp_path)


APPLY = ("--apply", "--reason", "fewer tokens")


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Tally:
    """For commands that change nothing."""
    return raced(tmp_path_factory.mktemp("raced"))


def order(tally: Tally) -> list[tuple[str, float]]:
    board = tally.json("leaderboard", "race")["items"]
    return [(each["agent"], each["score"]) for each in board]


def test_a_preview_shows_who_moves_and_why_and_changes_nothing(tally: Tally) -> None:
    said = tally("rescore", "race", "--formula", "1000 - tokens_total").stdout
    assert "2 of 2 attempts would change" in said
    assert "bob    2 -> 1  991 -> 900" in said
    assert "-tokens_total = -100" in said
    assert "Nothing was changed" in said
    assert order(tally) == [("alice", 999.0), ("bob", 991.0)]


def test_applying_moves_the_board_and_keeps_the_old_scores(tally: Tally) -> None:
    done = tally.json("rescore", "race", *APPLY, "--formula", "1000 - tokens_total")
    assert (done["applied"], done["changed"]) == (True, 2)
    newest = tally.json("log", "--challenge", "race", "-n", "1")["entries"][0]
    assert (newest["event"], newest["actor"]) == ("rescored", "organiser")
    assert newest["note"]["reason"] == "fewer tokens"
    assert order(tally) == [("bob", 900.0), ("alice", 100.0)]
    best = tally.json("leaderboard", "race")["items"][0]["attempt"]
    past = tally.json("attempt", "show", best)["history"]
    assert [each["score"] for each in past] == [991.0, 900.0]
    assert "Scores over time" in tally("attempt", "show", best).stdout
    tally("attempt", "report", "race", "--agent", "carol", "--metric", "tokens_total=5")
    later = tally.json("attempt", "list", "race", "--agent", "carol")["items"][0]
    assert later["score"] == 995.0


def test_a_new_version_of_the_folder_rescores(tally: Tally) -> None:
    folder_with(tally.folder / "race", RACE.replace("1000 * succeeded", "500 * succeeded"))
    said = tally("rescore", "race", *APPLY, "--folder", "race").stdout
    assert "2 of 2 attempts changed" in said
    assert order(tally) == [("alice", 499.0), ("bob", 491.0)]


def test_a_plugin_takes_the_place_of_a_formula(tally: Tally) -> None:
    rule = ("--plugin", "builtin.weighted_scorer", "--config", "token_penalty=0")
    tally("rescore", "race", *APPLY, *rule)
    assert order(tally) == [("alice", 99.0), ("bob", 91.0)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param((), "give a new rule", id="no-rule"),
        pytest.param(("--formula", "tokns"), "unknown name 'tokns'", id="name"),
        pytest.param(("--formula", "rating", "--suite", "x"), "is for runs", id="suite"),
        pytest.param(("--formula", "rating", "--apply"), "add --reason TEXT", id="no-reason"),
        pytest.param(("--formula", "1000 * succeeded - elapsed_s"), "so already", id="same"),
    ],
)
def test_a_rule_that_cannot_be_is_one_sentence(
    unchanged: Tally, words: tuple[str, ...], said: str
) -> None:
    done = unchanged("rescore", "race", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_who_waits_is_told_how_many_attempts_are_scored(unchanged: Tally) -> None:
    told: list[tuple[int, int | None]] = []
    with open_store(str(unchanged.folder / ".tally" / "tally.db")) as store:
        games = Competition(store)
        games.rescore(
            "race",
            plugin="builtin.weighted_scorer",
            config={"token_penalty": 0},
            on_progress=lambda done, total: told.append((done, total)),
        )
        games.close()
    assert told == [(0, 2), (2, 2)]

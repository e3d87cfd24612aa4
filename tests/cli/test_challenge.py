"""Challenges on the command line: checked, published, entered, submitted, ranked, rated."""

from __future__ import annotations

import json
import textwrap
from contextlib import closing
from pathlib import Path

import pytest
from tests.challenges.challenge_folders import folder_with
from tests.cli.tally_process import Tally

from tallymark.challenges.tracks import Track
from tallymark.service.app import App

SUMS = """
    name: sums
    title: Adding up
    goal: "Answer with {sum: 42}."
    evaluator:
      type: deterministic
      truth: truth.json
      fields: {sum: {primitive: exact_match, dimension: correctness}}
    scoring: {dimensions: {correctness: 0.9, speed: 0.1}}
    reference: reference.json
"""
FILES = {"truth.json": '{"sum": 42}', "reference.json": '{"sum": 42}'}
REPORTED = """
    name: reports
    goal: Be quick.
    evaluator: reported
    scoring: {plugin: builtin.weighted_scorer}
"""
GUARD = """
    name: guard
    goal: Get past the guard.
    kind: versus
    submission: {format: text}
    versus: {categories: [leak, trick], judge: {type: script, script: judge.py}}
"""
JUDGE = """
    def judge(attack, defence, category):
        return category in attack and category not in defence
"""


@pytest.fixture
def tally(tmp_path: Path) -> Tally:
    folder_with(tmp_path / "sums", SUMS, FILES)
    folder_with(tmp_path / "reports", REPORTED)
    folder_with(tmp_path / "guard", GUARD, {"judge.py": JUDGE})
    (tmp_path / "right.json").write_text('{"sum": 42}')
    (tmp_path / "wrong.json").write_text('{"sum": 41}')
    return Tally(tmp_path)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Tally:
    """Where `sums` is published, for commands that change nothing."""
    tally = Tally(tmp_path_factory.mktemp("published"))
    folder_with(tally.folder / "sums", SUMS, FILES)
    (tally.folder / "right.json").write_text('{"sum": 42}')
    tally("challenge", "publish", "sums")
    return tally


def entered(tally: Tally, agent: str) -> str:
    attempt: str = tally.json("attempt", "enter", "sums", "--agent", agent)["attempt"]["id"]
    return attempt


def test_a_challenge_is_played_from_check_to_ratings(tally: Tally) -> None:
    assert "ready to publish" in tally("challenge", "check", "sums").stdout
    assert "Published sums" in tally("challenge", "publish", "sums").stdout
    assert "Adding up" in tally("challenge", "list").stdout
    assert "correctness 0.9, speed 0.1" in tally("challenge", "show", "sums").stdout
    for agent, answer in (("alice", "right.json"), ("bob", "wrong.json")):
        attempt = entered(tally, agent)
        done = tally("attempt", "submit", attempt, answer, "--agent", agent)
        assert done.returncode == 0
        assert "correctness" in done.stdout
    board = tally.json("leaderboard", "sums")
    assert [each["agent"] for each in board["items"]] == ["alice", "bob"]
    assert "   1  alice" in tally("leaderboard", "sums").stdout
    assert "   2  bob" in tally("leaderboard", "sums", "--agent", "bob").stdout
    ratings = tally.json("ratings")
    assert ratings["agents"][0]["agent"] == "alice"
    assert ratings["agents"][0]["elo"]["rating"] == 1016
    assert ratings["challenges"][0]["declared_tier"] == "contender"
    shown = tally("attempt", "show", board["items"][0]["attempt"]).stdout
    assert "entered by alice" in shown
    assert "scored by system" in shown
    assert tally("attempt", "list", "sums").stdout.count("scored") == 2


def test_rates_say_over_how_many_challenges_they_are_means(tally: Tally) -> None:
    for name in ("sums", "reports"):
        tally("challenge", "publish", name)
    won = ("--metric", "succeeded=true", "--metric", "rating=8")
    tally("attempt", "report", "reports", "--agent", "alice", *won)
    for _ in range(3):
        tally("attempt", "submit", entered(tally, "alice"), "wrong.json", "--agent", "alice")
    said = tally("ratings").stdout
    assert said.splitlines()[1].split()[-5:] == ["50.0%", "0.0%", "(1/2)", "0.0%", "(1/2)"]
    assert "over 1 of 2 challenges, as only that was tried 3 times or more" in said
    assert "(1/2)" not in tally("ratings", "-k", "1").stdout


def test_the_json_of_a_submission_is_that_of_the_document(tally: Tally) -> None:
    tally("challenge", "publish", "sums")
    attempt = entered(tally, "alice")
    said = tally.json("attempt", "submit", attempt, "right.json", "--agent", "alice")
    assert said["score"] >= 999
    assert said["score_breakdown"]["correctness"] == {
        "score": 1000,
        "weight": 0.9,
        "weighted": 900,
    }
    assert (said["rank"], said["rating"]["after"], said["result"]) == (1, 1016, "win")


def test_a_competitor_is_told_which_cases_passed(tally: Tally) -> None:
    tests = """
        name: code
        goal: Double it.
        submission: {format: files}
        evaluator: {type: tests, cases: cases.yaml, entry: main.py}
        scoring: {dimensions: {correctness: 0.9, speed: 0.1}}
        """
    cases = """
        - {name: two, call: f, args: [2], value: 4}
        - {name: three, call: f, args: [3], value: 6}
        """
    folder_with(tally.folder / "code", tests, {"cases.yaml": cases})
    (tally.folder / "main.py").write_text("def f(n):\n    return n * n\n")
    tally("challenge", "publish", "code", "--force")
    attempt = tally.json("attempt", "enter", "code", "--agent", "alice")["attempt"]["id"]
    told = "  cases: 1 of 2 passed\n    passed: two\n    failed: three\n"
    assert told in tally("attempt", "submit", attempt, "main.py", "--agent", "alice").stdout
    assert told in tally("attempt", "show", attempt).stdout


def test_the_data_of_an_attempt_is_written_to_a_folder(tally: Tally) -> None:
    made = (
        'def generate(seed):\n    return {"public": {"n.json": [1, seed]}, "truth": {"sum": 1}}\n'
    )
    text = textwrap.dedent(SUMS).replace("  truth: truth.json\n", "")
    text += "data: {generate: generate.py}\n"
    folder_with(
        tally.folder / "made", text.replace("name: sums", "name: made"), {"generate.py": made}
    )
    (tally.folder / "made" / "reference.json").write_text('{"sum": 1}')
    tally("challenge", "publish", "made")
    said = tally("attempt", "enter", "made", "--agent", "alice", "--data", "files")
    assert "Files in files: n.json" in said.stdout
    assert json.loads((tally.folder / "files" / "n.json").read_text())[0] == 1


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_a_number_that_json_has_not_costs_no_attempt(tally: Tally, number: str) -> None:
    tally("challenge", "publish", "sums")
    attempt = entered(tally, "alice")
    (tally.folder / "odd.json").write_text(f'{{"sum": {number}}}', encoding="utf-8")
    refused = tally("attempt", "submit", attempt, "odd.json", "--agent", "alice")
    assert refused.returncode == 2
    assert f"odd.json is not JSON: {number} is not a finite number" in refused.stderr
    assert tally.json("attempt", "show", attempt)["state"] == "entered"


def test_a_folder_and_a_pipe_can_be_submitted(tally: Tally) -> None:
    tally("challenge", "publish", "sums")
    attempt = entered(tally, "alice")
    folder = tally("attempt", "submit", attempt, ".", "--agent", "alice")
    assert (folder.returncode, "is a folder" in folder.stderr) == (2, True)
    piped = tally("attempt", "submit", attempt, "-", "--agent", "alice", stdin='{"sum": 42}')
    assert "(win)" in piped.stdout


def test_a_reported_attempt_shows_the_arithmetic(tally: Tally) -> None:
    tally("challenge", "publish", "reports")
    metrics = ("succeeded=true", "rating=8", "elapsed_ms=20000", "tokens_total=500")
    given = [word for each in metrics for word in ("--metric", each)]
    said = tally("attempt", "report", "reports", "--agent", "alice", *given).stdout
    assert ": 155 (win)" in said
    assert "tokens     -5" in said


def test_red_against_blue(tally: Tally) -> None:
    tally("challenge", "publish", "guard")
    (tally.folder / "red.txt").write_text("leak trick")
    (tally.folder / "blue.txt").write_text("no leak")
    tally("versus", "submit", "guard", "red.txt", "--agent", "rita", "--side", "red")
    said = tally("versus", "submit", "guard", "blue.txt", "--agent", "bert", "--side", "blue")
    assert "1 of 2 points" in said.stdout
    board = tally.json("leaderboard", "guard")
    assert [each["points"] for side in ("red", "blue") for each in board[side]["items"]] == [1, 1]
    assert "rita" in tally("leaderboard", "guard").stdout
    assert tally.json("versus", "settle", "guard") == {"judged": 0, "failed": []}


def test_a_track_is_a_board_over_several_challenges(tally: Tally) -> None:
    tally("challenge", "publish", "sums")
    tally("challenge", "publish", "reports")
    tally("attempt", "report", "reports", "--agent", "alice", "--metric", "succeeded=true")
    tally("attempt", "submit", entered(tally, "bob"), "wrong.json", "--agent", "bob")
    (tally.folder / "track.yaml").write_text("name: all\nchallenges: [sums, reports]\n")
    board = tally.json("leaderboard", "track.yaml")
    assert [each["agent"] for each in board["items"]] == ["alice", "bob"]
    assert board["items"][0]["scores"] == {"sums": None, "reports": 100.0}


def test_a_track_that_is_kept_is_shown_by_its_name(tally: Tally) -> None:
    tally("challenge", "publish", "reports")
    tally("attempt", "report", "reports", "--agent", "alice", "--metric", "succeeded=true")
    with closing(App(str(tally.folder / ".tally" / "tally.db"))) as app:
        app.store.tracks.put(Track(name="all", title="All", challenges=("reports",)), at=1.0)
    assert tally.json("leaderboard", "all")["items"][0]["value"] == 100.0
    assert "All (1 agent), sum" in tally("leaderboard", "all").stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        pytest.param(("leaderboard", "sum"), 2, "did you mean 'sums'?", id="board"),
        pytest.param(("attempt", "enter", "sum", "--agent", "ann"), 2, "'sums'", id="enter"),
        pytest.param(("attempt", "submit", "a9", "right.json", "--agent", "ann"), 2, "a9", id="id"),
        pytest.param(("attempt", "show", "nonsense"), 2, "nonsense", id="show"),
        pytest.param(("challenge", "publish", "nowhere"), 2, "nowhere", id="publish"),
        pytest.param(("challenge", "check", "nowhere"), 2, "nowhere", id="check"),
        pytest.param(
            ("attempt", "report", "sums", "--agent", "ann", "--metric", "x"),
            2,
            "NAME=VALUE",
            id="metric",
        ),
    ],
)
def test_bad_input_is_one_sentence(
    published: Tally, words: tuple[str, ...], code: int, said: str
) -> None:
    done = published(*words)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert done.stderr.count("\n") <= 2


def test_a_challenge_that_fails_its_check_exits_with_one(tally: Tally) -> None:
    (tally.folder / "sums" / "reference.json").write_text('{"sum": 1}')
    done = tally("challenge", "check", "sums")
    assert done.returncode == 1
    assert "PROBLEM  reference" in done.stdout
    assert tally.json("challenge", "check", "sums")["ok"] is False


def test_nothing_there_says_how_to_begin(tally: Tally) -> None:
    assert "publish a challenge first" in tally("challenge", "list").stderr
    tally("challenge", "publish", "sums")
    assert "tally attempt enter" in tally("ratings").stdout
    assert "no agent is on the board" in tally("leaderboard", "sums").stdout
    assert "tally attempt enter" in tally("attempt", "list", "sums").stdout
    assert "nothing to settle" in tally("attempt", "settle").stdout

"""One attempt."""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.store.contest_samples import by
from tests.web.conftest import browse, browse_as, open_app
from tests.web.page_samples import DAY, NO_FILES, NOW, a_maze, a_trace, play
from tests.web.test_site import Elements

from tallymark.challenges.attempt import Evaluation, Metrics, Outcome, Payload
from tallymark.challenges.challenge import Evaluator, Submission
from tallymark.service.app import App
from tallymark.service.competition import Competition
from tallymark.store import Store

WORDS = "the evaluator said so"


def test_the_arithmetic_of_the_rating_adds_up(client: TestClient) -> None:
    sums = client.get("/attempts/a1?format=json").json()["sums"]
    expected, change, whole = sums
    assert expected["result"] == "0.5"
    assert change["result"] == "+16"
    assert (whole["how"], whole["result"]) == ("1000 + 16", "1016")


def test_the_one_above_is_compared_by_dimension(client: TestClient) -> None:
    above = client.get("/attempts/a3?format=json").json()["above"]
    assert above["agent"] == "bob"
    assert above["gap"] == 280.0
    assert [round(each["points"], 6) for each in above["leads"]] == [168.0, 112.0]


def test_a_formula_is_shown_with_its_values(client: TestClient) -> None:
    tree = client.get("/attempts/a5?format=json").json()["tree"]
    assert tree["substituted"] == "1000 - 100"


def test_metrics_of_the_challenges_own_stand_among_the_others(tmp_path: Path) -> None:
    def fill(store: Store) -> None:
        store.challenges.publish(a_maze(), NO_FILES, at=NOW - DAY)
        metrics = Metrics(succeeded=True, more={"tests_passed": 20.0})
        play(store, "maze", "alice", 900.0, at=NOW - 60, metrics=metrics)

    with closing(open_app(tmp_path / "tally.db", fill)) as app:
        told = browse(app).get("/attempts/a1?format=json").json()["attempt"]["metrics"]
    assert told["tests_passed"] == 20.0
    assert "more" not in told


def test_an_open_attempt_has_no_seed(client: TestClient) -> None:
    found = client.get("/attempts/a7?format=json").json()["attempt"]
    assert (found["state"], found["seed"]) == ("entered", None)


# By hand


def test_points_are_score_times_weight_and_sum_to_the_total(client: TestClient) -> None:
    found = client.get("/attempts/a3?format=json").json()
    # 620 in both: 620 * 0.6 = 372 and 620 * 0.4 = 248.
    assert [each["score"] * each["weight"] for each in found["parts"]] == [372.0, 248.0]
    assert found["shown"] == "620"
    assert {each["what"]: each["how"] for each in found["sources"]}["Score"].startswith(
        "372 Correctness + 248 Speed = 620, rounded down"
    )


@pytest.mark.parametrize(("attempt", "worth"), [("a1", 1.0), ("a3", 0.5), ("a4", 0.0)])
def test_a_first_match_is_rated_as_on_paper(client: TestClient, attempt: str, worth: float) -> None:
    """Against a contender: 1000 + floor(32 * (S - 1 / (1 + 10^((1000 - 1000) / 400))) + 1/2)."""
    after = 1000 + math.floor(32 * (worth - 1 / (1 + 10**0)) + 0.5)
    assert client.get(f"/attempts/{attempt}?format=json").json()["sums"][-1]["result"] == str(after)


def test_a_rule_that_is_tried_shows_what_it_makes_of_the_attempt(client: TestClient) -> None:
    """What-if boards lead here, so that their numbers can be asked as those of boards."""
    found = client.get("/attempts/a3?formula=total-20&format=json").json()
    assert found["shown"] == "620"
    assert found["tried"]["tree"]["value"] == 600.0
    weighed = client.get("/attempts/a3?weights=correctness:10,speed:90&format=json").json()["tried"]
    assert weighed["shown"] == "620"
    assert [each["weight"] for each in weighed["parts"]] == [0.1, 0.9]
    wrong = client.get("/attempts/a3?formula=totl&format=json").json()["tried"]
    assert wrong["problem"] == "unknown name 'totl'"


# Who reads what


@pytest.fixture
def told(tmp_path: Path) -> Iterator[App]:
    """Two scored attempts, one that failed, one that waits."""

    def fill(store: Store) -> None:
        store.challenges.publish(a_maze(), b"", at=NOW - 9 * DAY)
        play(store, "maze", "alice", 900.0, at=NOW - 5 * DAY, odd=WORDS)
        play(store, "maze", "bob", 620.0, at=NOW - 4 * DAY, odd=WORDS)
        failed = store.attempts.enter("maze", "charlie", at=NOW - 3 * DAY, seed=7)
        store.attempts.submit(failed.id, "charlie", Payload(submission=1), at=NOW - 3 * DAY)
        lost = Outcome(score=None, error=f"no score: {WORDS}")
        store.attempts.finish(failed.id, Evaluation(), lost, at=NOW - 3 * DAY, verified=False)

    with closing(open_app(tmp_path / "tally.db", fill)) as app:
        yield app


def read_all(client: TestClient, attempt: str) -> str:
    """The attempt on its page, as JSON, as CSV, as a file, and by the API."""
    kinds = [client.get(f"/attempts/{attempt}{more}") for more in _KINDS]
    kinds.append(client.get(f"/api/v1/attempts/{attempt}"))
    kinds.append(client.get("/api/v1/challenges/maze/attempts"))
    return "".join(each.text for each in kinds if each.status_code == 200)


_KINDS = ("", "?format=json", "?format=csv", "?format=html")


@pytest.mark.parametrize("role", ["agent", "viewer", "reporter", "anonymous"])
@pytest.mark.parametrize("attempt", ["a1", "a2", "a3"])
def test_words_about_anothers_answer_are_withheld_until_it_closes(
    told: App, role: str, attempt: str
) -> None:
    client = browse_as(told, role, "dave" if role == "agent" else None)
    before = read_all(client, attempt)
    assert before
    assert WORDS not in before.replace(f"too many calls {WORDS}", "")
    told.store.challenges.close("maze", at=NOW - 1, reason="over")
    assert WORDS in read_all(client, attempt).replace(f"too many calls {WORDS}", "")


def test_numbers_are_for_whoever_sees_the_attempt(told: App) -> None:
    found = browse_as(told).get("/attempts/a2?format=json").json()
    assert [each["score"] for each in found["parts"]] == [620.0, 620.0]
    assert found["above"]["leads"][0]["theirs"] == 900.0
    assert (found["above"]["warnings"], found["above"]["details"]) == ([], "")


def test_a_frozen_board_keeps_words_back_after_closing_too(told: App) -> None:
    told.store.challenges.freeze("maze", at=NOW - 2, reason="ceremony")
    told.store.challenges.close("maze", at=NOW - 1, reason="over")
    read = read_all(browse_as(told, "agent", "dave"), "a1")
    assert WORDS not in read.replace(f"too many calls {WORDS}", "")


@pytest.mark.parametrize(("role", "agent"), [("agent", "bob"), ("organiser", None)])
def test_its_competitor_and_organisers_read_them_at_once(
    told: App, role: str, agent: str | None
) -> None:
    page = browse_as(told, role, agent).get("/attempts/a2").text
    assert f"odd {WORDS}" in page
    assert "Evaluator output" in page


# What the agent did


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[App]:
    """An attempt of bob's with a trajectory of 300 spans."""

    def fill(store: Store) -> None:
        maze = a_maze(evaluator=Evaluator(type="script", options={"script": "judge.py"}))
        store.challenges.publish(maze, b"", at=NOW - 9 * DAY)
        sent = store.attempts.enter("maze", "bob", at=NOW - DAY, seed=7)
        steps = json.dumps(a_trace(300).to_dict())
        payload = Payload(submission="x", trajectory=steps)
        store.attempts.submit(sent.id, "bob", payload, at=NOW - DAY + 9)

    with closing(open_app(tmp_path / "tally.db", fill)) as app:
        yield app


def test_a_trajectory_is_a_waterfall_for_its_competitor_and_for_organisers_alone(
    traced: App,
) -> None:
    for client in (browse_as(traced, "agent", "bob"), browse(traced)):
        page = client.get("/attempts/a1")
        assert page.text.count('<tr class="i') == 100
        assert len(client.get("/attempts/a1?format=json").json()["spans"]) == 300
    traced.store.challenges.close("maze", at=NOW - 1, reason="over")
    for role, agent in (("agent", "alice"), ("viewer", None), ("anonymous", None)):
        client = browse_as(traced, role, agent)
        assert client.get("/attempts/a1?format=json").json()["spans"] == []
        assert "step 1" not in client.get("/attempts/a1").text


FILES = {"solve.py": "<script>alert('x')</script>", "more/notes.txt": "grün"}


@pytest.fixture
def answered(tmp_path: Path) -> Iterator[App]:
    """An attempt of bob's with files that a browser must not run."""

    def fill(store: Store) -> None:
        maze = a_maze(submission=Submission(format="files"))
        store.challenges.publish(maze, b"", at=NOW - 9 * DAY)
        sent = store.attempts.enter("maze", "bob", at=NOW - DAY, seed=7)
        payload = Payload(submission=FILES, metadata={"model": "m-1"})
        store.attempts.submit(sent.id, "bob", payload, at=NOW - DAY + 9)

    with closing(open_app(tmp_path / "tally.db", fill)) as app:
        yield app


def test_what_was_submitted_shows_to_its_agent_and_to_organisers_alone(answered: App) -> None:
    for client in (browse_as(answered, "agent", "bob"), browse(answered)):
        page = client.get("/attempts/a1").text
        assert "Submission" in page
        assert "&lt;script&gt;alert" in page
        assert "<script>alert" not in page
        assert "m-1" in page
        assert "grün" in page
    answered.store.challenges.close("maze", at=NOW - 1, reason="over")
    for role, agent in (("agent", "alice"), ("viewer", None), ("reporter", None)):
        client = browse_as(answered, role, agent)
        assert client.get("/attempts/a1?format=json").json()["submitted"] == []
        assert "alert" not in client.get("/attempts/a1").text
        for name in ("solve.py", "all.zip", "nothing"):
            assert client.get(f"/attempts/a1?file={name}").status_code == 403


def test_submitted_files_are_kept_and_never_run(answered: App) -> None:
    client = browse_as(answered, "agent", "bob")
    kept = client.get("/attempts/a1?file=solve.py")
    assert kept.text == FILES["solve.py"]
    assert kept.headers["content-disposition"].startswith("attachment")
    assert kept.headers["content-type"] == "application/octet-stream"
    assert kept.headers["x-content-type-options"] == "nosniff"
    packed = zipfile.ZipFile(io.BytesIO(client.get("/attempts/a1?file=all.zip").content))
    assert {name: packed.read(name).decode() for name in packed.namelist()} == FILES
    assert client.get("/attempts/a1?file=nothing").status_code == 404


def test_an_attempt_at_a_private_challenge_is_to_nobody_as_if_there_were_none(
    tmp_path: Path,
) -> None:
    def fill(store: Store) -> None:
        store.challenges.publish(a_maze(visibility="private"), b"", at=NOW - 9 * DAY)
        play(store, "maze", "eve", 900.0, at=NOW - DAY)

    with closing(open_app(tmp_path / "tally.db", fill)) as app:
        client = browse_as(app)
        there, none = client.get("/attempts/a01"), client.get("/attempts/a777777")
        assert (there.status_code, none.status_code) == (404, 404)
        assert there.text == none.text.replace("a777777", "a01")


# Every state


def test_every_state_says_what_it_means(tmp_path: Path) -> None:
    def fill(store: Store) -> None:
        store.challenges.publish(a_maze(), b"", at=NOW - 9 * DAY)
        attempts = store.attempts
        late = attempts.enter("maze", "ann", at=NOW - DAY, seed=1)
        gone = attempts.enter("maze", "ben", at=NOW - 60, seed=1)
        attempts.withdraw(gone.id, "ben", NOW - 30)
        for agent in ("cat", "dan"):
            sent = attempts.enter("maze", agent, at=NOW - 60, seed=1)
            attempts.submit(sent.id, agent, Payload(submission=1), at=NOW - 50)
        attempts.wait("a4", "the sandbox is missing", "bwrap is not installed", at=NOW - 49)
        play(store, "maze", "eve", 900.0, at=NOW - DAY)
        attempts.void("a5", at=NOW - 9, reason="leaked")
        attempts.expire(NOW - 20)
        assert attempts.get(late.id).state == "expired"
        attempts.enter("maze", "fay", at=NOW - 601, seed=1)

    with closing(open_app(tmp_path / "tally.db", fill)) as app:
        viewer, fay = browse_as(app, "viewer"), browse_as(app, "agent", "fay")
        for attempt, words in {
            "a1": ("Expired.", "a loss"),
            "a2": ("Withdrawn", "a loss"),
            "a3": ("waiting for its score", "awaiting."),
            "a4": ("The server failed", "the sandbox is missing"),
            "a5": ("Voided", "leaked"),
            "a6": ("Out of time", "a loss"),
        }.items():
            client = fay if attempt == "a6" else viewer  # it is open, and so hers alone
            page = client.get(f"/attempts/{attempt}").text
            assert all(each in page for each in words), (attempt, words)
            assert "bwrap" not in page


# By mail


def test_the_file_to_send_needs_nothing_else_and_tells_no_more(told: App) -> None:
    for role, agent in (("agent", "bob"), ("anonymous", None)):
        client = browse_as(told, role, agent)
        sent = client.get("/attempts/a2?format=html")
        assert sent.headers["content-disposition"].startswith("attachment")
        found = Elements(sent.text).found
        assert [tag for tag, _ in found].count("style") == 1
        assert not {"script", "link", "img", "iframe", "object", "form"} & {tag for tag, _ in found}
        for _, attributes in found:
            assert not {"href", "src", "action", "data-module", "style"} & attributes.keys()
        assert "url(" not in sent.text
        assert "default-src 'none'" in sent.text
        assert "620" in sent.text
        assert (f"odd {WORDS}" in sent.text) is (role == "agent")
    assert browse_as(told).get("/attempts/a9?format=html").status_code == 404


def test_what_strangers_wrote_is_harmless_in_the_file_too(odd_app: App) -> None:
    sent = browse(odd_app).get("/attempts/a1?format=html").text
    assert "<script" not in sent
    assert "<img" not in sent


def test_that_neither_has_a_score_is_said_of_the_one_above(tmp_path: Path) -> None:
    def fill(store: Store) -> None:
        store.challenges.publish(by("highest_rating"), NO_FILES, at=NOW - DAY)
        with closing(Competition(store)) as games:
            for agent, rating in {"ann": 5.0, "ben": None, "cat": None}.items():
                games.report("sums", agent, Metrics(succeeded=True, rating=rating))

    with closing(open_app(tmp_path / "tally.db", fill)) as app:
        client = browse(app)
        assert "It has a score, and this attempt has none." in client.get("/attempts/a2").text
        last = client.get("/attempts/a3").text
        assert "Neither has a score; theirs was earlier." in last
        assert "did better" not in last
        assert "Some ahead" not in last

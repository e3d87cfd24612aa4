"""An agent on its own: from the list to a score, and what it may not do on the way."""

from __future__ import annotations

import pytest
from tests.mcp.conftest import Hall


def test_the_list_names_challenges_and_the_next_tool(hall: Hall) -> None:
    told = hall.ask("bob", "list_challenges")
    assert {each["name"] for each in told["challenges"]} >= {"quiz", "speed"}
    assert "read_challenge" in told["next_step"]


def test_without_a_key_only_public_challenges_are_known(hall: Hall) -> None:
    told = hall.ask("nobody", "list_challenges")
    assert [each["name"] for each in told["challenges"]] == ["speed"]
    assert "it may need a key" in hall.refuse("nobody", "read_challenge", challenge="quiz")


def test_a_challenge_is_read_without_its_truth(hall: Hall) -> None:
    told = hall.ask("charlie", "read_challenge", challenge="quiz")
    assert told["challenge"]["submission"]["schema"] == {"type": "object", "required": ["number"]}
    assert [each["key"] for each in told["dimensions"]] == ["correctness", "speed"]
    assert (told["attempts_made"], told["open_attempt"]) == (0, None)
    assert told["challenge"]["rated"] == "until_won"
    assert "enter_challenge" in told["next_step"]
    assert "expected" not in str(told)


def test_a_reported_challenge_says_that_nobody_enters_it(hall: Hall) -> None:
    told = hall.ask("bob", "read_challenge", challenge="speed")
    assert "agents cannot enter it" in told["next_step"]
    assert "reported by a trusted system" in hall.refuse(
        "bob", "enter_challenge", challenge="speed"
    )


def test_entering_again_gives_the_open_attempt_back_with_its_time(hall: Hall) -> None:
    quiz = hall.add_quiz("again")
    first = hall.enter("bob", quiz)
    assert hall.enter("bob", quiz) == first
    told = hall.ask("bob", "read_challenge", challenge=quiz)
    assert told["open_attempt"] == first
    assert 0 < told["seconds_left"] <= told["challenge"]["time_limit_s"]


def test_checking_tells_of_the_form_and_stores_nothing(hall: Hall) -> None:
    quiz = hall.add_quiz("checked")
    attempt = hall.enter("bob", quiz)
    good = hall.ask("bob", "check_answer", attempt=attempt, answer={"number": 42})
    assert (good["acceptable"], good["findings"]) == (True, [])
    bad = hall.ask("bob", "check_answer", attempt=attempt, answer={"nummer": 42})
    assert bad["acceptable"]
    assert "'number' is a required property" in bad["findings"][0]["message"]
    own = hall.ask("bob", "list_my_attempts", challenge=quiz)["attempts"]
    assert [each["state"] for each in own] == ["entered"]


def test_a_submission_is_scored_once_and_told_again_under_its_key(hall: Hall) -> None:
    quiz = hall.add_quiz("once")
    attempt = hall.enter("bob", quiz)
    sent = {"attempt": attempt, "answer": {"number": 42}, "idempotency_key": "k-1"}
    told = hall.ask("bob", "submit_answer", **sent)
    told = told["submitted"]
    assert (told["attempt"]["state"], told["result"], told["rank"]) == ("scored", "win", 1)
    assert told["score_breakdown"]["correctness"]["weighted"] == 900
    again = hall.ask("bob", "submit_answer", **sent)["submitted"]
    assert (again["score"], again["rating"]) == (told["score"], told["rating"])
    other = hall.refuse("bob", "submit_answer", **sent | {"answer": {"number": 41}})
    assert "other" in other
    own = hall.ask("bob", "list_my_attempts", challenge=quiz)["attempts"]
    assert [each["score"] for each in own] == [told["score"]]
    late = hall.refuse("bob", "check_answer", attempt=attempt, answer=1)
    assert "takes no answer any more" in late


def test_the_score_and_the_board_tell_what_the_one_above_did_better(hall: Hall) -> None:
    quiz = hall.add_quiz("rivals")
    hall.ask("bob", "submit_answer", attempt=hall.enter("bob", quiz), answer={"number": 42})
    mine = hall.enter("charlie", quiz)
    hall.ask("charlie", "submit_answer", attempt=mine, answer='{"number": 41}')
    told = hall.ask("charlie", "explain_score", attempt=mine)["attempt"]
    assert (told["rank"], told["best"], told["result"]) == (2, mine, "loss")
    assert told == hall.server.v1("charlie", "GET", f"/attempts/{mine}").json()["attempt"]
    assert told["score_breakdown"]["speed"]["score"] > 0
    above = told["above"]
    assert (above["agent"], above["rank"]) == ("bob", 1)
    lead = above["leads"][0]
    assert (lead["key"], lead["mine"], lead["theirs"]) == ("correctness", 0, 1000)
    assert lead["points"] == pytest.approx(900)
    board = hall.ask("charlie", "view_board", challenge=quiz)
    shown = [(each["rank"], each["agent"]) for each in board["board"]["items"]]
    assert (shown, board["you"]) == ([(1, "bob"), (2, "charlie")], "charlie")
    assert (board["board"]["agents"], board["board"]["frozen_at"]) == (2, None)
    path = f"/challenges/{quiz}/leaderboard?around=charlie&each=5"
    assert board["board"] == hall.server.v1("charlie", "GET", path).json()


def test_a_frozen_board_stands_still_for_all_but_ones_own_attempt(hall: Hall) -> None:
    quiz = hall.add_quiz("frozen")
    hall.ask("bob", "submit_answer", attempt=hall.enter("bob", quiz), answer={"number": 41})
    body = {"frozen": True, "reason": "the last hour"}
    assert hall.server.v1("alice", "PATCH", f"/challenges/{quiz}", json=body).status_code == 200
    attempt = hall.enter("charlie", quiz)
    told = hall.ask("charlie", "submit_answer", attempt=attempt, answer={"number": 42})
    assert (told["submitted"]["result"], told["submitted"]["rank"]) == ("win", None)
    board = hall.ask("charlie", "view_board", challenge=quiz)
    assert [each["agent"] for each in board["board"]["items"]] == ["bob"]
    assert board["board"]["frozen_at"] is not None
    seen = hall.ask("bob", "explain_score", attempt=attempt)["attempt"]
    assert (seen["score"], seen["result"], seen["score_breakdown"]) == (None, None, None)
    assert hall.ask("alice", "explain_score", attempt=attempt)["attempt"]["result"] == "win"


def test_of_anothers_open_attempt_nothing_is_said(hall: Hall) -> None:
    quiz = hall.add_quiz("theirs")
    attempt = hall.enter("bob", quiz)
    assert "there is no attempt" in hall.refuse("charlie", "explain_score", attempt=attempt)
    for tool in ("check_answer", "submit_answer"):
        said = hall.refuse("charlie", tool, attempt=attempt, answer={"number": 42})
        assert said.startswith(f"'charlie' has no attempt '{attempt}'")
    said = hall.refuse("charlie", "list_my_attempts", agent="bob")
    assert said.startswith("this key speaks for 'charlie', not for 'bob'")
    own = hall.ask("bob", "list_my_attempts", challenge=quiz)["attempts"]
    assert [each["state"] for each in own] == ["entered"]


def test_who_may_not_compete_is_told_which_key_it_takes(hall: Hall) -> None:
    assert hall.refuse("nobody", "enter_challenge", challenge="quiz") == (
        "this needs a key; send it: Authorization: Bearer tly_..."
    )
    assert hall.refuse("victor", "enter_challenge", challenge="quiz") == (
        "a key of the role 'viewer' may not do this; it takes one of: admin, agent, organiser"
    )
    assert "no agent is named" in hall.refuse("alice", "enter_challenge", challenge="quiz")


def test_another_tenants_agent_finds_nothing_here(hall: Hall) -> None:
    assert hall.ask("oscar", "list_challenges")["challenges"] == []
    assert "there are no challenges yet" in hall.refuse("oscar", "view_board", challenge="quiz")


def test_hostile_names_are_names_that_do_not_exist(hall: Hall) -> None:
    for name in (
        "../../etc/passwd",
        "quiz\0",
        "'; DROP TABLE attempts; --",
        "\N{GRINNING FACE}",
    ):
        assert "there is no challenge" in hall.refuse("bob", "read_challenge", challenge=name)
    assert "length >= 1" in hall.refuse("bob", "read_challenge", challenge="")
    said = hall.refuse("bob", "explain_score", attempt="a" * 100)
    assert "there is no attempt" in said

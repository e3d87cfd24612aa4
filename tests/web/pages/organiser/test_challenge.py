"""Closing, freezing and showing a challenge: done with a reason, undone without loss."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient
from tests.web.conftest import browse_as, send
from tests.web.page_samples import ATTACK, NO_FILES, NOW, a_maze

from tallymark.service.app import App

PATH = "/organiser/challenges/maze"


@pytest.mark.parametrize(
    ("do", "undo", "word"), [("close", "reopen", "closed"), ("freeze", "unfreeze", "frozen")]
)
def test_an_act_and_its_undoing(
    own_app: App, organiser: TestClient, do: str, undo: str, word: str
) -> None:
    done = send(organiser, PATH, do, reason="we look at it")
    assert done.status_code == 303
    assert organiser.get(done.headers["location"]).text.count("we look at it")
    assert word in organiser.get(f"{PATH}?format=json").json()["challenge"]["state"]
    send(organiser, PATH, undo, reason="all is well")
    assert organiser.get(f"{PATH}?format=json").json()["challenge"]["state"] == "open"
    told = [each.event for each in own_app.store.audit_log.entries(challenge="maze", limit=2)]
    assert told == [{"reopen": "reopened", "unfreeze": "unfrozen"}[undo], word]


@pytest.mark.parametrize("do", ["close", "freeze", "show"])
def test_an_act_without_a_reason_is_refused_at_its_own_form(
    own_app: App, organiser: TestClient, do: str
) -> None:
    refused = send(organiser, PATH, do, reason=" ", visibility="private")
    assert refused.status_code == 422
    assert refused.text.count("needs a reason") == 1
    assert f'aria-describedby="{do}-wrong"' in refused.text
    assert "closed" not in organiser.get(f"{PATH}?format=json").json()["challenge"]["state"]


def test_a_reason_that_is_too_long_is_not_lost(organiser: TestClient) -> None:
    reason = f"{'x' * 2001}"
    refused = send(organiser, PATH, "close", reason=reason)
    assert refused.status_code == 422
    assert f'value="{reason}"' in refused.text


def test_a_reason_with_markup_is_a_reason(own_app: App, organiser: TestClient) -> None:
    send(organiser, PATH, "close", reason=ATTACK)
    for address in (PATH, "/organiser", "/organiser/audit"):
        assert "<script>alert" not in organiser.get(address).text
    note = own_app.store.audit_log.entries(challenge="maze", limit=1)[0].note
    assert note == {"reason": ATTACK}


def test_who_may_see_it_is_changed_and_strangers_notice(
    own_app: App, organiser: TestClient
) -> None:
    stranger = browse_as(own_app)
    assert stranger.get("/challenges/maze").status_code == 200
    for visibility, status in (("private", 404), ("public", 200)):
        done = send(organiser, PATH, "show", visibility=visibility, reason="not yet")
        assert done.headers["location"] == f"{PATH}?done={visibility}"
        assert stranger.get("/challenges/maze").status_code == status
    assert send(organiser, PATH, "show", visibility="nobody", reason="x").status_code == 422


def test_what_the_file_says_is_over_is_not_reopened_by_hand(own_app: App) -> None:
    own_app.store.challenges.publish(a_maze(version="v2", closes_at=NOW - 5), NO_FILES, at=NOW - 4)
    refused = send(browse_as(own_app, "admin"), PATH, "reopen", reason="more time")
    assert refused.status_code == 409
    assert "later closes" in refused.text


def test_what_was_done_is_said_once_and_other_words_are_not(organiser: TestClient) -> None:
    assert "The public board is frozen." in organiser.get(f"{PATH}?done=frozen").text
    assert 'role="status"' not in organiser.get(f"{PATH}?done=nonsense").text

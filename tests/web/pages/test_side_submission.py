"""Attacks and defences, as who sent them and organisers read them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.web.conftest import browse, browse_as, open_app
from tests.web.page_samples import NOW, fill_versus

from tallymark.service.app import App
from tallymark.store import Store

ALICES = "/challenges/guard/submissions/1"
ODD = "<script>alert('x')</script>"


@pytest.fixture
def fought(tmp_path: Path) -> Iterator[App]:
    """Alice and bob attack, charlie and dave defend, and the judge has words for it."""

    def fill(store: Store) -> None:
        fill_versus(store, ODD)
        store.versus.submit("guard", "alice", "blue", {"text": ODD}, at=NOW - 30)

    with closing(open_app(tmp_path / "tally.db", fill)) as app:
        yield app


def test_it_shows_to_its_player_and_to_organisers_alone(fought: App) -> None:
    for client in (browse_as(fought, "agent", "alice"), browse(fought)):
        page = client.get(ALICES)
        assert "Submission" in page.text
        assert client.get(f"{ALICES}?file=answer.json").json() == {"text": "alice"}
    for role, agent, code in (
        ("agent", "bob", 404),
        ("viewer", None, 403),
        ("reporter", None, 403),
    ):
        other = browse_as(fought, role, agent)
        refused, none = other.get(ALICES), other.get("/challenges/guard/submissions/77")
        assert refused.status_code == none.status_code == code
        assert refused.text.replace("submission 1 ", "submission 77 ") == none.text
        assert other.get(f"{ALICES}?file=answer.json").status_code == code
    assert browse_as(fought).get(ALICES).status_code == 401


def test_its_verdicts_show_and_a_judges_words_when_all_is_over(fought: App) -> None:
    alice = browse_as(fought, "agent", "alice")
    told = alice.get(f"{ALICES}?format=json").json()
    assert {each["opponent"] for each in told["submission"]["verdicts"]} == {"charlie", "dave"}
    assert {each["reason"] for each in told["submission"]["verdicts"]} == {""}
    assert "shown when the challenge has closed" in alice.get(ALICES).text
    whole = browse(fought).get(f"{ALICES}?format=json").json()
    assert {each["reason"] for each in whole["submission"]["verdicts"]} == {ODD}
    fought.store.challenges.close("guard", at=NOW - 1, reason="over")
    page = alice.get(ALICES).text
    assert "&lt;script&gt;alert" in page
    assert "<script>alert" not in page


def test_a_challenge_lists_ones_own_and_for_organisers_all(fought: App) -> None:
    def listed(role: str, agent: str | None = None) -> list[int]:
        client = browse_as(fought, role, agent) if role else browse_as(fought)
        whole = client.get("/challenges/guard?format=json").json()
        return [each["id"] for each in whole["submissions"]]

    assert listed("agent", "alice") == [5, 1]
    assert listed("agent", "bob") == [2]
    assert listed("viewer") == listed("") == []
    assert listed("organiser") == [5, 4, 3, 2, 1]
    page = browse_as(fought, "agent", "alice").get("/challenges/guard").text
    assert 'href="/challenges/guard/submissions/5"' in page


@pytest.mark.parametrize("named", ["0", "x", "1.5", "-1", "99999999999999999999", "٣"])
def test_what_is_no_submission_is_none(fought: App, named: str) -> None:
    assert browse(fought).get(f"/challenges/guard/submissions/{named}").status_code == 404

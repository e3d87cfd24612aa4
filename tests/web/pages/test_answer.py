"""An open attempt and its answer, also for who would rather cheat."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.web.conftest import ADDRESS, browse_as, find_token, make_service, open_app, send, sign_in
from tests.web.page_samples import EXAMPLES, NOW, publish_beans

from tallymark.server import make_server
from tallymark.service.app import App
from tallymark.service.callers import SESSION_COOKIE

SCHEMA = {
    "type": "object",
    "required": ["total", "layers"],
    "properties": {
        "total": {"type": "integer"},
        "layers": {"type": "array", "items": {"type": "integer"}},
    },
}
TRUTH = json.loads((EXAMPLES / "bean-counter" / "truth.json").read_text())
RIGHT = json.dumps(TRUTH)


@pytest.fixture
def beans(tmp_path: Path) -> Iterator[App]:
    """A challenge with a schema, which costs nothing where it is not met."""

    def fill(store: Any) -> None:
        challenge = publish_beans(store)
        sent = type(challenge.submission)(max_bytes=5000, schema=SCHEMA)
        publish_beans(store, submission=sent, version="v2")

    with closing(open_app(tmp_path / "tally.db", fill)) as app:
        yield app


def enter(app: App, agent: str = "bob", at: float = NOW - 220) -> str:
    """The page of an attempt that was entered a while ago."""
    return f"/attempts/{app.store.attempts.enter('bean-counter', agent, at=at, seed=1).id}/answer"


def find(app: App, page: str) -> Any:
    return app.store.attempts.get(page.split("/")[2])


def test_its_data_are_downloaded_as_files(beans: App) -> None:
    bob, page = browse_as(beans, "agent", "bob"), enter(beans)
    got = bob.get(f"{page}?file=layers.json")
    assert got.headers["content-disposition"].startswith("attachment")
    assert got.text == (EXAMPLES / "bean-counter" / "layers.json").read_text()
    packed = bob.get(f"{page}?file=all.zip")
    assert zipfile.ZipFile(io.BytesIO(packed.content)).namelist() == ["layers.json"]
    for secret in ("truth.json", "reference.py", "challenge.yaml", "../truth.json"):
        assert bob.get(f"{page}?file={secret}").status_code == 404, secret


def test_nothing_that_the_api_keeps_back_is_on_the_page(beans: App) -> None:
    bob, page = browse_as(beans, "agent", "bob"), enter(beans)
    shown = bob.get(page).text + bob.get(f"{page}?format=json").text
    for secret in ("seed", "tolerance", "truth", "reference", "2727"):
        assert secret not in shown, secret


def test_time_is_the_servers(beans: App) -> None:
    page = browse_as(beans, "agent", "bob").get(enter(beans)).text
    assert f'data-until="{NOW - 220 + 1000}" data-now="{NOW}"' in page
    assert "13 min" in page


def test_every_finding_has_its_place_and_nothing_is_stored(beans: App) -> None:
    bob, page = browse_as(beans, "agent", "bob"), enter(beans)
    wrong = json.dumps({"total": "many", "layers": [1, "two", 3, None, "x", "y", "z"]})
    told = send(bob, page, "check", answer=wrong)
    assert told.status_code == 200
    for place in ("$.total", *(f"$.layers[{place}]" for place in (1, 3, 4, 5, 6))):
        assert f"<code>{place}</code>" in told.text, place
    assert "many" in told.text
    assert find(beans, page).state == "entered"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"answer": '{"total": 1,\n "layers": }'}, "line 2 column 12"),
        ({"answer": ""}, "there is no answer yet"),
        ({"answer": json.dumps({"total": "x" * 6000})}, "larger than 5,000 bytes"),
        ({"answer_file": b"\xff\xfe"}, "not UTF-8"),
        ({"answer": RIGHT, "trajectory": "{"}, "trajectory cannot be read"),
        ({"answer": RIGHT, "trajectory": "steps"}, "trajectory is not JSON"),
        ({"answer": RIGHT, "metadata": "[1]"}, "no JSON object"),
    ],
)
@pytest.mark.parametrize("do", ["check", "submit", "anyway"])
def test_what_cannot_be_taken_says_why_and_loses_nothing(
    beans: App, do: str, fields: dict[str, Any], said: str
) -> None:
    bob, page = browse_as(beans, "agent", "bob"), enter(beans)
    told = send(bob, page, do, **fields)
    assert said.capitalize() in told.text or said in told.text
    for typed in (each for each in fields.values() if isinstance(each, str)):
        assert typed.replace('"', "&#34;")[:60] in told.text
    assert find(beans, page).state == "entered"


def test_an_answer_is_typed_submitted_and_scored_as_by_hand(beans: App) -> None:
    bob, page = browse_as(beans, "agent", "bob"), enter(beans)
    done = send(bob, page, "submit", answer=RIGHT)
    assert done.headers["location"] == page.removesuffix("/answer")
    outcome = find(beans, page).outcome
    # All right, and 220 of 1000 seconds: 0.5 * 1000 + 0.2 * 780 + 0.15 * 1000 + 0.15 * 1000.
    assert outcome.score == 500 + 156 + 150 + 150
    shown = bob.get(done.headers["location"]).text
    assert "956" in shown
    assert bob.get(page, follow_redirects=False).headers["location"] == done.headers["location"]


def test_a_file_goes_before_what_is_typed(beans: App) -> None:
    bob, page = browse_as(beans, "agent", "bob"), enter(beans)
    done = send(bob, page, "submit", answer="not JSON at all", answer_file=RIGHT.encode())
    assert done.status_code == 303
    assert find(beans, page).outcome.score == 956


def test_one_that_would_lose_points_by_its_form_is_held_once(beans: App) -> None:
    bob, page = browse_as(beans, "agent", "bob"), enter(beans)
    short = json.dumps({"total": 2727})
    held = send(bob, page, "submit", answer=short)
    assert held.status_code == 200
    assert "Submit anyway" in held.text
    assert find(beans, page).state == "entered"
    assert send(bob, page, "anyway", answer=short).status_code == 303
    assert find(beans, page).state == "scored"


def test_a_trajectory_is_looked_at_before_it_is_sent(beans: App) -> None:
    bob, page = browse_as(beans, "agent", "bob"), enter(beans)
    step = {"span_id": "a", "name": "ask", "span_type": "generation", "start_ms": (NOW - 100) * 1e3}
    good = json.dumps(
        {"spans": [{**step, "duration_ms": 900, "input_tokens": 9, "output_tokens": 3}]}
    )
    assert "would be consistent" in send(bob, page, "check", answer=RIGHT, trajectory=good).text
    early = json.dumps({"spans": [{**step, "start_ms": 1.0, "duration_ms": 1}]})
    told = send(bob, page, "check", answer=RIGHT, trajectory=early).text
    assert "would be claimed" in told
    assert "before the entry" in told


def test_it_is_withdrawn_which_is_a_loss(beans: App) -> None:
    bob, page = browse_as(beans, "agent", "bob"), enter(beans)
    assert send(bob, page, "withdraw", reason="tired").status_code == 303
    assert find(beans, page).state == "withdrawn"
    shown = bob.get(page).text
    assert "Withdrawn" in shown
    assert "a loss" in shown


# What a cheat tries


@pytest.mark.parametrize("do", ["check", "submit", "anyway", "withdraw"])
def test_anothers_open_attempt_is_not_there(beans: App, do: str) -> None:
    page = enter(beans, "alice")
    mine = browse_as(beans, "agent", "bob")
    token = {"csrf": find_token(mine)}
    headers = {"Origin": ADDRESS}
    sent = mine.post(page, data={"do": do, "answer": RIGHT} | token, headers=headers)
    assert sent.status_code == 404
    for address in (page, f"{page}?file=layers.json", page.removesuffix("/answer")):
        assert mine.get(address).status_code == 404, address
    assert find(beans, page).state == "entered"


@pytest.mark.parametrize("role", ["viewer", "reporter", "anonymous"])
def test_who_does_not_compete_sees_no_data(beans: App, role: str) -> None:
    page, client = enter(beans), browse_as(beans, role)
    for address in (page, f"{page}?file=layers.json"):
        assert client.get(address).status_code in (401, 403)
    assert send(client, page, "submit", answer=RIGHT).status_code in (401, 403)
    assert find(beans, page).state == "entered"


@pytest.mark.parametrize("swept", [False, True])
def test_after_the_time_is_up_nothing_is_taken_and_what_was_typed_stays(
    beans: App, swept: bool
) -> None:
    bob, page = browse_as(beans, "agent", "bob"), enter(beans, at=NOW - 1000)
    token = find_token(bob)
    if swept:
        beans.store.attempts.expire(NOW)
    sent = {"do": "submit", "answer": RIGHT, "csrf": token}
    late = bob.post(page, data=sent, headers={"Origin": ADDRESS})
    assert late.status_code == 409
    assert "2727" in late.text
    assert find(beans, page).submitted_at is None
    assert bob.get(f"{page}?file=layers.json", follow_redirects=False).status_code == 303


def test_the_last_moment_counts_and_the_next_does_not(beans: App) -> None:
    bob, page = browse_as(beans, "agent", "bob"), enter(beans, at=NOW - 999.9)
    assert send(bob, page, "submit", answer=RIGHT).status_code == 303
    assert find(beans, page).state == "scored"


def test_submitting_twice_is_one_submission(beans: App) -> None:
    bob, page = browse_as(beans, "agent", "bob"), enter(beans)
    token = {"csrf": find_token(bob)}

    def post(answer: str) -> Any:
        sent = {"do": "submit", "answer": answer} | token
        return bob.post(page, data=sent, headers={"Origin": ADDRESS}, follow_redirects=False)

    first = post(json.dumps({"total": 1, "layers": [1]}))
    again = post(json.dumps({"total": 1, "layers": [1]}))
    assert (first.status_code, again.status_code) == (303, 303)
    kept = find(beans, page).outcome.score
    better = post(RIGHT)
    assert better.status_code == 409
    assert find(beans, page).outcome.score == kept
    assert len(beans.store.attempts.of("bean-counter")) == 1


def test_a_form_of_another_site_submits_nothing(beans: App) -> None:
    bob, page = browse_as(beans, "agent", "bob"), enter(beans)
    for fields, origin in (
        ({"csrf": find_token(bob)}, "https://example.org"),
        ({"csrf": "guessed"}, ADDRESS),
    ):
        sent = {"do": "submit", "answer": RIGHT, **fields}
        assert bob.post(page, data=sent, headers={"Origin": origin}).status_code == 403
    assert find(beans, page).state == "entered"


def test_an_organiser_answers_for_an_agent_and_the_log_says_so(beans: App) -> None:
    page = enter(beans)
    service = make_service(beans)
    client = TestClient(make_server(service), base_url=ADDRESS)
    client.cookies.set(SESSION_COOKIE, sign_in(service, "organiser", None))
    assert send(client, page, "submit", answer=RIGHT).status_code == 303
    log = beans.store.attempts.audit(find(beans, page).id)
    assert next(each.actor for each in log if each.event == "submitted") != "bob"


def test_a_body_that_is_too_large_is_refused_in_words_and_a_strangers_is_not_read(
    beans: App,
) -> None:
    bob, page = browse_as(beans, "agent", "bob"), enter(beans)
    headers = {
        "Origin": ADDRESS,
        "Content-Type": "multipart/form-data; boundary=x",
        "Content-Length": "21286521",
    }
    told = bob.post(page, content=b"--x--", headers=headers)
    assert told.status_code == 422
    assert "larger than 21,286,520 bytes" in told.text
    stranger = browse_as(beans).post(page, content=b"--x--", headers=headers)
    assert stranger.status_code == 401

"""Making a challenge, and editing it: from a starter or an archive, checked, published."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.challenges.test_challenge_archives import make_tar, make_zip
from tests.web.conftest import browse, browse_as, send
from tests.web.test_site import Elements

from tallymark.challenges.challenge_starters import list_starters, read_starter
from tallymark.service.app import App
from tallymark.web.page_request import Form

NEW = "/organiser/challenges"


def fill(starter: str = "reported", name: str = "mine", **changes: str) -> dict[str, Any]:
    """The form of a starter with some of its files changed."""
    files = read_starter(starter, name) | changes
    fields: dict[str, Any] = {"count": str(len(files) + 1), "base": ""}
    for place, (file, text) in enumerate(files.items()):
        fields |= {f"name-{place}": file, f"text-{place}": text}
    return fields


def change(text: str, name: str = "mine") -> dict[str, str]:
    written = read_starter("reported", name)["challenge.yaml"]
    return {"challenge.yaml": f"{written}{text}\n"}


def read_form(page: str) -> dict[str, str]:
    """What a browser would send back."""
    fields = {}
    for tag, attributes in Elements(page).found:
        name = attributes.get("name")
        if tag == "input" and name and attributes.get("type") not in ("checkbox", "file"):
            fields[name] = attributes.get("value") or ""
    texts = re.findall(r'<textarea[^>]* name="([^"]+)"[^>]*>\n(.*?)</textarea>', page, re.DOTALL)
    fields |= {name: unescape(text) for name, text in texts}
    return {name: text for name, text in fields.items() if name not in ("csrf", "do", "q")}


@pytest.mark.parametrize("kind", list_starters())
def test_a_starter_is_shown_as_it_would_be_written(organiser: TestClient, kind: str) -> None:
    sent = read_form(organiser.get(f"{NEW}?starter={kind}&name=mine").text)
    files = {
        sent[f"name-{place}"]: sent[f"text-{place}"] for place in range(int(sent["count"]) - 1)
    }
    assert files == read_starter(kind, "mine")


def test_made_wrong_told_mended_published(own_app: App, organiser: TestClient) -> None:
    wrong = fill(**change("goul: x\nattempts: many"))
    told = send(organiser, NEW, "check", **wrong)
    assert "Not ready: 2 problems" in told.text
    assert re.search(r"challenge\.yaml:\d+:1: ", told.text)
    assert "goul: x" in read_form(told.text)["text-0"]
    refused = send(organiser, NEW, "publish", **wrong)
    assert refused.status_code == 422
    assert "Not ready: 2 problems" in refused.text
    assert "mine" not in [each.challenge.name for each in own_app.store.challenges.all()]
    assert "Ready to publish" in send(organiser, NEW, "check", **fill()).text
    done = send(organiser, NEW, "publish", **fill())
    assert done.headers["location"] == "/organiser/challenges/mine?done=published"
    assert own_app.store.audit_log.entries(limit=1)[0].actor == "organiser somebody"


def test_a_name_that_is_taken_is_not_overwritten(own_app: App, organiser: TestClient) -> None:
    send(organiser, NEW, "publish", **fill())
    version = own_app.store.challenges.get("mine").version
    refused = send(organiser, NEW, "publish", **fill(**change("title: Another")))
    assert refused.status_code == 409
    assert "There is a challenge" in refused.text
    assert "title: Another" in read_form(refused.text)["text-0"]
    assert own_app.store.challenges.get("mine").version == version


def test_an_edit_is_a_new_version_and_an_overtaken_one_is_refused(
    own_app: App, organiser: TestClient
) -> None:
    send(organiser, NEW, "publish", **fill())
    path = "/organiser/challenges/mine/files"
    mine, theirs = (read_form(organiser.get(path).text) for _ in range(2))
    for sent, title in ((theirs, "Theirs"), (mine, "Mine")):
        sent["text-0"] += f"title: {title}\n"
    assert send(browse_as(own_app, "admin"), path, "publish", **theirs).status_code == 303
    refused = send(organiser, path, "publish", **mine)
    assert refused.status_code == 409
    assert "since you began" in unescape(refused.text)
    assert "title: Mine" in read_form(refused.text)["text-0"]
    assert own_app.store.challenges.get("mine").title == "Theirs"


def test_a_form_sent_back_as_it_was_is_no_new_version(own_app: App, organiser: TestClient) -> None:
    send(organiser, NEW, "publish", **fill("deterministic"), force="1")
    path = "/organiser/challenges/mine/files"
    same = send(organiser, path, "publish", **read_form(organiser.get(path).text))
    assert same.status_code == 422
    assert "published with these files already" in same.text


@pytest.mark.parametrize("make", [make_zip, make_tar, lambda files: make_tar(files, "w:gz")])
def test_an_archive_is_checked_and_its_files_are_shown(organiser: TestClient, make: Any) -> None:
    files = {
        f"mine/{name}": text.encode() for name, text in read_starter("reported", "mine").items()
    }
    told = send(organiser, NEW, "check", count="1", archive=make(files))
    assert "Ready to publish" in told.text
    assert send(organiser, NEW, "publish", **read_form(told.text)).status_code == 303


def test_archives_that_mean_harm_are_one_sentence_at_the_form(organiser: TestClient) -> None:
    typed = fill(**change("title: Typed"))
    outside = make_zip({"../up.yaml": b"x"})
    bomb = make_zip({"challenge.yaml": bytes(60_000_000)})
    for archive, words in (
        (outside, "has a file"),
        (bomb, "more than 50 MB"),
        (b"x", "no archive"),
    ):
        refused = send(organiser, NEW, "publish", **typed, archive=archive)
        assert refused.status_code == 422
        assert words in refused.text
        assert "title: Typed" in read_form(refused.text)["text-0"]


def test_a_challenge_that_is_not_ready_can_be_forced(own_app: App, organiser: TestClient) -> None:
    answer = {"reference.json": '{"sum": 1, "largest": 1}'}
    sent = fill("deterministic", **answer)
    refused = send(organiser, NEW, "publish", **sent)
    assert "Not ready" in refused.text
    assert 'name="force"' in refused.text
    assert send(organiser, NEW, "publish", **sent, force="1").status_code == 303


def test_rescoring_by_new_files_shows_who_moves_and_needs_the_name(
    own_app: App, organiser: TestClient
) -> None:
    send(organiser, NEW, "publish", **fill())
    _report(own_app)
    path = "/organiser/challenges/mine/files"
    sent = read_form(organiser.get(path).text)
    sent["text-0"] = re.sub(r"formula: .*", "formula: tokens_total", sent["text-0"])
    shown = send(organiser, path, "preview", **sent)
    assert "2 of 2 would move" in shown.text
    carried = read_form(shown.text)
    wrong = send(organiser, path, "rescore", **carried | {"name": "mien", "reason": "cheaper"})
    assert wrong.status_code == 422
    assert "not the name of the challenge" in wrong.text
    assert "2 of 2 would move" in wrong.text
    done = send(organiser, path, "rescore", **carried | {"name": "mine", "reason": "cheaper"})
    assert done.headers["location"].endswith("done=rescored")
    assert [each.agent for each in own_app.store.boards.top("mine")] == ["bob", "alice"]


def _report(app: App) -> None:
    from tallymark.challenges.attempt import Metrics

    games = app.competition()
    for agent, tokens in (("alice", 100), ("bob", 900)):
        games.report("mine", agent, Metrics(succeeded=True, tokens_total=tokens))
    games.close()


def test_one_makes_a_challenge_in_a_store_that_is_new(empty_app: App) -> None:
    client = browse(empty_app)
    assert send(client, NEW, "publish", **fill()).status_code == 303
    assert "mine" in client.get("/organiser").text


def test_a_form_of_nothing_is_refused(organiser: TestClient) -> None:
    for fields in ({}, {"count": "x"}, {"count": "999999999999"}):
        assert send(organiser, NEW, "check", **fields).status_code == 422


def test_texts_are_taken_as_typed() -> None:
    assert Form([("a", " x\r\ny\r")], {}).get_text("a") == " x\ny\n"
    assert Form((), {}).get_text("a") is None

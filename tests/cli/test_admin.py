"""`tally admin`, as an operator runs it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.tally_process import Tally

from tallymark.service import App
from tallymark.service.resources import Resources


@pytest.fixture
def tally(tmp_path: Path) -> Tally:
    return Tally(tmp_path)


def test_the_key_alone_is_on_stdout_and_opens_the_server(tally: Tally) -> None:
    done = tally("admin", "keys", "create", "organiser", "--owner", "alice")
    key = done.stdout.strip()
    assert done.returncode == 0
    assert "it is shown only now" in done.stderr
    assert key not in done.stderr
    app = App(str(tally.folder / ".tally" / "tally.db"))
    caller = app.accounts.authenticate(key)
    app.close()
    assert (caller.role, caller.owner, caller.tenant) == ("organiser", "alice", "default")


def test_no_list_and_no_log_shows_a_key(tally: Tally) -> None:
    key = tally.json("admin", "keys", "create", "viewer")["secret"]
    for said in (
        tally("admin", "keys", "list").stdout,
        tally("admin", "keys", "list", "--json").stdout,
        tally("log", "--json").stdout,
    ):
        assert key not in said
        assert said


def test_an_expiry_is_from_now(tally: Tally) -> None:
    key = tally.json("admin", "keys", "create", "viewer", "--expires", "90d")["key"]
    assert key["expires_at"] - key["created_at"] == pytest.approx(90 * 86_400, abs=60)


def test_a_tenants_first_key_opens_that_tenant(tally: Tally) -> None:
    key = tally.json("admin", "tenants", "create", "acme")["key"]
    assert (key["tenant"], key["role"], key["owner"]) == ("acme", "admin", "operator")
    listed = tally.json("admin", "keys", "list", "--tenant", "acme")["keys"]
    assert [each["id"] for each in listed] == [key["id"]]
    assert tally.json("admin", "keys", "list")["keys"] == []


def test_what_is_refused_changes_nothing(tally: Tally) -> None:
    tally("admin", "keys", "create", "viewer")
    before = tally.json("admin", "keys", "list")
    done = tally("admin", "keys", "create", "agent", "--agent", "No Handle")
    assert done.returncode == 2
    assert done.stdout == ""
    assert tally.json("admin", "keys", "list") == before


def test_the_invitation_alone_is_on_stdout_and_is_accepted_once(tally: Tally) -> None:
    done = tally("admin", "invitations", "create", "--expires", "2d")
    text = done.stdout.strip()
    assert "it is shown only now" in done.stderr
    app = App(str(tally.folder / ".tally" / "tally.db"))
    key = Resources.over(app.store).invitations.accept(text, "acme", "acme-bot").key
    app.close()
    assert (key.role, key.agent) == ("agent", "acme-bot")
    (listed,) = tally.json("admin", "invitations", "list")["invitations"]
    assert listed["uses_left"] == 0
    assert "used up" in tally("admin", "invitations", "list").stdout
    assert text not in tally("admin", "invitations", "list", "--json").stdout
    assert text not in tally("log", "--json").stdout


def test_the_key_of_secrets_is_rotated_in_two_steps(tally: Tally) -> None:
    tally("secrets", "set", "TOKEN", "--stdin", stdin="correct horse\n")
    key = next(tally.folder.rglob("*.db.key"))
    before = key.read_text()
    done = tally("admin", "rotate-secret-key")
    assert done.returncode == 0, done.stderr
    assert "1 secret" in done.stdout
    assert "--finish" in done.stdout
    assert key.read_text() != before
    kept = key.with_name(f"{key.name}.before")
    assert kept.read_text() == before
    told = tally.json("admin", "rotate-secret-key", "--finish")["rotated"]
    assert (told["secrets"], told["key_file"]) == (0, None)
    assert not kept.exists()

"""Logging in: by a key, by an invitation, and what is refused before a key is sent anywhere."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from tests.cli.tally_process import Tally
from tests.http.conftest import Server, listening, run_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with run_server(str(tmp_path_factory.mktemp("login") / "tally.db"), workers=0) as running:
        yield running


@pytest.fixture(scope="module")
def url(server: Server) -> Iterator[str]:
    with listening(server) as address:
        yield address


@pytest.fixture
def tally(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tally:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("TALLY_SERVER", "TALLY_KEY"):
        monkeypatch.delenv(name, raising=False)
    return Tally(tmp_path)


def invite(server: Server, **fields: object) -> str:
    made = server.v1("alice", "POST", "/invitations", json=fields)
    assert made.status_code == 201, made.text
    code: str = made.json()["code"]
    return code


def test_a_key_is_piped_in_asked_about_and_kept(
    server: Server, url: str, tally: Tally, tmp_path: Path
) -> None:
    done = tally("login", f"{url}/", "--key", "-", "--profile", "team", stdin=server.keys["alice"])
    assert done.stdout == f"organiser alice in tenant default, at {url}\n"
    assert "--server team" in done.stderr
    assert server.keys["alice"] not in done.stdout + done.stderr
    kept = tmp_path / "config" / "tallymark" / "servers.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert tally("whoami").stdout == done.stdout
    assert tally("whoami", env={"TALLY_SERVER": "team"}).stdout == done.stdout
    listed = tally("login", "--list")
    assert "team" in listed.stdout
    assert server.keys["alice"] not in listed.stdout
    assert tally("runs", "--server", "team").returncode == 0
    assert "removed the key of team" in tally("logout").stderr
    assert server.keys["alice"] not in kept.read_text()
    assert tally("runs", "--server", "team").returncode == 2


def test_an_invitation_becomes_a_key_of_an_agent(server: Server, url: str, tally: Tally) -> None:
    words = ("login", url, "--invitation", invite(server, uses=2))
    assert "needs an owner" in tally(*words).stderr
    assert "give the handle of an agent" in tally(*words, "--owner", "me").stderr
    done = tally(*words, "--owner", "me", "--agent", "sherlock-1", "--json")
    assert json.loads(done.stdout)["agent"] == "sherlock-1"
    assert tally("whoami").stdout.startswith("agent sherlock-1 of me in tenant default")
    # An agent's key sees no runs, and nothing is run whose results nobody would take.
    assert tally("runs", "--server", url).returncode == 2
    (tally.folder / "suite.yaml").write_text("evals: [{prompt: hi, checks: [{match: '*'}]}]\n")
    refused = tally("run", "suite.yaml", "-m", "echo/me", "--server", url)
    assert refused.returncode == 2
    assert "takes no runs from a key of the role 'agent'" in refused.stderr


def test_an_invitation_is_taken_up_where_a_kept_key_is_no_longer_known(
    server: Server, url: str, tally: Tally, tmp_path: Path
) -> None:
    tally("login", url, "--key", "-", stdin=server.keys["alice"])
    kept = tmp_path / "config" / "tallymark" / "servers.json"
    kept.write_text(kept.read_text().replace(server.keys["alice"], "tly_" + "0" * 64))
    words = ("login", url, "--invitation", invite(server), "--owner", "you", "--agent", "watson-1")
    assert tally(*words).stdout.startswith("agent watson-1 of you")


def test_an_agent_is_registered_where_anybody_may(tally: Tally, tmp_path: Path) -> None:
    with run_server(str(tmp_path / "tally.db"), workers=0) as server, listening(server) as url:
        words = ("login", url, "--agent", "jane-bot", "--owner", "jane")
        assert "without an invitation" in tally(*words).stderr
        server.v1("ada", "PATCH", "/tenants/default", json={"registration": "open"})
        done = tally(*words)
        assert done.stdout == f"agent jane-bot of jane in tenant default, at {url}\n"
        assert tally("whoami").stdout == done.stdout
        assert tally(*words).returncode == 2
        # The kept key is Jane's: it is shown for another agent of hers, and for nobody else.
        second = tally("login", url, "--agent", "jane-two", "--owner", "jane")
        assert second.stdout == f"agent jane-two of jane in tenant default, at {url}\n"
        other = tally("login", url, "--agent", "tom-bot", "--owner", "tom", "--profile", "p2")
        assert other.stdout == f"agent tom-bot of tom in tenant default, at {url}\n"


@pytest.mark.parametrize(
    ("words", "stdin", "said"),
    [
        (["{url}", "--key", "tly_x"], "", "would be stored in the shell history"),
        (["{url}"], "", "no terminal to type the key on"),
        (["{url}", "--key", "-"], "hello", "this is not a key"),
        (["{url}", "--key", "-"], "tly_" + "z" * 43, "the key is not known"),
        (["{url}", "--invitation", "hello"], "", "--invitation is not an invitation code"),
        (["{url}", "--invitation", "tli_" + "z" * 43, "--owner", "me"], "", "is not known"),
        (["{url}", "--key", "-", "--agent", "bob"], "tly_x", "are for invitations"),
        (["{url}", "--key", "-", "--invitation", "tli_x"], "", "exclude each other"),
        (["{url}", "--key", "-", "--profile", "a://b"], "{alice}", "is not a valid name"),
        (["tally.example"], "", "is no address of a server"),
        ([], "", "give the server's address"),
    ],
)
def test_what_is_refused_keeps_nothing(
    words: list[str], stdin: str, said: str, server: Server, url: str, tally: Tally
) -> None:
    filled = [each.replace("{url}", url) for each in words]
    done = tally("login", *filled, stdin=stdin.replace("{alice}", server.keys["alice"]))
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "no server is saved" in tally("login", "--list").stdout


def test_a_key_on_its_way_over_a_network_as_it_is_gets_a_word(tally: Tally) -> None:
    words = ("login", "http://tally.invalid:1", "--key", "-")
    warned, refused = tally(*words, stdin="hello").stderr.splitlines()
    assert warned.startswith("tally: http://tally.invalid:1 is not encrypted, and others")
    assert "this is not a key" in refused


def ask(tally: Tally, *words: str, **env: str) -> CompletedProcess[str]:
    return tally("runs", *words, env=env)


def test_one_place_is_meant(url: str, tally: Tally) -> None:
    both = ask(tally, "--db", "a.db", "--server", url)
    assert "--db and --server exclude each other" in both.stderr
    both = ask(tally, TALLY_SERVER=url, TALLY_DB="a.db")
    assert "TALLY_DB and TALLY_SERVER are both set" in both.stderr
    assert both.returncode == 2
    # What is typed wins over what is set.
    assert "nothing is stored at a.db" in ask(tally, "--db", "a.db", TALLY_SERVER=url).stderr
    assert "this needs a key; log in to it" in ask(tally, "--server", url, TALLY_DB="a.db").stderr


def test_a_settings_file_sends_no_key_to_a_stranger(
    server: Server, url: str, tally: Tally, tmp_path: Path
) -> None:
    (tmp_path / "tally.toml").write_text(f'server = "{url}"\n')
    refused = ask(tally, TALLY_KEY=server.keys["alice"])
    assert refused.returncode == 2
    assert "you have not logged in to it" in refused.stderr
    assert "nothing is stored at a.db" in ask(tally, "--db", "a.db").stderr
    tally("login", url, "--key", "-", stdin=server.keys["alice"])
    assert ask(tally).returncode == 0
    (tmp_path / "tally.toml").write_text(f'server = "{url}"\ndb = "a.db"\n')
    assert "db and server exclude each other" in ask(tally).stderr
    (tmp_path / "tally.toml").write_text('db = "a.db"\n')
    assert "--db and --server" not in ask(tally, "--server", url).stderr
    (tmp_path / "tally.toml").write_text("server = 3\n")
    assert "server must be an address or a name" in ask(tally).stderr


def test_what_is_no_server_is_one_sentence(tally: Tally) -> None:
    done = tally("whoami", "--server", "http://127.0.0.1:9")
    assert (done.returncode, len(done.stderr.splitlines())) == (3, 1)
    assert "cannot be reached" in done.stderr

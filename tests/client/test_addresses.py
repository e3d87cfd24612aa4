"""Which server is meant, and that a key goes to no other than the one that it is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tallymark.client.addresses import Address, can_be_overheard, find_address, read_url
from tallymark.client.profiles import Profile, keep_profile
from tallymark.errors import InvalidInput, NotFound

URL = "https://tally.example"
STRANGER = "https://stranger.example"


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who has logged in to a server, without variables."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("TALLY_SERVER", raising=False)
    monkeypatch.delenv("TALLY_KEY", raising=False)
    keep_profile("team", Profile(url=URL, key="tly_team"))


@pytest.mark.parametrize(
    ("typed", "variables", "in_file", "found"),
    [
        (None, {}, None, (URL, "tly_team")),
        ("team", {}, None, (URL, "tly_team")),
        (URL, {}, None, (URL, "tly_team")),
        ("HTTPS://Tally.Example:443/api/v1/", {}, None, (URL, "tly_team")),
        ("http://tally.example", {}, None, ("http://tally.example", None)),
        (f"{URL}:444", {}, None, (f"{URL}:444", None)),
        (f"{URL}/below", {}, None, (f"{URL}/below", None)),
        (STRANGER, {}, None, (STRANGER, None)),
        (STRANGER, {"TALLY_KEY": "tly_x"}, None, (STRANGER, "tly_x")),
        (URL, {"TALLY_KEY": "tly_x"}, None, (URL, "tly_x")),
        (None, {"TALLY_SERVER": STRANGER, "TALLY_KEY": "tly_x"}, None, (STRANGER, "tly_x")),
        (None, {"TALLY_SERVER": "team", "TALLY_KEY": "tly_x"}, None, (URL, "tly_x")),
        (None, {"TALLY_SERVER": "team"}, None, (URL, "tly_team")),
        # The key in the environment is for the server there, and for no other.
        (STRANGER, {"TALLY_SERVER": URL, "TALLY_KEY": "tly_x"}, None, (STRANGER, None)),
        ("team", {"TALLY_SERVER": STRANGER, "TALLY_KEY": "tly_x"}, None, (URL, "tly_team")),
        # A file that came with a folder may name what its reader knows, and nothing else.
        (None, {"TALLY_KEY": "tly_x"}, "team", (URL, "tly_team")),
        (None, {}, f"{URL}/", (URL, "tly_team")),
        (URL, {}, STRANGER, (URL, "tly_team")),
        (None, {"TALLY_SERVER": URL}, STRANGER, (URL, "tly_team")),
    ],
)
def test_which_server_and_which_key(
    typed: str | None,
    variables: dict[str, str],
    in_file: str | None,
    found: tuple[str, str | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert find_address(typed, in_file=in_file) == Address(url=found[0], key=found[1])


@pytest.mark.parametrize("named", [STRANGER, "stranger", f"http://{URL[8:]}", f"{URL}:444"])
def test_a_file_names_no_server_that_nobody_knows(
    named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TALLY_KEY", "tly_x")
    with pytest.raises(InvalidInput, match="you have not logged in to it"):
        find_address(in_file=named)


@pytest.mark.parametrize(
    "text",
    [
        "ftp://tally.example",
        "https://",
        "https://a:b:c",
        "https://[",
        "https://me:pw@tally.example",
    ],
)
def test_what_is_no_address_is_said(text: str) -> None:
    with pytest.raises(InvalidInput, match="is no address of a server; as in https"):
        read_url(text)


def test_a_name_that_nobody_gave_is_said() -> None:
    with pytest.raises(NotFound, match="no server is known as 'tem'; did you mean 'team'"):
        find_address("tem")


def test_who_knows_no_server_is_told_how_to_log_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "empty"))
    with pytest.raises(InvalidInput, match=r"no server is named.*tally login URL"):
        find_address()


def test_an_address_is_kept_as_it_is_compared() -> None:
    assert read_url("http://[::1]:8321/") == "http://[::1]:8321"
    assert read_url("http://LOCALHOST:80/tally/api/v1") == "http://localhost/tally"


@pytest.mark.parametrize(
    ("url", "overheard"),
    [
        ("https://tally.example", False),
        ("http://tally.example", True),
        ("http://192.0.2.7:8321", True),
        ("http://[2001:db8::1]", True),
        ("http://127.0.0.1:8321", False),
        ("http://127.8.9.1", False),
        ("http://[::1]:8321", False),
        ("http://localhost:8321", False),
        ("http://localhost.example", True),
    ],
)
def test_a_key_may_be_overheard_beyond_this_machine(url: str, overheard: bool) -> None:
    assert can_be_overheard(url) == overheard

"""A proxy's header is believed from the proxy alone."""

from __future__ import annotations

import pytest

from tallymark.app.proxy_sign_in import read_proxy_settings
from tallymark.errors import InvalidInput, NotSignedIn

SET = {
    "TALLY_PROXY_HEADER": "X-Forwarded-User",
    "TALLY_PROXY_ROLE": "organiser",
    "TALLY_PROXY_FROM": "10.0.0.7, 192.168.1.0/24,fd00::/8",
}
ALICE = {"x-forwarded-user": "Alice@example.com"}


def test_the_proxy_says_who_it_is() -> None:
    proxy = read_proxy_settings(SET)
    assert proxy is not None
    for peer in ("10.0.0.7", "192.168.1.99", "::ffff:10.0.0.7", "fd00::1"):
        caller = proxy.find_caller(ALICE, peer)
        assert caller is not None
        assert (caller.role, caller.owner) == ("organiser", "alice@example.com")
        assert (caller.name, caller.key_id) == ("organiser alice@example.com", None)


@pytest.mark.parametrize("peer", ["10.0.0.8", "192.168.2.1", "::1", "", None, "testclient"])
def test_nobody_else_is_believed(peer: str | None) -> None:
    proxy = read_proxy_settings(SET)
    assert proxy is not None
    assert proxy.find_caller(ALICE, peer) is None


def test_a_proxy_that_names_nobody_signs_nobody_in() -> None:
    proxy = read_proxy_settings(SET)
    assert proxy is not None
    assert proxy.find_caller({}, "10.0.0.7") is None
    assert proxy.find_caller({"x-forwarded-user": ""}, "10.0.0.7") is None


@pytest.mark.parametrize("name", ["alice, bob", "x", "a\nb", "system admin"])
def test_a_name_that_cannot_be_one_is_refused(name: str) -> None:
    proxy = read_proxy_settings(SET)
    assert proxy is not None
    with pytest.raises(NotSignedIn, match="the proxy names a user"):
        proxy.find_caller({"x-forwarded-user": name}, "10.0.0.7")


def test_without_a_header_there_is_no_proxy() -> None:
    assert read_proxy_settings({}) is None
    assert read_proxy_settings({"TALLY_PROXY_FROM": "10.0.0.7"}) is None


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"TALLY_PROXY_FROM": ""}, "anybody could sign in"),
        ({"TALLY_PROXY_FROM": "proxy.example.com"}, "is no address"),
        ({"TALLY_PROXY_ROLE": "agent"}, "TALLY_PROXY_ROLE is 'agent'"),
        ({"TALLY_PROXY_ROLE": "king"}, "TALLY_PROXY_ROLE is 'king'"),
        ({"TALLY_PROXY_HEADER": "x y"}, "is no name of a header"),
    ],
)
def test_a_wrong_setting_is_refused_at_the_start(changed: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        read_proxy_settings(SET | changed)


def test_viewer_is_the_least_and_the_default() -> None:
    proxy = read_proxy_settings({k: v for k, v in SET.items() if k != "TALLY_PROXY_ROLE"})
    assert proxy is not None
    assert proxy.role == "viewer"

"""A proxy's headers are believed from the proxy alone."""

from __future__ import annotations

import pytest

from tallymark.errors import InvalidInput, NotSignedIn
from tallymark.service.proxy import Proxy, read_proxy_settings

SET = {
    "TALLY_PROXY_HEADER": "X-Forwarded-User",
    "TALLY_PROXY_ROLE": "organiser",
    "TALLY_PROXY_FROM": "10.0.0.7, 192.168.1.0/24,fd00::/8",
}
ALICE = {"x-forwarded-user": "Alice@example.com"}


@pytest.fixture
def proxy() -> Proxy:
    found = read_proxy_settings(SET)
    assert found is not None
    return found


def test_the_proxy_says_who_it_is(proxy: Proxy) -> None:
    caller = proxy.find_caller(ALICE, "203.0.113.9")
    assert caller is not None
    assert (caller.role, caller.owner) == ("organiser", "alice@example.com")
    assert (caller.name, caller.key_id) == ("organiser alice@example.com", None)
    assert caller.address == "203.0.113.9"


@pytest.mark.parametrize("peer", ["10.0.0.7", "192.168.1.99", "::ffff:10.0.0.7", "fd00::1"])
def test_it_is_trusted_by_its_address(proxy: Proxy, peer: str) -> None:
    assert proxy.trusts(peer)


@pytest.mark.parametrize("peer", ["10.0.0.8", "192.168.2.1", "::1", "", None, "testclient"])
def test_nobody_else_is_trusted(proxy: Proxy, peer: str | None) -> None:
    assert not proxy.trusts(peer)


@pytest.mark.parametrize(
    ("forwarded", "client"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("198.51.100.1, 203.0.113.9", "203.0.113.9"),  # the first was written by the client
        ("203.0.113.9, 192.168.1.3, 10.0.0.7", "203.0.113.9"),
        ("203.0.113.9:4711", "203.0.113.9"),
        ("[2001:db8::1]:4711", "2001:db8::1"),
        ("2001:db8::1", "2001:db8::1"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("192.168.1.3, 10.0.0.7", "192.168.1.3"),  # somebody beside the proxy
        ("unknown", None),
        ("203.0.113.9, _hidden", None),
        ("", None),
    ],
)
def test_the_client_is_the_last_that_is_no_proxy(
    proxy: Proxy, forwarded: str, client: str | None
) -> None:
    assert proxy.find_client(forwarded) == client


def test_a_proxy_that_names_nobody_signs_nobody_in(proxy: Proxy) -> None:
    assert proxy.find_caller({}, "203.0.113.9") is None
    assert proxy.find_caller({"x-forwarded-user": ""}, "203.0.113.9") is None


@pytest.mark.parametrize("name", ["alice, bob", "x", "a\nb", "system admin"])
def test_a_name_that_cannot_be_one_is_refused(proxy: Proxy, name: str) -> None:
    with pytest.raises(NotSignedIn, match="the proxy names a user"):
        proxy.find_caller({"x-forwarded-user": name}, "10.0.0.7")


def test_without_addresses_there_is_no_proxy_and_without_a_header_no_sign_in() -> None:
    assert read_proxy_settings({}) is None
    proxy = read_proxy_settings({"TALLY_PROXY_FROM": "10.0.0.7"})
    assert proxy is not None
    assert proxy.trusts("10.0.0.7")
    assert proxy.find_caller(ALICE, "203.0.113.9") is None


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

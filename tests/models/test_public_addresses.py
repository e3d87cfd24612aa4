"""Which addresses are public, and that a name keeps the ones it had at first."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from tallymark.errors import InvalidInput
from tallymark.models.public_addresses import (
    is_public,
    look_up,
    make_pinned_resolver,
    open_public_socket,
    refuse_private_host,
)

PRIVATE = [
    "127.0.0.1",
    "127.255.0.1",
    "0.0.0.0",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",  # what clouds tell machines about themselves
    "100.64.0.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a00:1",
    "64:ff9b:1::1",
    "2002:7f00:1::",
    "2002:a00:1::",
    "2001:db8::1",
]
PUBLIC = ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "host",
    [
        *PRIVATE,
        *("localhost", "LOCALHOST.", "a.localhost", "db.internal", "printer.local"),
        *("\uff11\uff12\uff17.0.0.1", "127\u30020\u30020\u30021", "\u2460\u2461\u2466.0.0.1"),
        *("\u24dbocalhost", "169.254.169\uff0e254"),
    ],
)
def test_private_hosts_are_refused_before_they_are_asked(host: str) -> None:
    with pytest.raises(InvalidInput, match=r"is a private address.*TALLY_ALLOW=private-addresses"):
        refuse_private_host(host)


@pytest.mark.parametrize(
    "host", [*PUBLIC, "example.com", "localhost.example.com", "m\u00fcnchen.example"]
)
def test_other_hosts_are_looked_up_when_asked(host: str) -> None:
    refuse_private_host(host)


class Names:
    """A name service that says something else every time."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)

    async def __call__(self, host: str, port: int, family: int) -> list[tuple[int, str]]:
        return [(socket.AF_INET, address) for address in self.answers.pop(0)]


def test_a_name_keeps_the_addresses_that_it_had() -> None:
    """Rebinding: the second answer would be private."""
    resolver = make_pinned_resolver(Names(["8.8.8.8", "8.8.4.4"], ["127.0.0.1"]))

    async def ask() -> list[str]:
        first = await resolver.resolve("evil.example", 443)
        again = await resolver.resolve("evil.example", 80)
        await resolver.close()
        assert [each["port"] for each in again] == [80, 80]
        return [each["host"] for each in (*first, *again)]

    assert asyncio.run(ask()) == ["8.8.8.8", "8.8.4.4"] * 2


@pytest.mark.parametrize("answer", [["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], []])
def test_a_name_with_a_private_address_is_not_asked(answer: list[str]) -> None:
    resolver = make_pinned_resolver(Names(answer))
    with pytest.raises(OSError, match=r"evil\.example has no public address"):
        asyncio.run(resolver.resolve("evil.example", 443))


@pytest.mark.parametrize("host", ["127.1", "0x7f000001", "2130706433", "localhost"])
def test_other_ways_to_write_this_machine(host: str) -> None:
    """The system takes these for addresses, and what it makes of them is checked."""
    with pytest.raises(OSError, match=r"no public address|not known"):
        asyncio.run(make_pinned_resolver().resolve(host, 80))


@pytest.mark.parametrize(("address", "opened"), [("127.0.0.1", False), ("8.8.8.8", True)])
def test_a_socket_is_opened_only_to_public_addresses(address: str, *, opened: bool) -> None:
    found = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, 80))
    with (
        contextlib.nullcontext() if opened else pytest.raises(OSError, match="is no public address")
    ):
        open_public_socket(found).close()


def test_the_system_is_asked() -> None:
    found = asyncio.run(look_up("127.0.0.1", 80, socket.AF_INET))
    assert found == [(socket.AF_INET, "127.0.0.1")]

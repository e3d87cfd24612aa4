"""Addresses of the open network: which they are, and connections that lead to no others.

A name is looked up once, its addresses are checked, and connections go to these very addresses:
whoever owns the name cannot move it to a private address between the look and the connection.
An address is looked up nowhere, however it was written, so each is checked once more when its
socket is opened.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from tallymark.errors import InvalidInput
from tallymark.left_behind import NotFinished, call_in_thread

if TYPE_CHECKING:
    from aiohttp.abc import AbstractResolver
    from aiohttp.connector import AddrInfoType

Lookup: TypeAlias = Callable[[str, int, int], Awaitable[list[tuple[int, str]]]]
"""From a name, a port and a family of sockets to the family and the address of each answer."""
LOOKUP_S = 10.0
"""How long looking up a name may take: whoever owns it can let its name server be silent."""
_LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")
# Addresses that carry another in them, which is where the connection ends up.
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
_LOCAL_TRANSLATED = ipaddress.ip_network("64:ff9b:1::/48")


def is_public(address: str) -> bool:
    """Whether an address is of the open network, and so is each that it stands for."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        inner = [found.ipv4_mapped, found.sixtofour, *(found.teredo or ())]
        if found in _TRANSLATED:
            return is_public(str(ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)))
        if found in _LOCAL_TRANSLATED or not all(is_public(str(each)) for each in inner if each):
            return False
        if found.ipv4_mapped is not None:
            return True
    return found.is_global and not found.is_multicast and not found.is_reserved


def refuse_private_host(host: str | None) -> None:
    """Refuses what is private by its very writing; a name is looked up when it is asked."""
    name = _to_ascii(host or "").rstrip(".").lower()
    try:
        private = not is_public(_read_ipv4(name) or name)
    except ValueError:
        private = name in _LOCAL_NAMES or name.endswith((".localhost", ".local", ".internal"))
    if private:
        raise InvalidInput(
            f"{host} is a private address, which this server does not ask for others",
            hint="its operator may allow it: TALLY_ALLOW=private-addresses",
        )


def _read_ipv4(name: str) -> str | None:
    """An IPv4 address in any form that systems read, such as 0x7f.1; no name is looked up."""
    try:
        return socket.inet_ntoa(socket.inet_aton(name))
    except OSError:
        return None


def _to_ascii(host: str) -> str:
    """As it is asked: other signs for digits and dots are ways to write an address too."""
    if host.isascii():
        return host
    from yarl import URL  # noqa: PLC0415 (with aiohttp)

    try:
        return URL.build(scheme="http", host=host).raw_host or host
    except ValueError:
        return host


def open_public_socket(found: AddrInfoType) -> socket.socket:
    """For aiohttp: the last to see where a connection goes."""
    family, kind, protocol, _, address = found
    if not is_public(str(address[0])):
        said = f"{address[0]} is no public address, and no other is asked here"
        raise OSError(errno.EACCES, said)
    return socket.socket(family=family, type=kind, proto=protocol)


async def look_up(host: str, port: int, family: int) -> list[tuple[int, str]]:
    """What the system says of a name, in time."""
    ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM, family=family)
    try:
        found = await call_in_thread(ask, seconds=LOOKUP_S)
    except NotFinished as error:
        raise OSError(errno.ETIMEDOUT, f"looking up {host} {error}") from None
    return [(kind, str(address[0])) for kind, _, _, _, address in found]


class PinnedAddresses:
    """Public addresses only, and always those that a name had at first."""

    def __init__(self, look_up: Lookup = look_up) -> None:
        self._look_up = look_up
        self._known: dict[tuple[str, int], list[tuple[int, str]]] = {}

    async def find(
        self, host: str, port: int, family: int = socket.AF_UNSPEC
    ) -> list[tuple[int, str]]:
        """The family and the address of each; an OSError where any of them is not public."""
        key = (host, int(family))
        if key not in self._known:
            found = await self._look_up(host, port, family)
            if not found or not all(is_public(address) for _, address in found):
                said = f"{host} has no public address, and no other is asked here"
                raise OSError(errno.EACCES, said)
            self._known[key] = found
        return self._known[key]


def make_pinned_resolver(look_up: Lookup = look_up) -> AbstractResolver:
    """For aiohttp: see `PinnedAddresses`."""
    from aiohttp.abc import AbstractResolver, ResolveResult  # noqa: PLC0415 (heavy)

    addresses = PinnedAddresses(look_up)

    class PinnedResolver(AbstractResolver):
        async def resolve(
            self, host: str, port: int = 0, family: Any = socket.AF_UNSPEC
        ) -> list[ResolveResult]:
            return [
                ResolveResult(
                    hostname=host,
                    host=address,
                    port=port,
                    family=kind,
                    proto=0,
                    flags=socket.AI_NUMERICHOST,
                )
                for kind, address in await addresses.find(host, port, family)
            ]

        async def close(self) -> None:
            """Nothing is open."""

    return PinnedResolver()

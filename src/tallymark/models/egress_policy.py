"""The egress policy of a tenant's models: their own keys, and addresses of the public internet.

It is given with a model, or applies to all models that are opened inside of `limit_egress`: the
challenges of others open theirs deep inside of evaluators.

A name is looked up once, its addresses are checked, and connections go to these very addresses: the
owner of the name cannot move it to a private address between the check and the connection. A
literal address is never looked up, so each address is checked again when its socket is opened.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from tallymark.abandonable_calls import NotFinished, call_in_thread
from tallymark.errors import InvalidInput

if TYPE_CHECKING:
    from aiohttp import TCPConnector
    from aiohttp.abc import AbstractResolver
    from aiohttp.connector import AddrInfoType

ALLOWANCES = ("python", "cmd", "files", "private-addresses", "mcp")
"""Permissions that the operator of a server may give its users."""
_NEEDS = {"python": "python", "cmd": "cmd", "replay": "files"}
"""Kinds of models that use the machine on which they run."""


class EgressPolicy(msgspec.Struct, frozen=True):
    """A tenant's permissions; under one, nothing of the process's environment is used."""

    keys: Mapping[str, str] = {}
    """Keys by the names of their environment variables: OPENAI_API_KEY, TALLY_HTTP_KEY."""
    may: frozenset[str] = frozenset()
    """The permissions given, of `ALLOWANCES`."""
    own: frozenset[str] = frozenset()
    """Models that the operator provides and pays for all users; the policy does not limit them."""

    @property
    def is_private(self) -> bool:
        """True if private addresses are allowed too."""
        return "private-addresses" in self.may

    def refuse_kind(self, kind: str) -> None:
        """Refuse a kind of model that the operator has not allowed."""
        self.demand(_NEEDS.get(kind), f"models of the kind {kind}/ are not run here")

    def refuse_host(self, host: str | None) -> None:
        """Refuse a host that is written as a private address."""
        if not self.is_private:
            refuse_private_host(host)

    def demand(self, allowance: str | None, refusal: str) -> None:
        """Refuse an action that needs an allowance, unless the operator gave it."""
        if allowance is not None and allowance not in self.may:
            hint = f"the operator of this server may allow it: TALLY_ALLOW={allowance}"
            raise InvalidInput(refusal, hint=hint)

    def make_connector(self, **options: Any) -> TCPConnector:
        """A connector for one event loop that only connects to allowed addresses."""
        from aiohttp import TCPConnector  # noqa: PLC0415 (heavy)

        if not self.is_private:
            options |= {"resolver": make_pinned_resolver(), "socket_factory": open_public_socket}
        return TCPConnector(**options)


_limits: ContextVar[EgressPolicy | None] = ContextVar("egress_policy", default=None)


def find_egress(given: EgressPolicy | None = None, model: str | None = None) -> EgressPolicy | None:
    """The policy of a model: the one given with it, or else that of `limit_egress`."""
    egress = given or _limits.get()
    return None if egress is not None and model in egress.own else egress


@contextmanager
def limit_egress(egress: EgressPolicy | None) -> Iterator[None]:
    """Apply a policy to all models opened inside; None changes nothing."""
    if egress is None:
        yield
        return
    token = _limits.set(egress)
    try:
        yield
    finally:
        _limits.reset(token)


Lookup: TypeAlias = Callable[[str, int, int], Awaitable[list[tuple[int, str]]]]
"""From a name, a port and a family of sockets to the family and the address of each answer."""
LOOKUP_S = 10.0
"""Time limit of a DNS lookup: the owner of a name can make its name server silent."""
_LOCAL_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")
# Addresses that carry another in them, which is where the connection ends up.
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")
_LOCAL_TRANSLATED = ipaddress.ip_network("64:ff9b:1::/48")


def is_public(address: str) -> bool:
    """True if an address, and each address embedded in it, is on the public internet."""
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
    """Refuse a host that is written as a private address; names are checked at the connection."""
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
    """An IPv4 address in any form that systems accept, such as 0x7f.1, without a lookup."""
    try:
        return socket.inet_ntoa(socket.inet_aton(name))
    except OSError:
        return None


def _to_ascii(host: str) -> str:
    """The host as it is looked up: unicode digits and dots can write an address too."""
    if host.isascii():
        return host
    from yarl import URL  # noqa: PLC0415 (with aiohttp)

    try:
        return URL.build(scheme="http", host=host).raw_host or host
    except ValueError:
        return host


def open_public_socket(found: AddrInfoType) -> socket.socket:
    """Socket factory for aiohttp: the last check of a connection's address."""
    family, kind, protocol, _, address = found
    if not is_public(str(address[0])):
        message = (
            f"{address[0]} is not a public address, and only public addresses are allowed here"
        )
        raise OSError(errno.EACCES, message)
    return socket.socket(family=family, type=kind, proto=protocol)


async def look_up(host: str, port: int, family: int) -> list[tuple[int, str]]:
    """Look up a name within the time limit."""
    ask = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM, family=family)
    try:
        found = await call_in_thread(ask, seconds=LOOKUP_S)
    except NotFinished as error:
        raise OSError(errno.ETIMEDOUT, f"looking up {host} {error}") from None
    return [(kind, str(address[0])) for kind, _, _, _, address in found]


class PinnedAddresses:
    """Looks up public addresses only, once per name."""

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
                message = (
                    f"{host} has no public address, and only public addresses are allowed here"
                )
                raise OSError(errno.EACCES, message)
            self._known[key] = found
        return self._known[key]


def make_pinned_resolver(look_up: Lookup = look_up) -> AbstractResolver:
    """`PinnedAddresses` as a resolver for aiohttp."""
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
            """Do nothing: no connection is open."""

    return PinnedResolver()

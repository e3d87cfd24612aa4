"""Trusted proxies in front of the server: who asks through them, and from which address.

A proxy names the client's address in a header, and where an operator has single sign-on, the user
in another. Both are believed from the proxy's own addresses only: anybody else could write them.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from tallymark.errors import InvalidInput, NotSignedIn
from tallymark.service.callers import KEY_ROLES, Caller, Role
from tallymark.store.keys import check_owner
from tallymark.store.tenants import DEFAULT

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

HEADER = "TALLY_PROXY_HEADER"
ROLE = "TALLY_PROXY_ROLE"
FROM = "TALLY_PROXY_FROM"
TENANT = "TALLY_PROXY_TENANT"
_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
_WITH_PORT = re.compile(r"\[([^\]]+)\](?::\d+)?|([\d.]+):\d+")
"""Some proxies write the client's port too."""


@dataclass(frozen=True, slots=True)
class Networks:
    """Addresses and networks that a setting names."""

    items: tuple[_Network, ...] = ()

    @classmethod
    def read(cls, text: str, setting: str = "") -> Networks:
        """Read them with commas between; what is none is refused by the name of the setting."""
        return cls(tuple(_read_network(each, setting) for each in text.split(",") if each.strip()))

    def __contains__(self, peer: str | None) -> bool:
        address = _read_address(peer or "")
        return address is not None and any(address in network for network in self.items)


@dataclass(frozen=True, slots=True)
class Proxy:
    """The operator's configuration."""

    networks: Networks
    header: str | None = None
    """The header that names who is signed in, in small letters."""
    role: Role = "viewer"
    tenant: str = DEFAULT

    def find_caller(self, headers: Mapping[str, str], address: str | None) -> Caller | None:
        """The user that the proxy vouches for in a request; None without one.

        `headers` have lower-case names, and `address` is the client's.
        """
        said = None if self.header is None else headers.get(self.header)
        if not said:
            return None
        owner = said.strip().lower()
        try:
            check_owner(owner)
        except InvalidInput:
            raise NotSignedIn(
                f"the proxy names a user in {self.header} that cannot be one",
                hint="it is an address of mail or a name of a-z and 0-9",
            ) from None
        return Caller(self.tenant, self.role, f"{self.role} {owner}", owner=owner, address=address)

    def trusts(self, peer: str | None) -> bool:
        """True for an address of the proxy."""
        return peer in self.networks

    def find_client(self, forwarded: str) -> str | None:
        """The client in `X-Forwarded-For`: its last address that is not a trusted proxy.

        Earlier entries may be forged by the client. None if it is no address.
        """
        names = forwarded.split(",")
        while len(names) > 1 and self.trusts(names[-1]):
            names.pop()
        found = _read_address(names[-1])
        return None if found is None else str(found)


class BehindProxy:
    """ASGI middleware: requests of a trusted proxy get their client's address and scheme.

    `scope["tally.through_proxy"]` marks such requests.
    """

    def __init__(self, app: ASGIApp, proxy: Proxy) -> None:
        self._app = app
        self._proxy = proxy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["client"] and self._proxy.trusts(scope["client"][0]):
            said: dict[bytes, str] = {}
            for name, value in scope["headers"]:
                text = value.decode("latin-1")
                said[name] = f"{said[name]},{text}" if name in said else text
            scope["tally.through_proxy"] = True
            client = self._proxy.find_client(said.get(b"x-forwarded-for", ""))
            if client is not None:
                scope["client"] = (client, 0)
            if said.get(b"x-forwarded-proto") in ("http", "https"):
                scope["scheme"] = said[b"x-forwarded-proto"]
        await self._app(scope, receive, send)


def read_proxy_settings(environment: Mapping[str, str]) -> Proxy | None:
    """Configuration from variables; None without a trusted proxy."""
    header = environment.get(HEADER, "").strip().lower()
    networks = Networks.read(environment.get(FROM, ""), FROM)
    if not header:
        return Proxy(networks) if networks.items else None
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", header):
        raise InvalidInput(f"{HEADER} is no name of a header: {header!r}")
    role = environment.get(ROLE, "viewer").strip()
    found: list[Role] = [each for each in KEY_ROLES if each == role and each != "agent"]
    if not found:
        raise InvalidInput(f"{ROLE} is {role!r}", hint="write viewer, reporter, organiser or admin")
    if not networks.items:
        raise InvalidInput(
            f"{HEADER} is set, and {FROM} is not: anybody could sign in",
            hint=f"name the proxy's addresses, as in {FROM}=10.0.0.7,192.168.1.0/24",
        )
    return Proxy(networks, header, found[0], environment.get(TENANT, DEFAULT))


def _read_address(text: str) -> _Address | None:
    text = text.strip()
    if (found := _WITH_PORT.fullmatch(text)) is not None:
        text = found[1] or found[2]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address


def _read_network(text: str, setting: str) -> _Network:
    try:
        return ipaddress.ip_network(text.strip(), strict=False)
    except ValueError:
        raise InvalidInput(
            f"{setting} has {text.strip()!r}, which is no address",
            hint="as in 10.0.0.7 or 10.0.0.0/8",
        ) from None

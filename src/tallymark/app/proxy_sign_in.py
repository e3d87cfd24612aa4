"""Sign-in by a proxy in front of the server, where an operator has single sign-on.

The proxy names the user in a header. It is believed from the proxy's own addresses alone: anybody
else could write the same header.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tallymark.app.callers import KEY_ROLES, Caller, Role
from tallymark.errors import InvalidInput, NotSignedIn
from tallymark.store.accounts.keys import check_owner
from tallymark.store.accounts.tenants import DEFAULT

HEADER = "TALLY_PROXY_HEADER"
ROLE = "TALLY_PROXY_ROLE"
FROM = "TALLY_PROXY_FROM"
TENANT = "TALLY_PROXY_TENANT"
_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class ProxySignIn:
    """What an operator has configured."""

    header: str
    role: Role
    networks: tuple[_Network, ...]
    tenant: str = DEFAULT

    def find_caller(self, headers: Mapping[str, str], peer: str | None) -> Caller | None:
        """Whom the proxy vouches for; None where it was not the proxy, or it names nobody.

        `headers` have names in small letters, and `peer` is the address that really connected.
        """
        said = headers.get(self.header)
        if not said or not self.trusts(peer):
            return None
        owner = said.strip().lower()
        try:
            check_owner(owner)
        except InvalidInput:
            raise NotSignedIn(
                f"the proxy names a user in {self.header} that cannot be one",
                hint="it is an address of mail or a name of a-z and 0-9",
            ) from None
        return Caller(self.tenant, self.role, f"{self.role} {owner}", owner=owner, address=peer)

    def trusts(self, peer: str | None) -> bool:
        """Whether this address is the proxy's."""
        try:
            address = ipaddress.ip_address(peer or "")
        except ValueError:
            return False
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self.networks)


def read_proxy_settings(environment: Mapping[str, str]) -> ProxySignIn | None:
    """What the variables say; None where there is no proxy to trust."""
    header = environment.get(HEADER, "").strip().lower()
    if not header:
        return None
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", header):
        raise InvalidInput(f"{HEADER} is no name of a header: {header!r}")
    role = environment.get(ROLE, "viewer").strip()
    found: list[Role] = [each for each in KEY_ROLES if each == role and each != "agent"]
    if not found:
        raise InvalidInput(f"{ROLE} is {role!r}", hint="write viewer, reporter, organiser or admin")
    networks = tuple(_read_network(each) for each in environment.get(FROM, "").split(",") if each)
    if not networks:
        raise InvalidInput(
            f"{HEADER} is set, and {FROM} is not: anybody could sign in",
            hint=f"name the proxy's addresses, as in {FROM}=10.0.0.7,192.168.1.0/24",
        )
    return ProxySignIn(header, found[0], networks, environment.get(TENANT, DEFAULT))


def _read_network(text: str) -> _Network:
    try:
        return ipaddress.ip_network(text.strip(), strict=False)
    except ValueError:
        raise InvalidInput(
            f"{FROM} has {text.strip()!r}, which is no address", hint="as in 10.0.0.7 or 10.0.0.0/8"
        ) from None

"""Server address and key of the client and of every command.

A key is sent only to the server that it belongs to. A key of `tally login` belongs to the address
of its profile, `TALLY_KEY` to `TALLY_SERVER`, or to the address that the user types if that is not
set. A server that only a `tally.toml` names must be one that the user has logged in to.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import urlsplit, urlunsplit

from tallymark.client.profiles import read_profiles
from tallymark.errors import InvalidInput

PREFIX = "/api/v1"
SERVER_VARIABLE, KEY_VARIABLE = "TALLY_SERVER", "TALLY_KEY"
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, kw_only=True)
class Address:
    """A server and the key for it."""

    url: str
    key: str | None = None

    def __str__(self) -> str:
        return self.url


def find_address(
    server: str | None = None, key: str | None = None, *, in_file: str | None = None
) -> Address:
    """Find a server by its address or the name of a profile, with its key.

    If none is given, `TALLY_SERVER` names it, then `in_file`, then the current profile. An empty
    key is no key, even if a profile has one.
    """
    told = os.environ.get(SERVER_VARIABLE, "").strip()
    named = (server or "").strip() or told
    if not named and in_file is not None:
        return _find_kept(in_file)
    if not named:
        profiles = read_profiles()
        if profiles.current is None:
            hint = f"give its address, set {SERVER_VARIABLE}, or log in: tally login URL"
            raise InvalidInput("no server is named", hint=hint)
        kept = profiles.find(profiles.current)
        return Address(url=kept.url, key=kept.key if key is None else key)
    url, kept_key = _resolve(named)
    if key is None and (given := os.environ.get(KEY_VARIABLE)):
        # It is for the server beside it, and for no other.
        key = given if not told or _resolve(told)[0] == url else None
    return Address(url=url, key=kept_key if key is None else key)


def read_url(text: str) -> str:
    """Normalise an address: lower case, without the default port."""
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in _PORTS or not parts.hostname or parts.username is not None:
        raise InvalidInput(
            f"{text!r} is no address of a server", hint="as in https://tally.example"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    place = host if port in (None, _PORTS[parts.scheme]) else f"{host}:{port}"
    path = parts.path.rstrip("/").removesuffix(PREFIX).rstrip("/")
    return urlunsplit((parts.scheme, place, path, "", ""))


def can_be_overheard(url: str) -> bool:
    """Check if a key would cross a network unencrypted."""
    return url.startswith("http://") and not is_loopback(url)


def is_loopback(url: str) -> bool:
    """Check for plain HTTP on this machine."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        here = ip_address(host).is_loopback
    except ValueError:
        here = host == "localhost" or host.endswith(".localhost")
    return here and parts.scheme == "http"


def _resolve(named: str) -> tuple[str, str | None]:
    """Find the address of a name, and the key of its profile."""
    if "://" not in named:
        profile = read_profiles().find(named)
        return profile.url, profile.key
    url = read_url(named)
    kept = read_profiles().find_for(url)
    return url, None if kept is None else kept.key


def _find_kept(named: str) -> Address:
    profiles = read_profiles()
    found = profiles.find_for(read_url(named)) if "://" in named else profiles.profiles.get(named)
    if found is None:
        words = named if "://" in named else f"URL --profile {named}"
        raise InvalidInput(
            f"tally.toml names the server {named!r}, and you have not logged in to it",
            hint=f"if you trust it: tally login {words}",
        )
    return Address(url=found.url, key=found.key)

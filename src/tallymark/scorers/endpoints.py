"""Posting JSON to an HTTP endpoint that the user names; what goes wrong is one sentence."""

from __future__ import annotations

import math
import os
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tallymark.errors import ScorerError, WorkFailed
from tallymark.scorers.demand import demand


def check_url(url: str, scorer: str) -> None:
    """Refuse what is no HTTP address, and secrets in one: it is kept in every score's origin."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ScorerError(f"{scorer}: {url!r} is not an http:// or https:// address")
    if parts.username or parts.password:
        raise ScorerError(
            f"{scorer}: the address holds a user name or password",
            hint="keep it in an environment variable and name that with api_key_env",
        )


def check_seconds(seconds: float, scorer: str) -> None:
    """A time limit of 0 would mean none at all."""
    demand(0 < seconds < math.inf, scorer, "timeout", seconds, "a number of seconds more than 0")


def api_key(variable: str | None, scorer: str) -> str | None:
    """The key in an environment variable; None when no variable was named."""
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        raise WorkFailed(f"{scorer}: the environment variable {variable} is not set")
    return key


async def post_json(url: str, body: Any, *, seconds: float, key: str | None = None) -> Any:
    """The decoded JSON answer to a JSON body; everything else is a WorkFailed."""
    import aiohttp  # noqa: PLC0415 (heavy)

    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    limit = aiohttp.ClientTimeout(total=seconds)
    try:
        async with (
            aiohttp.ClientSession(timeout=limit, headers=headers, trust_env=True) as session,
            session.post(url, json=body, allow_redirects=False) as response,
        ):
            answer = await response.read()
    except TimeoutError:
        raise WorkFailed(f"{_shown(url)} did not answer in {seconds:g} s") from None
    except aiohttp.ClientError as error:
        raise WorkFailed(f"{_shown(url)} could not be reached: {error}") from None
    if response.status != 200:
        said = answer[:200].decode(errors="replace").strip()
        raise WorkFailed(f"{_shown(url)} answered {response.status} {response.reason}: {said}")
    try:
        return msgspec.json.decode(answer)
    except msgspec.DecodeError as error:
        raise WorkFailed(f"{_shown(url)} did not answer with JSON: {error}") from None


def _shown(url: str) -> str:
    """The address without its query, which may hold a secret."""
    return url.partition("?")[0]

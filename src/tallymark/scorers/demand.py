"""What options must be, beyond their type."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tallymark.errors import ScorerError, WorkFailed
from tallymark.scoring.score import show_value

if TYPE_CHECKING:
    from collections.abc import Sequence


def demand(holds: bool, scorer: str, option: str, value: object, wanted: str) -> None:
    """Refuse an option whose value is of the right type but makes no sense."""
    if not holds:
        raise ScorerError(
            f"{scorer}: the option {option!r} is {show_value(value)}; it must be {wanted}"
        )


def demand_texts(scorer: str, option: str, texts: Sequence[str]) -> None:
    """Refuse a list of texts to look for that is empty or has an empty text in it."""
    demand(bool(texts), scorer, option, texts, "a list of at least one text")
    demand(all(texts), scorer, option, texts, "a list of texts that are not empty")


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


def read_api_key(variable: str | None, scorer: str) -> str | None:
    """The key in an environment variable; None when no variable was named."""
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        raise WorkFailed(f"{scorer}: the environment variable {variable} is not set")
    return key

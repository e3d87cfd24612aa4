"""`Payload`: what a competitor submits, or a trusted system reports, with an attempt."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from tallymark.challenges.attempt import Metrics
from tallymark.errors import InvalidInput


class Payload(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The bulky part of an attempt. Equal contents have equal digests."""

    submission: Any = None
    """A JSON value."""
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    """What the competitor claims, such as its tokens; checked, never trusted."""
    trajectory: str | None = None
    """What the agent did, as JSON text."""
    reported: Metrics | None = None
    """The metrics that a trusted system reports; None for competitors."""

    def digest(self) -> str:
        """A hash of the content; what JSON cannot carry is refused."""
        return hashlib.sha256(encode_json(self)).hexdigest()


def encode_json(value: Any) -> bytes:
    """The value as JSON, keys in order; what JSON cannot carry is refused."""
    try:
        return msgspec.json.encode(value, order="sorted")
    except UnicodeEncodeError:
        what = "text that is not Unicode"
    except RecursionError:
        what = "values nested too deeply"
    except TypeError:
        what = "a value that JSON does not know"
    raise InvalidInput(f"the submission holds {what}", hint="submit plain JSON")

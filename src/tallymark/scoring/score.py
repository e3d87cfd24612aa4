"""`Score`: the outcome of a scorer, and `Origin`: which scorer, code and config it came from.

Zero means measured as zero. A scorer that failed has no value, and its `error` has the cause.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from numbers import Real
from typing import Any

import msgspec

from tallymark.errors import ScorerError

_DEEPEST = 32
"""Metadata nested deeper than this is written as text; it also ends circles."""


class Origin(msgspec.Struct, frozen=True):
    """The origin of a score: two scores with equal origins were made by the same rule."""

    scorer: str
    version: str
    """The version that the author gave, or else a hash of the scorer's code."""
    config: dict[str, Any] = msgspec.field(default_factory=dict)


class Score(msgspec.Struct, frozen=True, gc=False):
    """The outcome of one scorer: a finite `value`, or None with a `label` or an `error`."""

    value: float | None
    reason: str = ""
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    error: str | None = None
    label: str | None = None
    origin: Origin | None = None
    name: str | None = None
    """Name of one of several scores from one call, in reports and formulas."""
    parts: tuple[Score, ...] = ()
    """The scores of a call that gave several; then there is no value here."""

    def __post_init__(self) -> None:
        """Refuse an infinite value, a failed score with a value, a reason that is not text."""
        if (
            self.reason.__class__ is not str
            or self.metadata.__class__ is not dict
            or self.parts.__class__ is not tuple
        ):
            self._tidy()
        value = self.value
        if value is None:
            return
        if value.__class__ is not float or not math.isfinite(value):
            msgspec.structs.force_setattr(self, "value", as_number(value))
        if self.error is not None:
            raise ScorerError("a score has a value or an error, not both")

    def _tidy(self) -> None:
        """Take None for nothing and any mapping for metadata; refuse the rest."""
        reason: object = self.reason
        metadata: object = self.metadata
        if not isinstance(reason, str | None):
            raise ScorerError(f"a score's reason is text, not {show_value(reason)}")
        if not isinstance(metadata, Mapping | None):
            raise ScorerError(f"a score's metadata is a mapping, not {show_value(metadata)}")
        parts: object = self.parts
        if not isinstance(parts, list | tuple) or not all(isinstance(p, Score) for p in parts):
            raise ScorerError(f"a score's parts are a list of scores, not {show_value(parts)}")
        msgspec.structs.force_setattr(self, "parts", tuple(parts))
        msgspec.structs.force_setattr(self, "reason", str(reason or ""))
        msgspec.structs.force_setattr(self, "metadata", dict(metadata or {}))

    @classmethod
    def failed(
        cls, error: str, *, reason: str = "", metadata: dict[str, Any] | None = None
    ) -> Score:
        """The score of a scorer that could not do its work."""
        return cls(None, reason, {} if metadata is None else metadata, error or "unknown error")

    @property
    def ok(self) -> bool:
        """True when the scorer did its work."""
        return self.error is None

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values that any JSON writer takes."""
        fields = msgspec.structs.asdict(self)
        told = {key: value for key, value in fields.items() if key not in ("name", "parts")}
        if self.name is not None:
            told["name"] = self.name
        plain: dict[str, Any] = make_json_safe(told)
        if self.parts:
            plain["parts"] = [part.to_dict() for part in self.parts]
        return plain

    def made_by(self, origin: Origin, name: str | None = None) -> Score:
        """The same score with its origin, and with its name where it is one of several."""
        # It was checked when it was made, and is not checked again.
        return msgspec.structs.replace(self, origin=origin, name=name)


def as_number(value: object) -> float:
    """A finite float from a bool or any real number, numpy's and decimals; else a ScorerError."""
    value = scalar(value)
    if not isinstance(value, Real | Decimal):
        raise ScorerError(f"a score's value is a number or None, not {show_value(value)}")
    try:
        number = float(value)
    except (OverflowError, ValueError):  # too large, or a signaling NaN
        number = math.inf
    if not math.isfinite(number):
        raise ScorerError(f"a score's value is a finite number, not {show_value(value)}")
    return number


def show_value(value: object) -> str:
    """A value for a message: its repr, cut short, and its type where that helps."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 (a user's repr may raise anything)
        text = "a value without a working repr"
    short = text if len(text) <= 80 else f"{text[:77]}..."
    if value is None or isinstance(value, bool | str | float):
        return short
    return f"{short} ({type(value).__name__})"


def make_json_safe(value: object, depth: int = 0) -> Any:
    """Plain JSON values: NaN and infinity become None, what JSON does not know becomes text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.asdict(value)
        if value.__struct_config__.omit_defaults:  # as msgspec writes it
            defaults = {each.name: each for each in msgspec.structs.fields(value)}
            fields = {key: item for key, item in fields.items() if item != _default(defaults[key])}
        value = {key: item for key, item in fields.items() if item is not msgspec.UNSET}
    if isinstance(value, Mapping) and depth < _DEEPEST:
        return {
            make_json_safe(str(key)): make_json_safe(item, depth + 1) for key, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset) and depth < _DEEPEST:
        return [make_json_safe(item, depth + 1) for item in value]
    number = scalar(value)
    return make_json_safe(_make_text(value) if number is value else number)


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _make_text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 (a user's class may raise anything)
        return show_value(value)


def scalar(value: object) -> object:
    """Python's own number for a numpy one (or any array without dimensions); others as they are."""
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return value.item()
    return value

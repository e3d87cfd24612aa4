"""Plain mappings to the fields of `Trace` and `Span`.

Keys may be snake_case or the camelCase of JavaScript's writers, and the trace's own keys may
stand beside `spans` or under `trace`. Keys that no field has go to `metadata`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from tallymark.errors import Place, TraceError
from tallymark.traces.plain import compact

if TYPE_CHECKING:
    from collections.abc import Callable

Fields = dict[str, Any]


def trace_fields(
    data: Mapping[str, Any], place: Place | None = None
) -> tuple[Fields, list[Fields]]:
    """The fields of a trace but for its spans, and the fields of each span."""
    _must_be_mapping(data, "a trace", place)
    flat = _flattened(data, place)
    spans = flat.pop("spans", None) or []
    if not isinstance(spans, Sequence) or isinstance(spans, str | bytes):
        _wrong("spans", "a list", spans, place)
    fields = _fields(flat, _TRACE, "", place)
    return fields, [_span_fields(span, i, place) for i, span in enumerate(spans)]


def _span_fields(span: Any, index: int, place: Place | None) -> Fields:
    _must_be_mapping(span, f"spans[{index}]", place)
    return _fields(span, _SPAN, f"spans[{index}].", place)


def _flattened(data: Mapping[str, Any], place: Place | None) -> dict[str, Any]:
    """One level of keys from `{"trace": {...}, "spans": [...]}`, or the mapping as it is."""
    if "trace" not in data:
        return dict(data)
    _must_be_mapping(data["trace"], "trace", place)
    inner = _flattened(data["trace"], place)
    outer = {key: value for key, value in data.items() if key != "trace"}
    if isinstance(outer.get("metadata"), Mapping) and isinstance(inner.get("metadata"), Mapping):
        inner["metadata"] = {**outer["metadata"], **inner["metadata"]}
    return {**outer, **inner}


def _fields(
    data: Mapping[str, Any], table: Mapping[str, _Field], prefix: str, place: Place | None
) -> Fields:
    found: Fields = {}
    extra: dict[str, Any] = {}
    for key, value in data.items():
        field = table.get(key)
        if field is None:
            extra[str(key)] = value
        elif value is not None:
            name, wanted, read = field
            try:
                found[name] = read(value)
            except (ValueError, TypeError, OverflowError, RecursionError):
                _wrong(prefix + key, wanted, value, place)
    if extra:
        # What the file itself calls metadata wins over keys that only ended up there.
        found["metadata"] = {**extra, **found.get("metadata", {})}
    return found


def _wrong(key: str, wanted: str, value: Any, place: Place | None) -> NoReturn:
    raise TraceError(f"{key} must be {wanted}, not {_shown(value)}", place=place)


def _must_be_mapping(value: Any, what: str, place: Place | None) -> None:
    if not isinstance(value, Mapping):
        raise TraceError(f"{what} must be an object, not {_shown(value)}", place=place)


def _shown(value: Any) -> str:
    """The value in a message: short ones as they are, others by their kind."""
    if value is None or isinstance(value, bool | int | float | str):
        shown = repr(value)
        return shown if len(shown) <= 40 else f"{shown[:37]}..."
    return "an object" if isinstance(value, Mapping) else f"a {type(value).__name__}"


def _label(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise TypeError
    return str(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else compact(value)


def _time(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError
    return float(value)


def _amount(value: Any) -> float:
    amount = _time(value)
    if amount < 0:
        raise ValueError
    return amount


def _count(value: Any) -> int:
    if not _amount(value).is_integer() or value >= 2**63:
        raise ValueError
    return int(value)


def _metadata(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError
    return dict(value)


def _one_of(*choices: str) -> tuple[str, Callable[[Any], Any]]:
    def read(value: Any) -> Any:
        if value not in choices:
            raise ValueError
        return value

    return "one of " + ", ".join(repr(choice) for choice in choices), read


_Field = tuple[str, str, "Callable[[Any], Any]"]
_KINDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "label": ("a string", _label),
    "text": ("text, or what can be written as JSON", _text),
    "time": ("a finite number", _time),
    "amount": ("a finite number of at least 0", _amount),
    "count": ("a whole number of at least 0", _count),
    "metadata": ("an object", _metadata),
    "status": _one_of("ok", "error"),
    "span_type": _one_of("span", "generation", "tool", "retrieval", "event"),
}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _table(kinds: Mapping[str, str], **also: str) -> dict[str, _Field]:
    """Every accepted key, in both spellings, with its field, what it must be, and its reader."""
    table = {name: (name, *_KINDS[kind]) for name, kind in kinds.items()}
    table |= {key: table[name] for key, name in also.items()}
    return table | {_camel(key): field for key, field in table.items()}


_TRACE = _table(
    {
        "trace_id": "label",
        "name": "label",
        "status": "status",
        "duration_ms": "amount",
        "metadata": "metadata",
    }
)
_SPAN = _table(
    {
        "span_id": "label",
        "name": "label",
        "span_type": "span_type",
        "parent_id": "label",
        "input": "text",
        "output": "text",
        "tool_name": "label",
        "tool_input": "text",
        "tool_output": "text",
        "model": "label",
        "start_ms": "time",
        "duration_ms": "amount",
        "status": "status",
        "error": "text",
        "input_tokens": "count",
        "output_tokens": "count",
        "cost": "amount",
        "metadata": "metadata",
    },
    parent_span_id="parent_id",
)

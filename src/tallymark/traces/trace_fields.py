"""Reads the fields of `Trace` and `Span` from plain mappings.

Keys may be snake_case or camelCase, and the trace's own keys may be next to `spans` or under
`trace`. Unknown keys go to `metadata`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from tallymark.errors import Place, TraceError
from tallymark.traces.flat_records import spread_record
from tallymark.traces.lenient_json import compact

if TYPE_CHECKING:
    from collections.abc import Callable

Fields = dict[str, Any]


def read_trace_fields(
    data: Mapping[str, Any], place: Place | None = None
) -> tuple[Fields, list[Fields]]:
    """The fields of a trace but for its spans, and the fields of each span."""
    _require_mapping(data, "a trace", place)
    flat = spread_record(_flatten(data, place))
    spans = flat.pop("spans", None) or []
    if not isinstance(spans, Sequence) or isinstance(spans, str | bytes):
        _refuse("spans", "a list", spans, place)
    fields = _read_fields(flat, _TRACE, "", place)
    return fields, [_read_span_fields(span, i, place) for i, span in enumerate(spans)]


def _read_span_fields(span: Any, index: int, place: Place | None) -> Fields:
    _require_mapping(span, f"spans[{index}]", place)
    fields = _read_fields(span, _SPAN, f"spans[{index}].", place)
    for key in ("input", "output"):
        if not isinstance(span.get(key), str | None):
            fields[f"{key}_is_data"] = True
    return fields


def _flatten(data: Mapping[str, Any], place: Place | None) -> dict[str, Any]:
    """One level of keys from `{"trace": {...}, "spans": [...]}`, or the mapping as it is."""
    if "trace" not in data:
        return dict(data)
    _require_mapping(data["trace"], "trace", place)
    inner = _flatten(data["trace"], place)
    outer = {key: value for key, value in data.items() if key != "trace"}
    if isinstance(outer.get("metadata"), Mapping) and isinstance(inner.get("metadata"), Mapping):
        inner["metadata"] = {**outer["metadata"], **inner["metadata"]}
    return {**outer, **inner}


def _read_fields(
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
                _refuse(prefix + key, wanted, value, place)
    if extra:
        # What the file itself calls metadata wins over keys that only ended up there.
        found["metadata"] = {**extra, **found.get("metadata", {})}
    return found


def _refuse(key: str, wanted: str, value: Any, place: Place | None) -> NoReturn:
    raise TraceError(f"{key} must be {wanted}, not {_describe(value)}", place=place)


def _require_mapping(value: Any, what: str, place: Place | None) -> None:
    if not isinstance(value, Mapping):
        raise TraceError(f"{what} must be an object, not {_describe(value)}", place=place)


def _describe(value: Any) -> str:
    """The value in a message: short ones as they are, others by their kind."""
    if value is None or isinstance(value, bool | int | float | str):
        shown = repr(value)
        return shown if len(shown) <= 40 else f"{shown[:37]}..."
    return "an object" if isinstance(value, Mapping) else f"a {type(value).__name__}"


def _read_label(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise TypeError
    return str(value)


def _read_text(value: Any) -> str:
    return value if isinstance(value, str) else compact(value)


def _read_time(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError
    return float(value)


def _read_amount(value: Any) -> float:
    amount = _read_time(value)
    if amount < 0:
        raise ValueError
    return amount


def _read_count(value: Any) -> int:
    if not _read_amount(value).is_integer() or value >= 2**63:
        raise ValueError
    return int(value)


def _read_metadata(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError
    return dict(value)


def _make_choice(*choices: Any) -> tuple[str, Callable[[Any], Any]]:
    def read(value: Any) -> Any:
        if value not in choices:
            raise ValueError
        return value

    return "one of " + ", ".join(repr(choice) for choice in choices), read


_Field = tuple[str, str, "Callable[[Any], Any]"]
_KINDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "label": ("a string", _read_label),
    "text": ("text, or what can be written as JSON", _read_text),
    "time": ("a finite number", _read_time),
    "amount": ("a finite number of at least 0", _read_amount),
    "count": ("a whole number of at least 0", _read_count),
    "metadata": ("an object", _read_metadata),
    "flag": _make_choice(True, False),
    "status": _make_choice("ok", "error"),
    "span_type": _make_choice("span", "generation", "tool", "retrieval", "event"),
}


def _to_camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def _make_table(kinds: Mapping[str, str], **also: str) -> dict[str, _Field]:
    """Every accepted key, in both spellings, with its field, what it must be, and its reader."""
    table = {name: (name, *_KINDS[kind]) for name, kind in kinds.items()}
    table |= {key: table[name] for key, name in also.items()}
    return table | {_to_camel(key): field for key, field in table.items()}


_TRACE = _make_table(
    {
        "trace_id": "label",
        "name": "label",
        "status": "status",
        "duration_ms": "amount",
        "metadata": "metadata",
    }
)
_SPAN = _make_table(
    {
        "span_id": "label",
        "name": "label",
        "span_type": "span_type",
        "parent_id": "label",
        "input": "text",
        "output": "text",
        "output_seen": "flag",
        "input_is_data": "flag",
        "output_is_data": "flag",
        "output_is_answer": "flag",
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
        "cache_read_tokens": "count",
        "cache_write_tokens": "count",
        "cache_write_1h_tokens": "count",
        "reasoning_tokens": "count",
        "cost": "amount",
        "cost_computed": "flag",
        "metadata": "metadata",
    },
    parent_span_id="parent_id",
    cost_usd="cost",
)

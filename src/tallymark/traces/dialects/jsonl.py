"""Traces in our own shape: one a line, an array of them, or a single one.

A line in snake_case is decoded straight into the structs. Anything else (camelCase, nested
under `trace`, objects where text is wanted) goes through `Trace.from_dict`.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import chain, islice
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from tallymark.errors import TraceError, suggest
from tallymark.text import quote_some
from tallymark.traces.dialect import Dialect
from tallymark.traces.flat_records import (
    FieldMap,
    describe_needs,
    find_value,
    is_flat,
    map_fields,
)
from tallymark.traces.json_records import read_records
from tallymark.traces.lenient_json import as_mapping, decode
from tallymark.traces.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tallymark.traces.json_records import JsonRecord
    from tallymark.traces.trace_source import TraceSource

_MARKS = ("spans", "trace", "trace_id", "traceId")
_LOOKED_AT = 100
"""Records of a file in which a key that the user named is looked for."""
_DECODER = msgspec.json.Decoder(Trace)


def sniff(keys: Collection[str]) -> bool:
    """True when an object with these keys is a trace."""
    return any(mark in keys for mark in _MARKS)


def read(source: TraceSource) -> Iterator[Trace | TraceError]:
    """Every trace, or the reason why there is none."""
    for record in read_records(source):
        try:
            trace = _DECODER.decode(record.raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            yield _read_leniently(record)
        else:
            # Every field has a default, so `{}` decodes; the lenient reader names what is missing.
            yield trace if trace.spans or trace.trace_id else _read_leniently(record)


def read_mapped(source: TraceSource, fields: FieldMap) -> Iterator[Trace | TraceError]:
    """Every trace of records whose fields are under other keys."""
    records = read_records(source)
    first = list(islice(records, _LOOKED_AT))
    _check_keys(first, fields)
    for record in chain(first, records):
        yield _read_leniently(record, fields)


def _check_keys(records: list[JsonRecord], fields: FieldMap) -> None:
    """Refuses a key that no record has: every answer or question would be missing, silently."""
    known: dict[str, None] = {}
    missing = dict(fields)
    for record in records:
        with suppress(TraceError):  # reported when the record is read
            data = as_mapping(record.decode())
            for key, value in data.items():
                inside = [f"{key}.{each}" for each in as_mapping(value)]
                known |= dict.fromkeys(inside or [key])
            missing = {f: key for f, key in missing.items() if find_value(data, key) is None}
    for field, key in missing.items() if known else ():
        near = suggest(key, known)
        hint = (f"did you mean {near!r}? " if near else "") + f"the keys are {quote_some([*known])}"
        message = f"no record has {key!r}, where --map looks for {field}"
        raise TraceError(message, place=records[0].source.place(), hint=hint)


def _read_leniently(record: JsonRecord, fields: FieldMap | None = None) -> Trace | TraceError:
    try:
        data = decode(record.raw, record.place, nan_is_null=False)
        if fields and isinstance(data, dict):
            data = map_fields(data, fields)
        if isinstance(data, dict) and not sniff(data) and not is_flat(data):
            message, hint = describe_needs(data)
            return TraceError(message, place=record.place, hint=hint)
        trace = Trace.from_dict(data, place=record.place)
        named = trace.trace_id or "spans" in data or "trace" in data
        return trace if named else replace(trace, trace_id=str(record.number))
    except RecursionError:
        return TraceError("the record is nested too deeply to read", place=record.place)
    except TraceError as error:
        return error


DIALECT = Dialect(
    name="jsonl",
    files="our own shape: one trace a line, an array, or a single one",
    known_by=f"the keys {', '.join(f'`{mark}`' for mark in _MARKS)}",
    read=read,
    sniff=sniff,
    suffixes=(".jsonl", ".ndjson"),
)

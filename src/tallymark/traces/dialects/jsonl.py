"""Traces in our own shape: one a line, an array of them, or a single one.

A line in snake_case is decoded straight into the structs. Anything else (camelCase, nested
under `trace`, objects where text is wanted) goes through `Trace.from_dict`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from tallymark.errors import TraceError
from tallymark.traces.dialect import Dialect
from tallymark.traces.flat_records import is_flat
from tallymark.traces.json_records import read_records
from tallymark.traces.lenient_json import decode
from tallymark.traces.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tallymark.traces.json_records import JsonRecord
    from tallymark.traces.trace_source import TraceSource

_MARKS = ("spans", "trace", "trace_id", "traceId")
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
            # Every field has a default, so `{}` decodes too; the lenient way says what is missing.
            yield trace if trace.spans or trace.trace_id else _read_leniently(record)


def _read_leniently(record: JsonRecord) -> Trace | TraceError:
    try:
        data = decode(record.raw, record.place, nan_is_null=False)
        if isinstance(data, dict) and not sniff(data) and not is_flat(data):
            marks = ", ".join(_MARKS)
            return TraceError(
                f"a trace needs one of the keys {marks}, or an output", place=record.place
            )
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

"""Values cut out of a stream are the values that a parser finds."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.errors import TraceError
from tallymark.traces import json_records
from tallymark.traces.json_records import JsonScanner

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6) | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


def cut(data: bytes) -> list[bytes]:
    scanner = JsonScanner(io.BytesIO(data), "f")
    assert scanner.next() == b"["
    return [scanner.value() for _ in scanner.members(b"]")]


@given(st.lists(values, max_size=5), st.sampled_from([None, 1]), st.booleans(), st.integers(1, 7))
def test_the_elements_of_an_array_are_found_whatever_the_chunks(
    elements: list[Any], indent: int | None, ascii_only: bool, chunk: int
) -> None:
    data = json.dumps(elements, indent=indent, ensure_ascii=ascii_only).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_records, "_CHUNK", chunk)
        assert [json.loads(raw) for raw in cut(data)] == elements


def test_what_is_passed_over_does_not_stay_in_memory() -> None:
    data = b'{"skip": [' + b'{"a": "]}"},' * 400_000 + b'0], "want": 1}'
    scanner = JsonScanner(io.BytesIO(data), "f")
    scanner.next()
    kept = {}
    for _ in scanner.members(b"}"):
        key = scanner.key()
        kept[key] = scanner.value(keep=key == "want")
        assert len(scanner._buffer) < 3 * 1024 * 1024
    assert kept["want"] == b"1"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"[1 2]", "f:byte 4: not valid JSON: expected a comma or ]"),
        (b"[{}", "f:byte 4: not valid JSON: expected a comma or ]"),
        (b'[{"a": 1', "f:byte 2: not valid JSON: it ends too early"),
        (b'["abc', "f:byte 2: not valid JSON: it ends too early"),
        (b"[1,", "f:byte 4: not valid JSON: it ends too early"),
    ],
)
def test_broken_json_is_reported_by_its_byte(data: bytes, message: str) -> None:
    with pytest.raises(TraceError) as broken:
        cut(data)
    assert str(broken.value) == message


@pytest.mark.parametrize("data", [b"{1: 2}", b'{"a" 2}', b'{"a'])
def test_a_broken_key_is_reported(data: bytes) -> None:
    scanner = JsonScanner(io.BytesIO(data), "f")
    scanner.next()
    next(scanner.members(b"}"))
    with pytest.raises(TraceError, match="not valid JSON"):
        scanner.key()


def test_a_record_too_large_for_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_records, "MAX_RECORD", 1 << 20)
    with pytest.raises(TraceError, match="a record of more than 1 MB is not read"):
        cut(b'["' + b"x" * 5_000_000 + b'"]')

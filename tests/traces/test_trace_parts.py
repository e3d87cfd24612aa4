"""Parts of a file come to what the whole does: the same traces, the same broken lines."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tallymark.errors import TraceError
from tallymark.traces import read_traces
from tallymark.traces.trace_parts import cut_lines, has_parts, read_part

LINES = st.sampled_from(
    [
        '{"trace_id": "t-1", "spans": [{"name": "a", "output": "ok"}]}',
        '{"trace_id": "", "input": "x", "output": "no id"}',
        '{"input": "flat", "output": "é \\u00e9"}',
        "not json",
        "{}",
        "",
        "   ",
        '{"trace_id": 5}',
    ]
)
FIRST = '{"trace_id": "first", "spans": []}'


@settings(deadline=None)
@given(lines=st.lists(LINES, max_size=30), size=st.integers(1, 200), last=st.booleans())
def test_any_cut_gives_the_whole(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], size: int, last: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    path.write_text("\n".join([FIRST, *lines]) + "\n" * last, encoding="utf-8")
    assert has_parts(path, None)
    broken: list[str] = []
    whole = list(
        read_traces(path, skip_broken=True, on_broken=lambda error: broken.append(str(error)))
    )
    for content in (False, True):
        found = [x for part in cut_lines(path, size=size, content=content) for x in read_part(part)]
        assert [each for each in found if not isinstance(each, TraceError)] == whole
        assert [str(each) for each in found if isinstance(each, TraceError)] == broken


def test_a_file_that_changes_meanwhile_is_not_half_read(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(f"{FIRST}\n" * 20, "utf-8")
    _, second, *_ = cut_lines(path, size=100)
    path.write_text(f"{FIRST} \n" * 20, "utf-8")
    (error,) = read_part(second)
    assert str(error) == f"{path}: it was changed while it was being read"
    path.unlink()
    (error,) = read_part(second)
    assert "cannot be read: No such file" in str(error)


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.jsonl.gz", gzip.compress(f"{FIRST}\n".encode(), mtime=0), None),
        ("a.json", json.dumps([json.loads(FIRST)]).encode(), None),
        ("a.jsonl", f"broken\n{FIRST}\n".encode(), None),
        ("a.jsonl", f"{FIRST}\n".encode(), "otlp"),
        ("a.jsonl", b"", None),
    ],
)
def test_what_cannot_be_cut_is_read_as_a_whole(
    tmp_path: Path, name: str, content: bytes, kind: str | None
) -> None:
    (tmp_path / name).write_bytes(content)
    assert not has_parts(tmp_path / name, kind)
    assert not has_parts(tmp_path, kind)

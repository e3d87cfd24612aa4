"""What a dialect is: a file with one and a line in the table are all that a new one needs."""

from __future__ import annotations

import gzip
import json
import textwrap
from pathlib import Path

import pytest
from tests.throw_away import WithOneMore

DIARY = """
    from tallymark.errors import TraceError
    from tallymark.traces import Span, Trace
    from tallymark.traces.dialect import Dialect
    from tallymark.traces.json_records import read_records

    def sniff(keys):
        return "dear_diary" in keys

    def read(source):
        for number, record in enumerate(read_records(source), start=1):
            try:
                said = record.decode()["dear_diary"]
            except TraceError as error:
                yield error
                continue
            spans = [Span(span_type="generation", output=said)]
            yield Trace(trace_id=f"page-{number}", name="diary", spans=spans)

    DIALECT = Dialect(
        name="diary",
        files="pages of a diary",
        known_by="the key `dear_diary`",
        read=read,
        sniff=sniff,
        suffixes=(".diary",),
    )
"""
LINE = """
import diary
from tallymark.traces.trace_formats import FORMATS
FORMATS["diary"] = diary.DIALECT
"""
PAGES = '{"dear_diary": "I was good."}\n{"dear_diary": "I was bad."}\n'
GOOD = ("-s", 'contains(values=["good"])', "--json")


@pytest.fixture
def one_more(tmp_path: Path) -> WithOneMore:
    (tmp_path / "diary.py").write_text(textwrap.dedent(DIARY), encoding="utf-8")
    return WithOneMore(tmp_path, LINE)


def count_traces(one_more: WithOneMore, *arguments: str) -> int:
    done = one_more.tally("score", *arguments, *GOOD)
    assert done.returncode == 0, done.stderr
    return read_count(done.stdout)


def read_count(document: str) -> int:
    (run,) = json.loads(document)["runs"]
    return int(run["passed"] + run["failed"] + run["errors"])


def test_files_of_a_new_dialect_are_known_by_their_content(one_more: WithOneMore) -> None:
    (one_more.folder / "pages.txt").write_text(PAGES, encoding="utf-8")
    (one_more.folder / "pages.gz").write_bytes(gzip.compress(PAGES.encode()))
    assert count_traces(one_more, "pages.txt", "pages.gz") == 4


def test_they_are_known_by_their_ending_where_the_first_line_is_broken(
    one_more: WithOneMore,
) -> None:
    (one_more.folder / "old.diary").write_text(f"torn\n{PAGES}", encoding="utf-8")
    done = one_more.tally("score", "old.diary", "--skip-broken", *GOOD)
    assert read_count(done.stdout) == 2
    assert "tally: skipped old.diary" in done.stderr


def test_they_are_read_by_the_name_of_the_dialect(one_more: WithOneMore) -> None:
    (one_more.folder / "x.json").write_text('{"spans": [], "dear_diary": "."}', encoding="utf-8")
    done = one_more.tally("score", "x.json", "--format", "diary", "-s", "word_count", "-o", "o.csv")
    assert done.returncode == 0
    assert "page-1,diary" in (one_more.folder / "o.csv").read_text(encoding="utf-8")


def test_it_is_offered_where_a_format_is_not_known(one_more: WithOneMore) -> None:
    (one_more.folder / "x.json").write_text('{"a": 1}', encoding="utf-8")
    assert "records, diary" in one_more.tally("score", "x.json", *GOOD).stderr
    wrong = one_more.tally("score", "x.json", "--format", "dairy", *GOOD).stderr
    assert "did you mean 'diary'?" in wrong


def test_it_stands_in_the_docs(one_more: WithOneMore) -> None:
    assert one_more.docs_row("formats", "diary") == (
        "| `diary` | pages of a diary | the key `dear_diary` | `.diary` |"
    )

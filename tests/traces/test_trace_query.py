"""The words in which traces are asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.errors import InvalidInput
from tallymark.traces.trace_query import Term, parse_query

NOW = 1_000_000.0


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("status:error", Term("status", ":", ("error",))),
        ("tool:search,fetch", Term("tool", ":", ("search", "fetch"))),
        ('name:"a b"', Term("name", ":", ("a b",))),
        ("cost>0.01", Term("cost", ">", (0.01,))),
        ("cost>=$2", Term("cost", ">=", (2.0,))),
        ("duration>500ms", Term("duration", ">", (0.5,))),
        ("score.Polite<0.5", Term("score.Polite", "<", (0.5,))),
        ("score.polite:none", Term("score.polite", ":", ("none",))),
        ("since:2h", Term("since", ":", (NOW - 7200,))),
        ("until:1970-01-02", Term("until", ":", (86_400.0,))),
        ("-model:gpt-*", Term("model", ":", ("gpt-*",), negated=True)),
        ("attr.http.Method:GET", Term("attr.http.Method", ":", ("GET",))),
        ("refund", Term("text", ":", ("refund",))),
        ('"no refund"', Term("text", ":", ("no refund",))),
        ("tag:env:prod", Term("tag", ":", ("env:prod",))),
    ],
)
def test_a_term_is_read(text: str, term: Term) -> None:
    assert parse_query(text, now=NOW).terms == (term,)


def test_terms_stand_in_a_row_and_what_has_no_column_scans() -> None:
    query = parse_query("  status:error  refund cost>1 ", now=NOW)
    assert [each.field for each in query.terms] == ["status", "text", "cost"]
    assert [each.field for each in query.columns] == ["status", "cost"]
    assert [each.field for each in query.scanned] == ["text"]


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("stauts:error", 1, "did you mean 'status'?"),
        ("since:2h modle:x", 10, "did you mean 'model'?"),
        ("status:eror", 8, "did you mean 'error'?"),
        ("cost>much", 6, "write a number"),
        ("cost>nan", 6, "write a number"),
        ("model>3", 6, "write model:VALUE"),
        ("since:yesterday", 7, "is no time"),
        ("score.>1", 1, "write score.NAME"),
        ("cost>", 6, "has no value"),
        ("tool:a,,b", 6, "between commas"),
        ('tool:"a', 6, "the quote is not closed"),
        ('name:"a"b', 9, "a space is missing"),
        ('"', 1, "the quote is not closed"),
    ],
)
def test_a_mistake_has_its_column(text: str, column: int, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_query(text, now=NOW)
    (problem,) = caught.value.problems
    assert problem.place is not None
    assert problem.place.column == column
    assert said in str(problem)


def test_filters_without_end_are_refused() -> None:
    with pytest.raises(InvalidInput, match="characters"):
        parse_query("x" * 2001, now=NOW)
    with pytest.raises(InvalidInput, match="conditions"):
        parse_query("a " * 31, now=NOW)


@given(st.text(max_size=80))
def test_whatever_is_written_is_read_or_refused(text: str) -> None:
    try:
        parse_query(text, now=NOW)
    except InvalidInput as error:
        assert error.render()

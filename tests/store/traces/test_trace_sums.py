"""Sums over traces, with intervals in which a session counts as one."""

from __future__ import annotations

import pytest
from tests.store.traces.conftest import Keeper
from tests.traces.otlp_samples import START, model_call, span, tool_call

from tallymark.errors import InvalidInput
from tallymark.runs.statistics import ClusterMoments, estimate_moments
from tallymark.store.traces.trace_scores import StoredScore
from tallymark.store.traces.trace_sums import TraceSums
from tallymark.traces.trace_query import parse_query

VALUES = {1: 0.2, 2: 0.4, 3: 0.9, 4: 1.0}
SESSIONS = {1: "a", 2: "a", 3: "b", 4: "c"}


def score(keeper: Keeper, number: int, value: float) -> None:
    record = keeper.store.traces.get(f"{number:032x}")
    given = StoredScore(
        trace=record.key,
        version=1,
        name="polite",
        author="ann",
        value=value,
        at=START,
        started_at=record.started_at,
    )
    keeper.store.traces.put_scores([given])


@pytest.fixture
def full(keeper: Keeper) -> Keeper:
    for number, value in VALUES.items():
        keeper.send(
            span(
                number,
                start=START + 3600 * (number // 3),
                session__id=SESSIONS[number],
                failed=number == 1,
            ),
            model_call(trace=number, start=START + 3600 * (number // 3)),
            tool_call(trace=number, start=START + 3600 * (number // 3)),
            service__version=f"1.{number % 2}",
        )
        score(keeper, number, value)
    return keeper


def ask(keeper: Keeper, text: str = "") -> TraceSums:
    return keeper.store.traces.sums(parse_query(text, now=keeper.now))


def test_all_together_and_a_session_is_one_cluster(full: Keeper) -> None:
    whole = ask(full).whole("people.polite")
    assert (whole.traces, whole.errors, whole.tokens, whole.measured) == (4, 1, 440, 4)
    moments = ClusterMoments(
        *(3, 4, 2.5, 0.6**2 + 0.9**2 + 1.0**2, 2 * 0.6 + 0.9 + 1.0, 4.0 + 1 + 1, 0.2, 1.0)
    )
    expected = estimate_moments(moments)
    assert expected.low is not None
    assert (whole.mean, whole.low, whole.high) == pytest.approx(
        (0.625, expected.low, expected.high)
    )


def test_over_time_each_step_has_its_own(full: Keeper) -> None:
    found = ask(full).over_time(3600.0, "people.polite")
    assert [each.traces for each in found] == [2, 2]
    assert [each.mean for each in found] == pytest.approx([0.3, 0.95])
    assert all(float(each.group or 1) % 3600 == 0 for each in found)


@pytest.mark.parametrize(
    ("group", "counts"),
    [
        ("model", {"gpt-4o-mini": 4}),
        ("tool", {"search": 4}),
        ("version", {"1.0": 2, "1.1": 2}),
        ("session", {"a": 2, "b": 1, "c": 1}),
        ("status", {"ok": 3, "error": 1}),
        ("user", {None: 4}),
    ],
)
def test_by_what_they_have_in_common(
    full: Keeper, group: str, counts: dict[str | None, int]
) -> None:
    assert {each.group: each.traces for each in ask(full).by(group, "cost")} == counts


def test_a_filter_narrows_sums(full: Keeper) -> None:
    assert ask(full, "version:1.1 status:ok").whole().traces == 1
    assert ask(full, "tool:never").whole("cost").traces == 0
    assert ask(full, "tool:never").by("model") == []


def test_measures_that_are_alike_have_a_mean_and_no_interval(full: Keeper) -> None:
    whole = ask(full).whole("tokens")
    assert (whole.mean, whole.low, whole.high) == (110.0, None, None)
    errors = ask(full).whole("error")
    assert errors.mean == 0.25
    assert errors.low is not None


def test_what_cannot_be_summed_is_refused(full: Keeper) -> None:
    with pytest.raises(InvalidInput, match="did you mean 'duration'"):
        ask(full).whole("durtion")
    with pytest.raises(InvalidInput, match="did you mean 'model'"):
        ask(full).by("modle")
    with pytest.raises(InvalidInput, match="has no column"):
        ask(full, "refund")

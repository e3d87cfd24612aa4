"""Questions to columns, to scores and to spans, on both databases."""

from __future__ import annotations

import pytest
from tests.store.traces.conftest import Keeper
from tests.traces.otlp_samples import START, model_call, span, tool_call

from tallymark.store.traces import trace_filters, trace_lists
from tallymark.store.traces.trace_scores import StoredScore
from tallymark.traces.trace_query import parse_query

QUESTIONS = [
    ("", [1, 2, 3]),
    ("status:error", [2]),
    ("-status:error", [1, 3]),
    ("status:ok,error", [1, 2, 3]),
    ("tool:search", [1]),
    ("tool:search,fetch_*", [1, 3]),
    ("-tool:*", [2]),
    ("tool:never", []),
    ("-tool:never", [1, 2, 3]),
    ("model:gpt-*", [1, 3]),
    ("model:gpt?4o*", [1, 3]),
    ("name:refund service:desk", [1, 2]),
    ("version:1.3", [2]),
    ("session:s-1 user:ann", [1]),
    ("cost>0", [1, 3]),
    ("-cost>0", [2]),
    ("tokens>=110", [1, 3]),
    ("tokens:110,7", [1, 3]),
    ("duration>5s", [2]),
    ("errors>0", [2]),
    ("calls>0 tool_calls=1", [1, 3]),
    ("since:2026-09-21T14:13:25", [2, 3]),
    ("until:2026-09-21T14:13:25", [1]),
    ("state:open", []),
    ("state:settled", [1, 2, 3]),
    ("score.polite<0.5", [2]),
    ("score.polite>=0.2", [1, 2]),
    ("score.polite:any", [1, 2]),
    ("score.polite:none", [3]),
    ("-score.polite<0.5", [1, 3]),
    ("score.other>0", []),
    ("score.polite<0.5 tool:search", []),
    ("id:00000000000000000000000000000002", [2]),
    ("id:*3", [3]),
    ("REFUND", [1, 2, 3]),
    ('text:"no refund"', [3]),
    ("-refund", []),
    ("attr.kind:hard", [2]),
    ("attr.kind:h*", [2]),
    ("attr.service.name:shop", [3]),
    ("-attr.kind:hard name:refund", [1]),
    ("tokens>109.5", [1, 3]),
    ("tokens<=109.5", []),
    ("tokens>110.5", []),
    ("tokens>=109.5 tokens<1e300", [1, 3]),
    ("tokens:110.5", []),
    ("tokens>1e300", []),
    ("-tokens>1e300 service:desk", [1, 2]),
    ("service:desk -status:error tokens>1 score.polite>0.5", [1]),
    ("until:2026-09-21T14:13:25 errors:0", [1]),
    ("since:2026-09-21T14:13:25 until:2026-09-21T14:13:35 service:desk", [2]),
]


@pytest.fixture
def full(keeper: Keeper) -> Keeper:
    """Three traces that differ in everything."""
    keeper.send(
        *(span(1, name="refund", session__id="s-1", user__id="ann"), model_call(trace=1)),
        tool_call(trace=1),
        service__name="desk",
        service__version="1.2",
    )
    broken = span(2, name="refund", failed=True, start=START + 10, seconds=9.0, kind="hard")
    keeper.send(broken, service__name="desk", service__version="1.3")
    keeper.send(
        span(3, name="greet", start=START + 20),
        model_call(trace=3, start=START + 20, text="no REFUND here"),
        tool_call(trace=3, start=START + 20, gen_ai__tool__name="fetch_page"),
        service__name="shop",
    )
    keeper.settle()
    records = {int(each.id, 16): each for each in keeper.find()}
    keeper.store.traces.put_scores(
        [
            StoredScore(
                trace=records[number].key,
                version=1,
                rule=1,
                rule_version=1,
                name="polite",
                value=value,
                at=START,
                started_at=records[number].started_at,
            )
            for number, value in ((1, 0.9), (2, 0.2))
        ]
    )
    return keeper


def go_slowly(
    monkeypatch: pytest.MonkeyPatch, *, few: int = 0, pieces: tuple[int, int] = (1_000, 4_000)
) -> None:
    """So many rows are few, and so many are looked at together."""
    monkeypatch.setattr(trace_filters, "_FEW", few)
    monkeypatch.setattr(trace_filters, "_FEW_ROWS", few)
    monkeypatch.setattr(trace_lists, "_PIECES", pieces)
    monkeypatch.setattr(trace_lists, "_PIECE", pieces[0])
    monkeypatch.setattr(trace_lists, "_MOST_ASKS", 2 * sum(pieces))


@pytest.mark.parametrize("few", [0, 2000])
@pytest.mark.parametrize("asked", [0, 4])
def test_a_question_finds_what_fits_whatever_the_way(
    full: Keeper, monkeypatch: pytest.MonkeyPatch, few: int, asked: int
) -> None:
    """By an index that gives few, or along time; labels by their index, or by the columns."""
    go_slowly(monkeypatch, few=few)
    monkeypatch.setattr(trace_filters, "_MOST_ASKED", asked)
    assert {text: full.ids(text) for text, _ in QUESTIONS} == dict(QUESTIONS)


def test_names_with_signs_of_sql_are_only_names(keeper: Keeper) -> None:
    keeper.send(span(1, name="100%_[x]'"), span(2, name="100"))
    for text, ids in (("name:100%_[x]'", [1]), ("name:100%*", [1]), ("name:*[x]*", [1])):
        assert keeper.ids(text) == ids
    assert keeper.ids("name:%") == keeper.ids("name:___") == []


@pytest.mark.parametrize("text", ["", "service:desk", "status:error", "tokens>1"])
@pytest.mark.parametrize("few", [0, 2000])
def test_pages_follow_each_other_whatever_the_way(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch, text: str, few: int
) -> None:
    """Along the index that gives few, and piece by piece along time."""
    go_slowly(monkeypatch, few=few, pieces=(2, 3))
    for number in range(1, 24):
        # Twice each: among equals the order is that of the keys.
        start = START + number // 2
        keeper.send(
            span(number, start=start, failed=number % 3 == 0),
            model_call(trace=number, start=start),
            service__name=("desk", "shop")[number % 2],
        )
    query = parse_query(text, now=keeper.now)
    found, after, pages = [], None, 0
    while True:
        page = keeper.store.traces.page(query, after=after, limit=4)
        found += page.items
        after = page.next
        pages += 1
        if after is None:
            break
    assert len({each.key for each in found}) == len(found)
    places = [(each.started_at, each.key) for each in found]
    assert places == sorted(places, reverse=True)
    count = {"": 23, "service:desk": 11, "status:error": 7, "tokens>1": 23}[text]
    assert len(found) == count
    assert pages > 1


def test_a_page_that_is_short_says_how_far_it_looked(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_slowly(monkeypatch, pieces=(2, 3))
    for number in range(1, 11):
        keeper.send(span(number, start=START + number, failed=number == 1))
    query = parse_query("errors>0", now=keeper.now)
    page = keeper.store.traces.page(query)
    assert (page.items, page.scanned) == ([], 5)
    page = keeper.store.traces.page(query, after=page.next)
    assert [each.errors for each in page.items] == [1]


def test_the_worst_come_first_and_a_filter_narrows_them(full: Keeper) -> None:
    every = parse_query("", now=full.now)
    worst = full.store.traces.worst("polite", every)
    assert [each.value for each in worst] == [0.2, 0.9]
    assert [
        each.value for each in full.store.traces.worst("polite", every, best=True, limit=1)
    ] == [0.9]
    fits = parse_query("tool:search", now=full.now)
    assert [each.value for each in full.store.traces.worst("polite", fits)] == [0.9]


def test_a_rules_filter_chooses_among_keys(full: Keeper) -> None:
    keys = {int(each.id, 16): each.key for each in full.find()}
    for text, ids in (("service:desk", {1}), ("attr.kind:hard", set()), ("tool:never", set())):
        query = parse_query(text, now=full.now)
        assert full.store.traces.choose(query, [keys[1], keys[3]]) == {keys[each] for each in ids}


def test_a_list_reads_no_span(full: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bytes:
        raise AssertionError("a segment was opened")

    monkeypatch.setattr("tallymark.store.traces.segments.open_body", refuse)
    assert full.ids("status:error tool:* cost>1 score.polite<1") == []
    assert full.ids("service:desk") == [1, 2]


def test_what_can_be_chosen_is_listed(full: Keeper) -> None:
    assert full.store.traces.label_values("tool") == ["fetch_page", "search"]
    assert full.store.traces.score_names() == ["score.polite"]

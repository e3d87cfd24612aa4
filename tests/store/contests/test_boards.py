"""Boards: the order of `challenges.strategies` on both databases, whatever happened in between."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import text
from tests.effort import SHARED_FIXTURE, examples
from tests.store.contest_samples import (
    ORIGIN,
    a_challenge,
    agents,
    an_outcome,
    by,
    finish,
    play,
    scored,
    submitted,
)

from tallymark.challenges.attempt import Attempt, Evaluation, Metrics, Outcome
from tallymark.challenges.strategies import STRATEGIES, Standing
from tallymark.errors import InvalidInput
from tallymark.store import Store
from tallymark.store.contests import board_rows, contest_stats
from tallymark.store.contests.challenges import find_challenge

laws = settings(
    max_examples=examples(10, 4),
    deadline=None,
    suppress_health_check=SHARED_FIXTURE,
)
numbers = st.sampled_from([None, 0.0, -0.0, 1.0, 2.0, -3.5, 1e300, 5e-324])
outcomes = st.builds(
    lambda score, rating, tokens, elapsed, ranks: Outcome(
        score=score,
        ranks=ranks,
        metrics=Metrics(rating=rating, tokens_total=tokens, elapsed_ms=elapsed),
    ),
    numbers,
    numbers,
    st.none() | st.integers(0, 3),
    st.none() | st.integers(2**53, 2**53 + 3),
    st.sampled_from([True, True, True, False]),
)
# Those with signs are in another order where a database sorts by its language.
HANDLES = ["ab", "a-c", "a.d", "ba", "b_a"]
tries = st.lists(
    st.tuples(st.sampled_from(HANDLES), outcomes, st.integers(10, 12)),
    max_size=9,
)
strategies = st.sampled_from(list(STRATEGIES))


# What a strategy orders by, less first, said once more and apart from the table under test.
NUMBERS: dict[str, Callable[[Attempt, Outcome], float | None]] = {
    "first": lambda attempt, _: attempt.submitted_at,
    "fastest": lambda _, outcome: outcome.metrics.elapsed_ms,
    "fewest_tokens": lambda _, outcome: outcome.metrics.tokens_total,
    "highest_rating": lambda _, outcome: negated(outcome.metrics.rating),
    "custom": lambda _, outcome: negated(outcome.score),
}


def negated(value: float | None) -> float | None:
    return None if value is None else -value


def sorted_by_hand(store: Store, strategy: str) -> list[tuple[int, str, str]]:
    """Every agent with its best attempt: by the number, missing last, then the earlier one."""
    best: dict[str, tuple[bool, float, float, str]] = {}
    for attempt in store.attempts.of("sums", limit=None):
        if attempt.outcome is None or not attempt.outcome.ranks:
            continue
        number = NUMBERS[strategy](attempt, attempt.outcome)
        order = (number is None, float(number or 0), attempt.submitted_at or 0.0, attempt.id)
        best[attempt.agent] = min(order, best.get(attempt.agent, order))
    ordered = sorted((order, agent) for agent, order in best.items())
    return [(rank, agent, order[3]) for rank, (order, agent) in enumerate(ordered, 1)]


def by_query(store: Store, **options: Any) -> list[tuple[int, str, str | None]]:
    top = store.boards.top("sums", **options)
    return [(each.rank, each.agent, each.attempt) for each in top]


def check_all_ways(store: Store, strategy: Any) -> None:
    expected = sorted_by_hand(store, strategy)
    assert by_query(store) == expected
    assert store.boards.size("sums") == len(expected)
    for rank, agent, attempt in expected:
        mine = store.boards.standing("sums", agent)
        assert mine is not None
        assert (mine.rank, mine.attempt) == (rank, attempt)
        around = store.boards.around("sums", agent, each=2)
        assert [(each.rank, each.agent, each.attempt) for each in around] == expected[
            max(0, rank - 3) : rank + 2
        ]
    for offset in range(len(expected) + 1):
        assert by_query(store, offset=offset, limit=2) == expected[offset : offset + 2]


# Laws


@laws
@given(strategy=strategies, tries=tries, dice=st.randoms(use_true_random=False))
def test_rank_by_query_is_rank_by_sorting_in_whatever_order_attempts_are_scored(
    contests: Any, strategy: Any, tries: list[Any], dice: random.Random
) -> None:
    with contests(strategy) as store:
        waiting = [(submitted(store, agent, float(at)), outcome) for agent, outcome, at in tries]
        dice.shuffle(waiting)
        for attempt, outcome in waiting:
            finish(store, attempt, outcome)
        check_all_ways(store, strategy)


@laws
@given(strategy=strategies, tries=tries)
def test_a_board_loaded_or_made_anew_is_the_one_that_grew(
    contests: Any, strategy: Any, tries: list[Any]
) -> None:
    with contests(strategy) as grown, contests(strategy) as loaded:
        for agent, outcome, at in tries:
            play(grown, agent, outcome, float(at))
        given = [scored(agent, outcome, float(at)) for agent, outcome, at in tries]
        loaded.attempts.load("sums", given, at=20.0)
        check_all_ways(loaded, strategy)
        board = grown.boards.top("sums")
        assert [without_id(each) for each in loaded.boards.top("sums")] == [
            without_id(each) for each in board
        ]
        make_anew(grown, at=20.0)
        assert grown.boards.top("sums") == board


@laws
@given(before=tries, after=tries)
def test_a_frozen_board_does_not_move(contests: Any, before: list[Any], after: list[Any]) -> None:
    with contests(freezes_at=50.0) as store:
        for agent, outcome, at in before:
            play(store, agent, outcome, float(at))
        public = store.boards.top("sums")
        for agent, outcome, at in after:
            play(store, agent, outcome, float(at) + 50.0)
        make_anew(store, at=99.0)
        assert store.boards.top("sums") == public
        for each in public:
            assert store.boards.standing("sums", each.agent) == each
        assert by_query(store, as_frozen=False) == sorted_by_hand(store, "custom")


def make_anew(store: Store, at: float) -> None:
    """What a rescoring does to the board."""

    def work(connection: Any) -> None:
        kept = find_challenge(connection, store.tenant, "sums", lock=True)
        board_rows.freeze_if_due(connection, kept, at)
        board_rows.rebuild(connection, kept)

    store._database.write(work)


def without_id(line: Standing) -> tuple[Any, ...]:
    return line.rank, line.agent, line.value, line.score, line.submitted_at, line.tries


# Order


@pytest.mark.parametrize(
    ("strategy", "order"),
    [
        ("first", "abc"),
        ("fastest", "bca"),
        ("fewest_tokens", "cab"),
        ("highest_rating", "bac"),
        ("custom", "cba"),
    ],
)
def test_each_strategy_orders_by_its_number(contests: Any, strategy: Any, order: str) -> None:
    with contests(strategy) as store:
        for agent, at, elapsed, tokens, rating, score in (
            ("aa", 1.0, 300, 20, 5.0, 1.0),
            ("bb", 2.0, 100, 30, 9.0, 2.0),
            ("cc", 3.0, 200, 10, 1.0, 3.0),
        ):
            metrics = Metrics(elapsed_ms=elapsed, tokens_total=tokens, rating=rating)
            play(store, agent, an_outcome(score, metrics=metrics), at)
        assert "".join(each[0] for each in agents(store)) == order


@pytest.mark.parametrize("strategy", [each for each in STRATEGIES if each != "first"])
def test_a_missing_value_ranks_last_in_either_direction(contests: Any, strategy: Any) -> None:
    with contests(strategy) as store:
        play(store, "nothing", an_outcome(None), 1.0)
        metrics = Metrics(elapsed_ms=10**12, tokens_total=10**12, rating=-1e300)
        play(store, "worst", an_outcome(-1e300, metrics=metrics), 2.0)
        assert agents(store) == ["worst", "nothing"]
        assert store.boards.top("sums")[1].value is None


def test_ties_go_to_the_earlier_submission_then_to_the_id(contest: Store) -> None:
    for agent, at in (("late", 12.0), ("first", 11.0), ("second", 11.0)):
        play(contest, agent, an_outcome(5.0), at)
    assert agents(contest) == ["first", "second", "late"]


def test_ranks_that_are_told_at_once_are_those_of_the_board(contest: Store) -> None:
    """Of many agents, among them ties, and one who may not compete."""
    seq = contest.board_changes.newest("sums").seq
    for number in range(12):
        play(contest, f"agent-{number:02}", an_outcome(float(number // 3)), 10.0 + number % 2)
    contest.disqualifications.disqualify("agent-05", reason="copied answers", at=30.0)
    told = contest.board_changes.after("sums", seq)[1].told
    assert told is not None
    shown = [(each.agent, each.rank) for each in contest.boards.top("sums")]
    assert [(each.agent, each.rank) for each in told.changed] == shown
    assert told.agents == len(shown) == 11


def test_who_may_not_compete_is_left_out_wherever_a_board_is_read(contest: Store) -> None:
    """Agents at the top, in the middle and at the end, among others of the same score."""
    names = [f"agent-{number:02}" for number in range(30)]
    given = [
        scored(agent, an_outcome(float(-(number // 4))), 10.0) for number, agent in enumerate(names)
    ]
    contest.attempts.load("sums", given, at=20.0, rated=False)
    assert agents(contest) == names
    out = {names[number] for number in (0, 1, 6, 7, 8, 17, 29)}
    for agent in out:
        contest.disqualifications.disqualify(agent, reason="copied answers", at=30.0)
    shown = [each for each in names if each not in out]
    assert contest.boards.size("sums") == len(shown)
    for offset in range(len(shown) + 2):
        page = contest.boards.top("sums", offset=offset, limit=5)
        assert [each.agent for each in page] == shown[offset : offset + 5]
        assert [each.rank for each in page] == [*range(offset + 1, offset + len(page) + 1)]
    for place, agent in enumerate(shown):
        around = contest.boards.around("sums", agent, each=2)
        assert [each.agent for each in around] == shown[max(0, place - 2) : place + 3]
        assert contest.boards.standing("sums", agent) == around[min(place, 2)]
        assert around[min(place, 2)].rank == place + 1
    assert [contest.boards.standing("sums", agent) for agent in out] == [None] * len(out)


RANKED_BY_SQL = """
    SELECT row_number() OVER (ORDER BY score DESC, submitted_at, attempt) AS rank, agent
    FROM attempt_scores WHERE tenant = :tenant ORDER BY rank
"""


def test_ranks_of_neighbours_and_pages_are_those_of_the_databases_own_row_number(
    contest: Store,
) -> None:
    """With ties at both ends and in the middle, in an order of arrival that is none of rank."""
    for agent, score, at in (
        ("dora", 5.0, 13.0),
        ("alice", 9.0, 12.0),
        ("fay", 1.0, 10.0),
        ("bob", 9.0, 11.0),
        ("carol", 5.0, 12.0),
        ("gus", 1.0, 10.0),
        ("erin", 5.0, 13.0),
    ):
        play(contest, agent, an_outcome(score), at)
    with contest._database.read() as connection:
        rows = connection.execute(text(RANKED_BY_SQL), {"tenant": contest.tenant})
        expected = [(int(row.rank), str(row.agent)) for row in rows]
    names = ["bob", "alice", "carol", "dora", "erin", "fay", "gus"]
    assert expected == list(enumerate(names, 1))
    for rank, agent in expected:
        for each in (1, 3, 10):
            lines = contest.boards.around("sums", agent, each=each)
            near = expected[max(0, rank - 1 - each) : rank + each]
            assert [(line.rank, line.agent) for line in lines] == near
        page = contest.boards.top("sums", offset=rank - 1, limit=2)
        assert [(line.rank, line.agent) for line in page] == expected[rank - 1 : rank + 1]


def test_a_line_says_what_it_is(contest: Store) -> None:
    play(contest, "alice", an_outcome(3.0), 10.0)
    best = play(contest, "alice", an_outcome(7.0), 11.0)
    play(contest, "alice", an_outcome(5.0, ranks=False), 12.0)
    play(contest, "alice", Outcome(score=None, error="broken"), 13.0)
    line = Standing(
        rank=1,
        agent="alice",
        attempt=best.id,
        value=7.0,
        score=7.0,
        submitted_at=11.0,
        tries=3,
    )
    assert contest.boards.top("sums") == [line]
    assert contest.boards.standing("sums", "alice") == line


def test_tries_before_the_first_that_ranks_count(contest: Store) -> None:
    play(contest, "alice", an_outcome(1.0, ranks=False), 10.0)
    play(contest, "alice", Outcome(score=None, error="broken"), 10.5)  # no fault of hers
    play(contest, "alice", an_outcome(2.0), 11.0)
    assert contest.boards.top("sums")[0].tries == 2


def test_a_success_without_a_score_stands_last_and_is_no_try(contest: Store) -> None:
    play(contest, "alice", Outcome(score=None, ranks=True, error="undefined"), 10.0)
    play(contest, "bob", an_outcome(1.0), 11.0)
    found = contest.boards.top("sums")
    assert [(each.agent, each.score, each.tries) for each in found] == [
        ("bob", 1.0, 1),
        ("alice", None, 0),
    ]
    play(contest, "alice", an_outcome(2.0), 12.0)
    play(contest, "alice", Outcome(score=None, ranks=True, error="undefined"), 13.0)
    first = contest.boards.top("sums")[0]
    assert (first.agent, first.score, first.tries) == ("alice", 2.0, 1)


def test_who_is_not_on_the_board(contest: Store) -> None:
    play(contest, "alice", an_outcome(ranks=False))
    assert contest.boards.standing("sums", "alice") is None
    assert contest.boards.around("sums", "alice") == []
    assert contest.boards.size("sums") == 0


@pytest.mark.parametrize(("limit", "offset"), [(0, 0), (-1, 0), (5, -1)])
def test_a_page_of_nothing_is_refused(contest: Store, limit: int, offset: int) -> None:
    with pytest.raises(InvalidInput, match="would show nothing; give a limit of at least 1"):
        contest.boards.top("sums", limit=limit, offset=offset)


# Freezing


def test_the_public_board_stops_at_the_freeze_and_the_live_one_goes_on(contests: Any) -> None:
    with contests(freezes_at=50.0) as store:
        play(store, "alice", an_outcome(1.0), 49.0)
        play(store, "bob", an_outcome(2.0), 50.0)
        play(store, "carol", an_outcome(3.0), 51.0)
        assert agents(store) == ["alice"]
        assert agents(store, as_frozen=False) == ["carol", "bob", "alice"]
        assert store.boards.size("sums", as_frozen=False) == 3
        assert store.boards.standing("sums", "bob") is None
        events = [each.event for each in store.challenges.audit("sums")]
        assert events == ["published", "frozen"]


@pytest.mark.parametrize(
    ("freezes_at", "seen"),
    [(None, ["bob", "alice"]), (99.0, ["bob", "alice"]), (60.0, ["alice"]), (40.0, ["alice"])],
    ids=["no freeze", "later than now", "moved, but past", "earlier"],
)
def test_a_new_version_unfreezes_only_if_its_freeze_lies_ahead(
    contests: Any, freezes_at: float | None, seen: list[str]
) -> None:
    with contests(freezes_at=50.0) as store:
        play(store, "alice", an_outcome(1.0), 49.0)
        play(store, "bob", an_outcome(2.0), 51.0)
        newer = a_challenge(version="v2", freezes_at=freezes_at)
        store.challenges.publish(newer, b"", at=70.0)
        assert agents(store) == seen


def test_a_board_can_freeze_again(contests: Any) -> None:
    with contests(freezes_at=50.0) as store:
        play(store, "alice", an_outcome(1.0), 51.0)
        store.challenges.publish(a_challenge(version="v2", freezes_at=90.0), b"", at=70.0)
        play(store, "bob", an_outcome(2.0), 80.0)
        play(store, "carol", an_outcome(3.0), 91.0)
        assert agents(store) == ["bob", "alice"]


def test_a_new_strategy_orders_the_board_anew(contest: Store) -> None:
    play(contest, "alice", an_outcome(1.0), 10.0)
    play(contest, "bob", an_outcome(2.0), 11.0)
    contest.challenges.publish(by("first", version="v2"), b"", at=20.0)
    assert agents(contest) == ["alice", "bob"]
    assert [each.value for each in contest.boards.top("sums")] == [10.0, 11.0]


def test_who_reads_while_a_board_is_written_anew_sees_one_of_the_two(
    contest: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    play(contest, "alice", an_outcome(1.0), 10.0)
    versions = iter("bcd")

    def find_and_lose(*given: Any) -> Any:
        """Between the challenge and its board, the board is written anew."""
        found = find_challenge(*given)
        strategy = "first" if found.challenge.scoring.strategy == "custom" else "custom"
        contest.challenges.publish(by(strategy, version=next(versions)), b"", at=20.0)
        return found

    monkeypatch.setattr(contest_stats, "find_challenge", find_and_lose)
    assert contest.contest_stats.values("sums") == [1.0]
    assert contest.contest_stats.lines_of("sums", ["alice"]) == {"alice": (10.0, 1)}


def test_who_is_resumed_after_the_freeze_moves_no_public_board(contests: Any) -> None:
    with contests(freezes_at=50.0) as store:
        play(store, "alice", an_outcome(5.0), at=10.0)
        stopped = {"scorer": {"stopped": "paused"}}
        failed = an_outcome(None, error="paused", ranks=False, details=stopped)
        play(store, "mallory", failed, at=11.0)
        store.rescorings.resume(
            store.challenges.find("sums"),
            lambda page: [(Evaluation(), an_outcome(9.0)) for _ in page],
            ["mallory"],
            at=60.0,
            origin=ORIGIN,
            deaths={},
        )
        live = [each.agent for each in store.boards.top("sums", as_frozen=False)]
        assert live == ["mallory", "alice"]
        assert [each.agent for each in store.boards.top("sums")] == ["alice"]


def fill_boards(store: Store, *names: str) -> None:
    """Ten agents on each board, two of which have one score, and one that may not compete."""
    for name in names:
        store.challenges.publish(by("custom", name=name, version="v1"), b"", at=1.0)
        given = [
            scored(f"bot-{number}", an_outcome(float(number // 2)), 10.0 + number, challenge=name)
            for number in range(10)
        ]
        store.attempts.load(name, given, at=30.0)
    store.challenges.freeze(names[0], at=40.0, reason="the end is near")
    late = scored("bot-1", an_outcome(99.0), 50.0, challenge=names[0])
    store.attempts.load(names[0], [late], at=60.0)


@pytest.mark.parametrize("disqualified", [False, True])
@pytest.mark.parametrize("public", [True, False])
def test_many_boards_at_once_are_as_each_is_alone(
    contest: Store, public: bool, disqualified: bool
) -> None:
    fill_boards(contest, "one", "two", "three")
    if disqualified:
        contest.disqualifications.disqualify("bot-9", at=70.0, reason="it copied")
    boards = contest.boards
    kept = [contest.challenges.find(name) for name in ("one", "two", "three", "sums")]
    assert boards.tops(kept, 3, as_frozen=public) == {
        each: (boards.size(each, as_frozen=public), boards.top(each, limit=3, as_frozen=public))
        for each in ("one", "two", "three", "sums")
    }
    for agent in ("bot-0", "bot-1", "bot-9", "nobody"):
        places = boards.places(agent, as_frozen=public)
        alone = {
            each: boards.standing(each, agent, as_frozen=public) for each in ("one", "three", "two")
        }
        assert {each.kept.challenge.name: each.standing for each in places} == {
            name: standing for name, standing in alone.items() if standing is not None
        }
        assert {each.agents for each in places} <= {9 if disqualified else 10}


def test_rivals_are_those_near_the_top_and_near_the_agent(contest: Store) -> None:
    fill_boards(contest, "one", "two")
    boards = contest.boards
    found = boards.rivals(boards.places("bot-0"), 4)
    for name in ("one", "two"):
        alone = [*boards.top(name, limit=4), *boards.around(name, "bot-0", each=2)]
        near = {each.agent: each for each in alone if each.agent != "bot-0"}
        assert {each.agent: each for each in found[name]} == near


def test_those_of_which_the_log_tells_last_are_found_and_frozen_ones_after_them(
    contest: Store,
) -> None:
    fill_boards(contest, "one", "two")
    names = [each.challenge.name for each in contest.challenges.active(9)]
    assert set(names[:2]) == {"two", "sums"}
    assert names[2] == "one"
    shown = [each.challenge.name for each in contest.challenges.active(9, visibility="public")]
    assert shown == []  # none of them is public

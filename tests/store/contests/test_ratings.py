"""Ratings in the store follow from the attempts, whether kept match by match or made anew."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, update
from tests.effort import SHARED_FIXTURE, examples
from tests.store.contest_samples import (
    DAY,
    PAYLOAD,
    a_challenge,
    an_outcome,
    finish,
    play,
    scored,
    submitted,
)

from tallymark.challenges.attempt import Evaluation, Metrics, Outcome
from tallymark.challenges.challenge import Versus, VersusJudge
from tallymark.ratings import Counts, EloRating, Match, Pair, elo
from tallymark.store import Store
from tallymark.store.contests import matches
from tallymark.store.contests.tables import attempt_scores, attempts, rating_pairs, ratings

games = st.lists(
    st.tuples(
        st.sampled_from(["alice", "bob"]),
        st.sampled_from(["win", "draw", "loss", None, "expire"]),
        st.booleans(),
        st.booleans(),
    ),
    max_size=8,
)
results = st.lists(st.sampled_from(["win", "draw", "loss", "error"]), min_size=8, max_size=8)
laws = settings(
    max_examples=examples(10, 4),
    deadline=None,
    suppress_health_check=SHARED_FIXTURE,
)


def play_all(store: Store, plays: list[Any]) -> None:
    for number, (agent, result, verified, memoryless) in enumerate(plays, 1):
        at = number * DAY
        if result == "expire":
            store.attempts.enter("sums", agent, at=at, seed=1, memoryless=memoryless)
            store.attempts.expire(at + DAY / 2)
            continue
        attempt = submitted(store, agent, at, memoryless=memoryless)
        outcome = an_outcome(1.0, result=result)
        store.attempts.finish(attempt.id, Evaluation(), outcome, at=at, verified=verified)


def assert_same_as_the_log(store: Store) -> None:
    log = list(store.ratings.matches())
    assert dict(store.ratings.elo()) == elo.replay(log)
    assert sorted(store.ratings.pairs(), key=repr) == sorted(Counts.of(log), key=repr)


def change(store: Store, attempt: str, **values: Any) -> None:
    """What rescoring does to a score, and to its agent after it."""
    key = int(attempt[1:])
    state = {"state": "scored" if values["error"] is None else "failed"}

    def work(connection: Any) -> None:
        connection.execute(
            update(attempt_scores).where(attempt_scores.c.attempt == key).values(values)
        )
        connection.execute(update(attempts).where(attempts.c.key == key).values(state))
        matches.fold_agents(connection, store.tenant, [store.attempts.get(attempt).agent])

    store._database.write(work)


@laws
@given(plays=games)
def test_ratings_kept_match_by_match_are_those_of_the_log(contests: Any, plays: list[Any]) -> None:
    with contests() as store:
        play_all(store, plays)
        rated = [each for each in plays if each[1] is not None]
        assert [each.agent for each in store.ratings.matches()] == [each[0] for each in rated]
        assert_same_as_the_log(store)


@laws
@given(plays=games, changed=results)
def test_results_that_change_are_rated_in_their_old_place(
    contests: Any, plays: list[Any], changed: list[str]
) -> None:
    with contests() as store:
        play_all(store, plays)
        before = list(store.ratings.matches())
        done = store.attempts.of("sums", state="scored")[::-1]
        for attempt, result in zip(done, changed, strict=False):
            error = "broken" if result == "error" else None
            change(store, attempt.id, result=None if error else result, error=error)
        assert_same_as_the_log(store)
        after = list(store.ratings.matches())
        played = [each for each in plays if each[1] is not None]
        assert len(before) == len(played)
        if all(each[1] not in (None, "expire") for each in plays):
            expected = ["loss" if each == "error" else each for each in changed[: len(plays)]]
            assert [each.result for each in after] == expected


@laws
@given(plays=games)
def test_ratings_that_were_lost_are_made_anew(contests: Any, plays: list[Any]) -> None:
    with contests() as store:
        play_all(store, plays)
        before = store.ratings.elo(), store.ratings.pairs()

        def lose(connection: Any) -> None:
            for table in (ratings, rating_pairs):
                connection.execute(delete(table).where(table.c.tenant == store.tenant))

        store._database.write(lose)
        store.ratings.rebuild()
        assert (store.ratings.elo(), store.ratings.pairs()) == before


def test_a_match_says_what_was_played(contest: Store) -> None:
    harder = a_challenge(version="v2", difficulty="veteran")
    contest.challenges.publish(harder, b"", at=1.0)
    attempt = submitted(contest, "alice", memoryless=True)
    contest.challenges.publish(a_challenge(version="v3"), b"", at=2.0)
    contest.attempts.finish(attempt.id, Evaluation(), an_outcome(), at=20.0, verified=True)
    match = Match("alice", "sums", "veteran", "win", verified=True, memoryless=True, first=True)
    assert list(contest.ratings.matches()) == [match]
    # K(S - E) = 32 (1 - 0.2403) = 24.3, rounded to 24; the first, verified, memoryless: 28.8.
    assert contest.ratings.of("alice") == EloRating(1029, 1, 1, 0, 0)
    ((_, change),) = contest.ratings.changes("alice")
    assert (change.before, change.after, change.bonus) == (1000, 1029, 1.2)


def test_only_the_first_try_at_a_challenge_has_its_bonus(contest: Store) -> None:
    for at in (1.0, DAY):
        attempt = submitted(contest, "alice", at, memoryless=True)
        contest.attempts.finish(attempt.id, Evaluation(), an_outcome(), at=at, verified=True)
    # 32 (1 - 0.5) = 16, x 1.2 = 19.2. Then 32 (1 - 1 / (1 + 10^(-19/400))) = 15.1, 15 x 1.1 = 16.5.
    assert contest.ratings.of("alice") == EloRating(1000 + 19 + 17, 2, 2, 0, 0)


def test_ratings_are_listed_highest_first_and_equal_ones_by_name(contest: Store) -> None:
    for agent, result in (("ba", "win"), ("b-z", "win"), ("ann", "loss"), ("bob", "draw")):
        play(contest, agent, an_outcome(result=result))
    assert [agent for agent, _ in contest.ratings.elo()] == ["b-z", "ba", "bob", "ann"]
    assert [agent for agent, _ in contest.ratings.elo(limit=1, offset=1)] == ["ba"]


def test_pairs_count_what_happened_at_each_challenge(contest: Store) -> None:
    contest.challenges.publish(a_challenge(name="chess"), b"", at=1.0)
    for result in ("win", "loss", "win"):
        play(contest, "alice", an_outcome(result=result))
    entered = contest.attempts.enter("chess", "alice", at=1.0, seed=1)
    contest.attempts.expire(entered.expires_at + 1)
    assert contest.ratings.pairs() == [
        Pair("alice", "chess", 0, 0, 1),
        Pair("alice", "sums", 2, 0, 1),
    ]


def test_an_outcome_without_a_result_is_no_match(contest: Store) -> None:
    play(contest, "alice", an_outcome(result=None))
    assert list(contest.ratings.matches()) == []
    assert contest.ratings.elo() == []
    assert contest.ratings.of("alice") == EloRating()


def test_a_failed_attempt_is_a_loss_until_it_is_mended(contest: Store) -> None:
    attempt = play(contest, "alice", Outcome(score=None, error="broken"))
    assert [each.result for each in contest.ratings.matches()] == ["loss"]
    assert contest.ratings.of("alice") == EloRating(984, 1, 0, 0, 1)
    change(contest, attempt.id, error=None, result="win")
    assert [each.result for each in contest.ratings.matches()] == ["win"]
    assert contest.ratings.of("alice") == EloRating(1016, 1, 1, 0, 0)
    assert_same_as_the_log(contest)


def test_a_verdict_that_comes_late_counts_in_its_place(contest: Store) -> None:
    early = contest.attempts.report("sums", "alice", PAYLOAD, Metrics(), at=1.0)
    late = contest.attempts.report("sums", "alice", PAYLOAD, Metrics(), at=2.0)
    finish(contest, late, an_outcome(result="win"), at=3.0)
    finish(contest, early, an_outcome(result="loss"), at=4.0)
    assert [each.result for each in contest.ratings.matches()] == ["loss", "win"]
    # 1000 - 16 = 984, then 32 (1 - 1 / (1 + 10^(16/400))) = 16.7, rounded to 17.
    assert contest.ratings.of("alice") == EloRating(1001, 2, 1, 0, 1)


RESULTS = ("loss", "win", "draw", "win")


@pytest.mark.parametrize(
    ("rated", "generate", "counted"),
    [
        ("every", None, 4),
        ("until_won", "generate.py", 2),
        ("first", None, 1),
        (None, "generate.py", 4),
        (None, None, 2),
    ],
)
def test_a_challenge_says_what_repeats_are_worth(
    contests: Any, rated: Any, generate: str | None, counted: int
) -> None:
    with contests(rated=rated, generate=generate) as store:
        for number, result in enumerate(RESULTS, 1):
            play(store, "alice", an_outcome(result=result), at=number * DAY)
        assert [each.result for each in store.ratings.matches()] == [*RESULTS[:counted]]
        assert_same_as_the_log(store)
        before = store.ratings.elo(), store.ratings.pairs()
        store.ratings.rebuild()
        assert (store.ratings.elo(), store.ratings.pairs()) == before


def test_attempts_loaded_unrated_are_no_matches_but_were_tried(contest: Store) -> None:
    contest.attempts.load("sums", [scored("alice", an_outcome())], at=5.0, rated=False)
    assert list(contest.ratings.matches()) == []
    attempt = submitted(contest, "alice", 20.0, memoryless=True)
    contest.attempts.finish(attempt.id, Evaluation(), an_outcome(), at=20.0, verified=True)
    assert [(each.result, each.first) for each in contest.ratings.matches()] == [("win", False)]
    assert contest.ratings.of("alice").rating == 1000 + 18  # 16 x 1.1 = 17.6


def test_red_against_blue_is_not_rated_here(contest: Store) -> None:
    versus = Versus(categories=("leak",), judge=VersusJudge(type="script"))
    contest.challenges.publish(a_challenge(version="v2", kind="versus", versus=versus), b"", at=1.0)
    play(contest, "alice", an_outcome())
    contest.attempts.enter("sums", "bob", at=1.0, seed=1)
    contest.attempts.expire(1e6)
    assert list(contest.ratings.matches()) == []

"""Loading attempts that were scored elsewhere."""

from __future__ import annotations

import msgspec
import pytest
from scripts.server_process import require_as_logged
from tests.store.contest_samples import agents, an_outcome, play, scored
from tests.store.contests.rescoring_games import Halves, plan

from tallymark.challenges.attempt import Metrics, Outcome
from tallymark.errors import InvalidInput
from tallymark.store import Store


def test_what_is_loaded_can_be_read_like_what_was_played(contest: Store) -> None:
    play(contest, "alice", an_outcome(5.0), 10.0)
    metrics = Metrics(succeeded=True, created_at=11_000)
    outcome = an_outcome(9.0, details={"why": "good"}, dimensions={"speed": 1.0}, metrics=metrics)
    count = contest.attempts.load(
        "sums",
        [scored("alice", outcome, 12.0), scored("bob", Outcome(score=None, error="x"))],
        at=20.0,
    )
    newest, loaded, _ = contest.attempts.of("sums")
    assert count == 2
    assert (loaded.agent, loaded.number, loaded.state) == ("alice", 2, "scored")
    assert (loaded.outcome, loaded.scored_at) == (outcome, 20.0)
    assert (newest.agent, newest.state) == ("bob", "failed")
    assert [each.score for each in contest.attempts.history(loaded.id)] == [9.0]
    assert agents(contest) == ["alice"]
    assert contest.attempts.enter("sums", "alice", at=30.0, seed=1).number == 3


def test_loading_rates_unless_told_not_to(contest: Store) -> None:
    contest.attempts.load("sums", [scored("alice", an_outcome())], at=20.0, rated=False)
    assert list(contest.ratings.matches()) == []
    contest.attempts.load("sums", [scored("bob", an_outcome())], at=20.0)
    assert [each.agent for each in contest.ratings.matches()] == ["bob"]


def test_what_was_never_scored_is_not_loaded(contest: Store) -> None:
    alice, bob = scored("alice", an_outcome()), scored("bob", an_outcome())
    waiting = [alice, msgspec.structs.replace(bob, outcome=None)]
    with pytest.raises(InvalidInput, match="of 'bob' was never scored; load scored attempts only"):
        contest.attempts.load("sums", waiting, at=20.0)
    assert contest.attempts.of("sums") == []


def test_loading_is_written_down(contest: Store) -> None:
    contest.attempts.load("sums", [scored("alice", an_outcome())], at=20.0)
    last = contest.challenges.audit("sums")[-1]
    assert (last.event, last.note) == ("loaded", {"attempts": 1})


def test_when_it_was_entered_is_known_of_what_is_loaded(contest: Store) -> None:
    """Or a formula could not take it, and whoever computes it again would find a difference."""
    outcome = an_outcome(metrics=Metrics(succeeded=True))
    contest.attempts.load("sums", [scored("alice", outcome, 12.0)], at=20.0)
    (loaded,) = contest.attempts.of("sums")
    assert loaded.outcome is not None
    assert loaded.outcome.metrics.created_at == 1000 * loaded.entered_at
    contest.rescorings.apply(plan(contest, formula="created_at / 1000"), at=30.0)
    assert [each.score for each in contest.boards.top("sums")] == [loaded.entered_at]
    require_as_logged(contest, "scores")


def test_what_is_loaded_may_fail_and_be_scored_again_later(contest: Store) -> None:
    """Its first entry in the log is then a change, and not how it began."""
    odd, even = (an_outcome(metrics=Metrics(succeeded=True, tokens_total=n)) for n in (7, 8))
    contest.attempts.load("sums", [scored("alice", odd), scored("bob", even)], at=20.0)
    contest.rescorings.apply(plan(contest, plugin="halves:Halves", loaded=Halves()), at=30.0)
    assert [each.state for each in contest.attempts.of("sums")] == ["scored", "failed"]
    require_as_logged(contest, "attempts")
    contest.rescorings.apply(plan(contest, formula="tokens_total", plugin=None), at=40.0)
    assert [each.state for each in contest.attempts.of("sums")] == ["scored", "scored"]
    require_as_logged(contest, "attempts")

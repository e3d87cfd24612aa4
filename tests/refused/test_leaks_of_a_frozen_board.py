"""A frozen board is frozen everywhere: nothing that the public reads tells what came later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.cli.tally_process import Tally
from tests.store.contest_samples import a_challenge, an_outcome, play, quick_store
from tests.store.contests.rescoring_games import challenge, plan, played
from tests.store.contests.rescoring_games import play as given

from tallymark.store import Store

FREEZE = 1000.0


def look(store: Store, *, public: bool = True) -> Any:
    """All that the public may read."""
    found = store.attempts.of("sums", as_frozen=public)
    return (
        store.boards.top("sums", as_frozen=public),
        [store.boards.standing("sums", agent, as_frozen=public) for agent in ("alice", "bob")],
        store.ratings.elo(as_frozen=public),
        [store.ratings.of(agent, as_frozen=public) for agent in ("alice", "bob", "charlie")],
        store.ratings.pairs(as_frozen=public),
        [each for each in found if each.outcome is not None],
        [store.attempts.history(each.id, as_frozen=public) for each in found if each.outcome],
    )


@pytest.fixture(params=["planned", "by-hand"])
def frozen(request: pytest.FixtureRequest, empty_url: str) -> Any:
    """A store whose board is frozen from FREEZE on."""
    planned = FREEZE if request.param == "planned" else None
    with quick_store(empty_url) as store:
        store.challenges.publish(a_challenge(freezes_at=planned), b"", at=0.0)
        store.challenges.publish(a_challenge(name="chess"), b"", at=0.0)
        play(store, "alice", an_outcome(5.0), at=10.0)
        play(store, "bob", an_outcome(7.0, result="loss"), at=20.0)
        if planned is None:
            store.challenges.freeze("sums", at=FREEZE, reason="the final hour")
        yield store


def test_nothing_that_the_public_reads_moves(frozen: Store) -> None:
    before = look(frozen)
    play(frozen, "alice", an_outcome(99.0), at=FREEZE + 1)
    charlie = play(frozen, "charlie", an_outcome(98.0), at=FREEZE + 2)
    entered = frozen.attempts.enter("sums", "bob", at=FREEZE + 3, seed=1)
    frozen.attempts.withdraw(entered.id, "bob", FREEZE + 4)
    assert look(frozen) == before
    shown = frozen.attempts.get(charlie.id, as_frozen=True)
    assert (shown.state, shown.outcome, shown.verified) == ("submitted", None, False)
    events = [each.event for each in frozen.attempts.audit(charlie.id, as_frozen=True)]
    assert events == ["entered", "submitted"]
    assert frozen.attempts.of("sums", state="scored", agent="charlie", as_frozen=True) == []
    live = frozen.ratings.elo(as_frozen=False)
    assert [agent for agent, _ in live] == ["alice", "charlie", "bob"]
    assert frozen.attempts.get(charlie.id).outcome is not None


def test_other_challenges_go_on(frozen: Store) -> None:
    before = frozen.ratings.of("alice")
    play(frozen, "alice", an_outcome(99.0), at=FREEZE + 1)
    entered = frozen.attempts.enter("chess", "alice", at=FREEZE + 2, seed=1)
    frozen.attempts.withdraw(entered.id, "alice", FREEZE + 3)
    after = frozen.ratings.of("alice")
    assert (after.matches, after.losses) == (before.matches + 1, 1)


def test_unfrozen_it_is_as_if_it_had_never_been(frozen: Store, empty_url: str) -> None:
    play(frozen, "alice", an_outcome(99.0), at=FREEZE + 1)
    frozen.challenges.unfreeze("sums", at=FREEZE + 2, reason="over")
    assert look(frozen) == look(frozen, public=False)
    play(frozen, "charlie", an_outcome(100.0), at=FREEZE + 3)
    assert look(frozen) == look(frozen, public=False)
    assert frozen.challenges.frozen(FREEZE + 4) == []


def test_a_board_frozen_by_hand_stays_so_whatever_is_published(empty_url: str) -> None:
    with quick_store(empty_url) as store:
        store.challenges.publish(a_challenge(), b"", at=0.0)
        play(store, "alice", an_outcome(5.0), at=10.0)
        store.challenges.freeze("sums", at=20.0, reason="the final hour")
        before = look(store)
        store.challenges.publish(a_challenge(version="v2"), b"", at=30.0)
        play(store, "alice", an_outcome(9.0), at=40.0)
        assert look(store) == before


def test_rescoring_tells_the_public_nothing(empty_url: str) -> None:
    with quick_store(empty_url) as store:
        store.challenges.publish(challenge("1000 / tokens_total"), b"files", at=0.0)
        played(store, [given("alice", 0), given("alice", 5), given("bob", 10)], at=10.0)
        store.challenges.freeze("sums", at=FREEZE, reason="the final hour")
        before = look(store)
        live = look(store, public=False)
        store.rescorings.apply(plan(store, formula="10 / (tokens_total - 10)"), at=FREEZE + 1)
        after = look(store)
        assert after[:5] == before[:5]
        assert [(each.state, outcome(each)) for each in after[5]] == [
            (each.state, outcome(each)) for each in before[5]
        ]
        assert after[6] == before[6]
        assert look(store, public=False)[2] != live[2]


def outcome(attempt: Any) -> Any:
    return attempt.outcome.score, attempt.outcome.result, attempt.outcome.error


def test_the_commands_show_the_same_and_say_so(tmp_path: Path) -> None:
    tally = Tally(tmp_path)

    def say(*words: str) -> str:
        done = tally(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    (tmp_path / "challenge.yaml").write_text(
        "name: sums\nrated: every\nevaluator: {type: reported}\nscoring: {formula: rating}\n"
    )
    report = ("attempt", "report", "sums", "--agent", "alice", "--metric", "succeeded=true")
    say("challenge", "publish", ".")
    say(*report, "--metric", "rating=5")
    say("challenge", "freeze", "sums", "--reason", "the final hour")
    commands = [("leaderboard", "sums"), ("ratings",), ("attempt", "list", "sums")]
    for each in commands:
        assert "rozen" in say(*each)
    told = tally.json(*report, "--metric", "rating=7777")
    assert told["attempt"]["agent"] == "alice"
    for each in [*commands, ("attempt", "show", told["attempt"]["id"])]:
        for form in ((), ("--json",)):
            assert "7777" not in say(*each, *form).replace(",", "")
            assert "1031" not in say(*each, *form)
    assert "1031" in say("ratings", "--live")
    for live in (commands[0], commands[2], ("attempt", "show", told["attempt"]["id"])):
        assert "7777" in say(*live, "--live").replace(",", "")
    say("challenge", "unfreeze", "sums", "--reason", "over")
    assert "7,777" in say("leaderboard", "sums")
    assert "rozen" not in say("leaderboard", "sums")

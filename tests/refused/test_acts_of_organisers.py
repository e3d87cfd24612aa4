"""What organisers do, and what it refuses to competitors; each act is logged with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.tally_process import Tally
from tests.store.contest_samples import (
    DAY,
    PAYLOAD,
    a_challenge,
    agents,
    an_outcome,
    finish,
    play,
    quick_store,
    submitted,
)

from tallymark.challenges.attempt import Evaluation, Metrics
from tallymark.challenges.challenge import Challenge, Versus, VersusJudge
from tallymark.errors import InvalidInput
from tallymark.store import Store

WHY = "broken data"


@pytest.fixture
def store(empty_url: str) -> Iterator[Store]:
    with quick_store(empty_url) as opened:
        opened.challenges.publish(a_challenge(attempts=2), b"", at=0.0)
        yield opened


def refused(words: str) -> Any:
    return pytest.raises(InvalidInput, match=words)


def look(store: Store) -> Any:
    boards = store.boards
    return (
        boards.top("sums"),
        boards.size("sums"),
        [boards.standing("sums", agent) for agent in ("alice", "bob", "charlie", "dora")],
        [boards.around("sums", agent, each=1) for agent in ("alice", "bob", "charlie", "dora")],
        [boards.top("sums", limit=1, offset=nth) for nth in range(4)],
        store.ratings.elo(),
        store.ratings.pairs(),
        list(store.ratings.matches()),
    )


def test_a_void_attempt_counts_nowhere_and_gives_its_quota_back(store: Store) -> None:
    first = play(store, "alice", an_outcome(5.0), at=10.0)
    play(store, "bob", an_outcome(7.0), at=20.0)
    alone = look(store)
    best = play(store, "alice", an_outcome(9.0), at=30.0)
    before = look(store)
    with refused("has made all of its 2 attempts"):
        store.attempts.enter("sums", "alice", at=40.0, seed=1)
    assert store.attempts.void(best.id, at=50.0, reason=WHY).voided_at == 50.0
    assert look(store) == alone
    assert store.attempts.enter("sums", "alice", at=60.0, seed=1).number == 3
    store.attempts.unvoid(best.id, at=70.0, reason="it was not")
    assert look(store) == before
    for each in (first, best):
        store.attempts.void(each.id, at=80.0, reason=WHY)
    assert agents(store) == ["bob"]
    assert store.ratings.of("alice").matches == 0


def test_a_void_attempt_of_today_is_no_attempt_of_today(store: Store) -> None:
    store.challenges.publish(a_challenge(version="v2", attempts_per_day=1), b"", at=1.0)
    made = play(store, "alice", an_outcome(), at=DAY)
    with refused("has made its 1 attempts of today"):
        store.attempts.enter("sums", "alice", at=DAY + 1, seed=1)
    store.attempts.void(made.id, at=DAY + 2, reason=WHY)
    store.attempts.enter("sums", "alice", at=DAY + 3, seed=1)


def test_what_is_made_void_while_it_waits_is_scored_and_does_not_count(store: Store) -> None:
    waiting = submitted(store)
    store.attempts.void(waiting.id, at=12.0, reason=WHY)
    assert store.ratings.provisional(25.0) == set()
    assert finish(store, waiting, an_outcome(5.0))
    assert (agents(store), store.ratings.elo()) == ([], [])
    store.attempts.unvoid(waiting.id, at=30.0, reason="it was not")
    assert (agents(store), store.ratings.of("alice").wins) == (["alice"], 1)


def test_an_open_attempt_is_not_made_void(store: Store) -> None:
    entered = store.attempts.enter("sums", "alice", at=10.0, seed=1)
    with refused("is still open; void it when it has ended"):
        store.attempts.void(entered.id, at=11.0, reason=WHY)


def test_the_bonus_of_a_first_attempt_is_that_of_the_first_that_counts(store: Store) -> None:
    broken = play(store, "alice", an_outcome(result="loss"), at=10.0)
    good = submitted(store, "alice", 20.0, memoryless=True)
    store.attempts.finish(good.id, Evaluation(), an_outcome(), at=20.0, verified=True)
    assert store.ratings.changes("alice")[-1][1].bonus == 1.1
    store.attempts.void(broken.id, at=30.0, reason=WHY)
    assert store.ratings.changes("alice")[-1][1].bonus == 1.2
    assert store.ratings.of("alice").rating == 1019


def test_a_disqualified_agent_is_nowhere_and_may_do_nothing(store: Store) -> None:
    for number, agent in enumerate(("alice", "charlie", "dora")):
        play(store, agent, an_outcome(5.0 + number), at=10.0 + number)
    alone = look(store)
    opened = store.attempts.enter("sums", "bob", at=20.0, seed=1)
    store.attempts.submit(opened.id, "bob", PAYLOAD, at=21.0)
    finish(store, opened, an_outcome(6.5), at=22.0)
    waiting = store.attempts.enter("sums", "bob", at=23.0, seed=1)
    before = look(store)
    store.disqualifications.disqualify("bob", at=30.0, reason="copied")
    assert look(store) == alone
    assert store.disqualifications.agents() == {"bob": 30.0}
    acts: list[Callable[[], object]] = [
        lambda: store.attempts.enter("sums", "bob", at=31.0, seed=1),
        lambda: store.attempts.submit(waiting.id, "bob", PAYLOAD, at=31.0),
        lambda: store.attempts.report("sums", "bob", PAYLOAD, Metrics(), at=31.0),
    ]
    for act in acts:
        with refused("'bob' is disqualified; ask the organisers"):
            act()
    assert store.ratings.of("bob").matches == 0
    store.disqualifications.reinstate("bob", at=40.0, reason="did not copy")
    assert look(store) == before
    store.attempts.submit(waiting.id, "bob", PAYLOAD, at=41.0)
    with refused("no agent 'bobby' has competed here"):
        store.disqualifications.disqualify("bobby", at=50.0, reason="copied")


def versus() -> Challenge:
    rules = Versus(categories=("leak",), judge=VersusJudge(type="script"))
    return a_challenge(name="guard", kind="versus", versus=rules)


def test_red_against_blue_knows_the_same(store: Store) -> None:
    store.challenges.publish(versus(), b"", at=0.0)
    store.versus.submit("guard", "alice", "red", "attack", at=1.0)
    store.versus.submit("guard", "bob", "blue", "defence", at=2.0)
    assert len(store.versus.tallies("guard")) == 1
    store.disqualifications.disqualify("bob", at=3.0, reason="copied")
    assert store.versus.tallies("guard") == []
    with refused("'bob' is disqualified"):
        store.versus.submit("guard", "bob", "blue", "another", at=4.0)
    store.challenges.close("guard", at=5.0, reason="over")
    with refused("guard is closed"):
        store.versus.submit("guard", "alice", "red", "another", at=6.0)


def test_a_closed_challenge_takes_no_entry_and_what_is_open_may_end(store: Store) -> None:
    opened = store.attempts.enter("sums", "alice", at=10.0, seed=1)
    store.challenges.close("sums", at=11.0, reason="enough")
    acts: list[Callable[[], object]] = [
        lambda: store.attempts.enter("sums", "bob", at=12.0, seed=1),
        lambda: store.attempts.report("sums", "bob", PAYLOAD, Metrics(), at=12.0),
    ]
    for act in acts:
        with refused("challenge 'sums' is closed; its organisers have closed it"):
            act()
    store.challenges.publish(a_challenge(version="v2"), b"", at=13.0)
    with refused("is closed"):
        store.attempts.enter("sums", "bob", at=14.0, seed=1)
    assert store.attempts.submit(opened.id, "alice", PAYLOAD, at=15.0).state == "submitted"
    store.challenges.reopen("sums", at=16.0, reason="not enough")
    store.attempts.enter("sums", "bob", at=17.0, seed=1)


def test_what_closed_by_its_own_rules_is_reopened_by_a_new_version(store: Store) -> None:
    store.challenges.publish(a_challenge(version="v2", closes_at=20.0), b"", at=1.0)
    with refused("closed at the time set in its challenge.yaml; publish it with a later closes"):
        store.challenges.reopen("sums", at=30.0, reason="more")


@pytest.mark.parametrize("reason", ["", "  ", "x" * 2001])
def test_nothing_is_done_without_a_reason(store: Store, reason: str) -> None:
    made = play(store, "alice", an_outcome())
    for act in (
        lambda: store.attempts.void(made.id, at=1.0, reason=reason),
        lambda: store.attempts.unvoid(made.id, at=1.0, reason=reason),
        lambda: store.disqualifications.disqualify("alice", at=1.0, reason=reason),
        lambda: store.disqualifications.reinstate("alice", at=1.0, reason=reason),
        lambda: store.challenges.close("sums", at=1.0, reason=reason),
        lambda: store.challenges.reopen("sums", at=1.0, reason=reason),
        lambda: store.challenges.freeze("sums", at=1.0, reason=reason),
        lambda: store.challenges.unfreeze("sums", at=1.0, reason=reason),
    ):
        with refused("needs a reason of 1 to 2000 characters"):
            act()


def test_every_act_is_once_in_the_log_with_its_reason(store: Store) -> None:
    made = play(store, "alice", an_outcome())
    acts: list[tuple[str, Any]] = [
        ("voided", lambda: store.attempts.void(made.id, at=30.0, reason=WHY)),
        ("unvoided", lambda: store.attempts.unvoid(made.id, at=31.0, reason=WHY)),
        ("disqualified", lambda: store.disqualifications.disqualify("alice", at=32.0, reason=WHY)),
        ("reinstated", lambda: store.disqualifications.reinstate("alice", at=33.0, reason=WHY)),
        ("closed", lambda: store.challenges.close("sums", at=34.0, reason=WHY)),
        ("reopened", lambda: store.challenges.reopen("sums", at=35.0, reason=WHY)),
        ("frozen", lambda: store.challenges.freeze("sums", at=36.0, reason=WHY)),
        ("unfrozen", lambda: store.challenges.unfreeze("sums", at=37.0, reason=WHY)),
    ]
    for _, act in acts:
        act()
        act()
    found = store.audit_log.entries()[::-1]
    assert [each.event for each in found] == ["published", *(name for name, _ in acts)]
    assert all(each.note == {"reason": WHY} for each in found[1:])
    assert {each.actor for each in found[1:]} == {"organiser"}
    mine = store.audit_log.entries(agent="alice")
    assert [each.event for each in mine[::-1]] == [name for name, _ in acts[:4]]
    assert (mine[-1].attempt, mine[-1].challenge) == (made.id, "sums")
    of_sums = store.audit_log.entries(challenge="sums", limit=2)
    assert [each.event for each in of_sums] == ["unfrozen", "frozen"]


def test_the_commands_do_the_same(tmp_path: Path) -> None:
    tally = Tally(tmp_path)
    (tmp_path / "challenge.yaml").write_text(
        "name: sums\nevaluator: {type: deterministic, truth: truth.json,"
        " fields: {sum: {primitive: exact_match, dimension: correctness}}}\n"
        "scoring: {dimensions: {correctness: 0.9, speed: 0.1}}\n"
    )
    (tmp_path / "truth.json").write_text('{"sum": 42}')
    assert tally("challenge", "publish", ".").returncode == 0
    why = ("--reason", "broken data")
    entered = tally.json("attempt", "enter", "sums", "--agent", "alice")["attempt"]["id"]
    gone = tally.json("attempt", "withdraw", entered, "--agent", "alice")
    assert (gone["id"], gone["state"]) == (entered, "withdrawn")
    assert gone["seed"] is None
    assert tally.json("attempt", "void", entered, *why)["voided_at"] is not None
    assert "void" in tally("attempt", "list", "sums").stdout
    assert "voided by organiser: broken data" in tally("attempt", "show", entered).stdout
    assert tally.json("attempt", "unvoid", entered, *why)["voided_at"] is None
    assert tally.json("agent", "disqualify", "alice", *why)["agent"]["disqualified_at"] is not None
    assert tally("attempt", "enter", "sums", "--agent", "alice").returncode == 2
    assert tally.json("agent", "reinstate", "alice", *why)["agent"]["disqualified_at"] is None
    assert tally.json("challenge", "close", "sums", *why)["closed"] is not None
    assert "closed" in tally("challenge", "show", "sums").stdout
    assert tally.json("challenge", "reopen", "sums", *why)["closed"] is None
    assert tally.json("challenge", "freeze", "sums", *why)["frozen"] is not None
    assert "frozen" in tally.json("challenge", "show", "sums")
    assert tally("challenge", "unfreeze", "sums", *why).stdout == "sums: open, its board live\n"
    told = tally("log").stdout
    assert told.count("broken data") == 8
    assert tally.json("log", "--agent", "alice", "--limit", "1")["entries"][0]["agent"] == "alice"
    for command in (("attempt", "void", entered), ("challenge", "close", "sums")):
        done = tally(*command)
        assert done.returncode == 2
        assert "--reason" in done.stderr
    assert "no challenge 'summs'" in tally("challenge", "close", "summs", *why).stderr

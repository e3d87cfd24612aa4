"""No loss can be dodged, and no history bends a rating: what remains is what counts.

Random games, with late verdicts, expiries, withdrawals, voids, disqualifications and new rules, are
compared with a store that only ever saw the attempts that remain, under the last rule.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.effort import examples
from tests.store.contest_samples import quick_store

from tallymark.challenges.attempt import Evaluation, Metrics, Payload
from tallymark.challenges.attempt_scores import score_attempt
from tallymark.challenges.challenge import Challenge, Evaluator, ScoringRule
from tallymark.challenges.rescore_plan import RescorePlan, change_scoring
from tallymark.errors import InvalidInput
from tallymark.ratings import Counts, elo
from tallymark.service.competition import Competition
from tallymark.store import Store

AGENTS = ("alice", "bob", "charlie")
CHALLENGES: dict[str, Any] = {"sums": "every", "chess": "until_won", "maze": "first"}
TIERS: dict[str, Any] = {"sums": "contender", "chess": "veteran", "maze": "newcomer"}
# Undefined at 0 tokens, or at a cost that is not known; the last always has a value.
FORMULAS = ("1000 / tokens_total", "cost * 2", "tokens_total + 1 / (tokens_total - 3)", "100")
HOUR = 3600.0


@pytest.fixture
def stores(empty_url: str) -> Iterator[Any]:
    with quick_store(empty_url, "made") as made:
        made.set_var("schema", "made")

        def fresh(number: int) -> Any:
            return quick_store(empty_url, f"t{number}")

        yield fresh


def challenge(name: str, formula: str = FORMULAS[0]) -> Challenge:
    return Challenge(
        name=name,
        title=name,
        goal="Win.",
        version=f"{name}-1",
        rated=CHALLENGES[name],
        time_limit_s=HOUR,
        difficulty=TIERS[name],
        evaluator=Evaluator(type="reported"),
        scoring=ScoringRule(formula=formula),
    )


@dataclass
class Made:
    """An attempt of the game: who, where, when, and what the evaluator found."""

    name: str
    agent: str
    entered_at: float
    memoryless: bool
    verified: bool
    metrics: Metrics
    id: str = ""
    end: str = "open"
    ended_at: float = 0.0
    void: bool = False


@dataclass
class Game:
    """A random game in a store, and all that was done in it."""

    store: Store
    dice: random.Random
    clock: float = 1000.0
    made: list[Made] = field(default_factory=list)
    formulas: dict[str, str] = field(default_factory=dict)
    out: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for name in CHALLENGES:
            self.formulas[name] = FORMULAS[0]
            self.store.challenges.publish(challenge(name), b"", at=0.0)

    def play(self, moves: int) -> None:
        acts = [self.enter] * 6 + [self.submit] * 6 + [self.score] * 5 + [self.withdraw, self.wait]
        acts += [self.void, self.unvoid, self.disqualify, self.reinstate, self.rescore]
        for _ in range(moves):
            self.clock += self.dice.randint(1, 100)
            self.dice.choice(acts)()
        while self.waiting():
            self.score()
        self.clock += 2 * HOUR
        self.store.attempts.expire(self.clock)
        for each in self.of("open"):
            self.expire(each)

    def of(self, *ends: str) -> list[Made]:
        return [each for each in self.made if each.end in ends]

    def waiting(self) -> list[Made]:
        return self.of("submitted")

    def enter(self) -> None:
        agent, name = self.dice.choice(AGENTS), self.dice.choice(list(CHALLENGES))
        if agent in self.out or [m for m in self.of("open") if (m.agent, m.name) == (agent, name)]:
            return
        metrics = Metrics(
            succeeded=self.dice.random() < 0.6,
            tokens_total=self.dice.choice([0, 3, 5, 9]),
            cost=self.dice.choice([None, 1.0, 2.0]),
        )
        flags = (self.dice.random() < 0.5, self.dice.random() < 0.5)
        each = Made(name, agent, self.clock, *flags, metrics)
        memoryless = each.memoryless
        each.id = self.store.attempts.enter(
            name, agent, at=self.clock, seed=1, memoryless=memoryless
        ).id
        self.made.append(each)

    def submit(self) -> None:
        found = [m for m in self.of("open") if m.agent not in self.out]
        if found:
            each = self.dice.choice(found)
            if self.clock > each.entered_at + HOUR:
                return
            self.store.attempts.submit(each.id, each.agent, Payload(), at=self.clock)
            each.end, each.ended_at = "submitted", self.clock

    def score(self) -> None:
        if found := self.waiting():
            each = self.dice.choice(found)
            finish(self.store, each, self.clock)
            each.end = "scored"

    def withdraw(self) -> None:
        found = [m for m in self.of("open") if self.clock <= m.entered_at + HOUR]
        if found:
            each = self.dice.choice(found)
            self.store.attempts.withdraw(each.id, each.agent, self.clock)
            each.end, each.ended_at = "withdrawn", self.clock

    def wait(self) -> None:
        self.clock += self.dice.choice([10.0, 2 * HOUR])
        self.store.attempts.expire(self.clock)
        for each in self.of("open"):
            if self.clock > each.entered_at + HOUR:
                self.expire(each)

    def expire(self, each: Made) -> None:
        each.end, each.ended_at = "expired", each.entered_at + HOUR

    def void(self) -> None:
        if found := [each for each in self.made if each.end != "open"]:
            each = self.dice.choice(found)
            each.void = True
            self.store.attempts.void(each.id, at=self.clock, reason="broken data")

    def unvoid(self) -> None:
        if found := [each for each in self.made if each.void]:
            each = self.dice.choice(found)
            each.void = False
            self.store.attempts.unvoid(each.id, at=self.clock, reason="they were not")

    def disqualify(self) -> None:
        agent = self.dice.choice(AGENTS)
        if [each for each in self.made if each.agent == agent]:
            self.out.add(agent)
            self.store.disqualifications.disqualify(agent, at=self.clock, reason="copied")

    def reinstate(self) -> None:
        if self.out:
            agent = self.dice.choice(sorted(self.out))
            self.out.remove(agent)
            self.store.disqualifications.reinstate(agent, at=self.clock, reason="did not copy")

    def rescore(self) -> None:
        name = self.dice.choice(list(CHALLENGES))
        formula = self.dice.choice([each for each in FORMULAS if each != self.formulas[name]])
        self.formulas[name] = formula
        old = self.store.challenges.get(name)
        plan = RescorePlan.of(old, change_scoring(old, formula=formula))
        self.store.rescorings.apply(plan, at=self.clock)

    def remaining(self) -> list[Made]:
        return [each for each in self.made if not each.void and each.agent not in self.out]


def finish(store: Store, each: Made, at: float) -> None:
    attempt = store.attempts.get(each.id)
    found = Evaluation(metrics=each.metrics)
    outcome = score_attempt(store.challenges.get(each.name), found, attempt=attempt)
    assert store.attempts.finish(each.id, found, outcome, at=at, verified=each.verified)


def play_again(store: Store, game: Game) -> None:
    """Only what remains, each scored when it ended, by the last rules, and nothing else."""
    for name, formula in game.formulas.items():
        store.challenges.publish(challenge(name, formula), b"", at=0.0)
    ids: dict[str, str] = {}
    events = [(each.entered_at, number, each) for number, each in enumerate(game.remaining())]
    events += [(each.ended_at, number, each) for number, each in enumerate(game.remaining())]
    for at, _, each in sorted(events, key=lambda event: event[:2]):
        if each.id not in ids:
            ids[each.id] = store.attempts.enter(
                each.name, each.agent, at=at, seed=1, memoryless=each.memoryless
            ).id
        elif each.end == "scored":
            store.attempts.submit(ids[each.id], each.agent, Payload(), at=at)
            again = Made(**{**vars(each), "id": ids[each.id]})
            finish(store, again, at)
        elif each.end == "withdrawn":
            store.attempts.withdraw(ids[each.id], each.agent, at)
        else:
            store.attempts.expire(at + 1e-3)


def describe(store: Store) -> Any:
    """Boards, ratings and matches; ids differ from store to store."""
    boards = {
        name: [
            (row.rank, row.agent, row.value, row.score, row.submitted_at, row.tries)
            for row in store.boards.top(name)
        ]
        for name in CHALLENGES
    }
    return boards, store.ratings.elo(), store.ratings.pairs(), list(store.ratings.matches())


def test_what_remains_is_all_that_counts(stores: Any) -> None:
    for seed in range(examples(40, 2)):
        with stores(2 * seed) as played, stores(2 * seed + 1) as scratch:
            game = Game(played, random.Random(seed))
            game.play(60)
            play_again(scratch, game)
            assert describe(played) == describe(scratch), seed
            log = list(played.ratings.matches())
            assert dict(played.ratings.elo()) == elo.replay(log)
            assert played.ratings.pairs() == sorted(
                Counts.of(log), key=lambda pair: (pair.agent, pair.challenge)
            )


def play(store: Store, agent: str, end: str, at: float) -> None:
    """A memoryless attempt that is verified, and ends so."""
    attempt = store.attempts.enter("sums", agent, at=at, seed=1, memoryless=True)
    if end == "withdrawn":
        store.attempts.withdraw(attempt.id, agent, at + 1)
        return
    if end == "expired":
        store.attempts.expire(at + 2 * HOUR)
        return
    store.attempts.submit(attempt.id, agent, Payload(), at=at + 1)
    # Without tokens the formula has no value: an answer that no rule can score.
    metrics = Metrics(succeeded=True, tokens_total=0 if end == "undefined" else 5)
    found = Evaluation(metrics=metrics, error="the script raised" if end == "raised" else None)
    kept = store.attempts.get(attempt.id)
    outcome = score_attempt(store.challenges.get("sums"), found, attempt=kept)
    assert outcome.error is None or outcome.score is None
    store.attempts.finish(attempt.id, found, outcome, at=at + 2, verified=True)


@pytest.mark.parametrize("end", ["undefined", "raised", "withdrawn", "expired"])
def test_an_attempt_without_a_score_is_a_loss_and_was_the_first(stores: Any, end: str) -> None:
    with stores(0) as store:
        store.challenges.publish(challenge("sums"), b"", at=0.0)
        play(store, "alice", end, 10.0)
        assert store.ratings.of("alice").losses == 1
        assert store.ratings.of("alice").rating == 984
        play(store, "alice", "won", 10.0 + 3 * HOUR)
        play(store, "bob", "won", 10.0)
        (_, _), (match, change) = store.ratings.changes("alice")
        # 1.1 for a verified win; 1.2 is for a first attempt, which bob's is.
        assert (match.result, change.bonus) == ("win", 1.1)
        assert store.ratings.changes("bob")[0][1].bonus == 1.2


def test_a_loss_is_mended_when_the_organiser_mends_the_rule(stores: Any) -> None:
    with stores(0) as store:
        store.challenges.publish(challenge("sums"), b"", at=0.0)
        play(store, "alice", "undefined", 10.0)
        old = store.challenges.get("sums")
        plan = RescorePlan.of(old, change_scoring(old, formula="tokens_total"))
        store.rescorings.apply(plan, at=20.0)
        assert store.ratings.of("alice").rating == 1019  # 16 x 1.2, as from the start


def test_what_waits_for_us_is_no_match_and_makes_the_rating_provisional(stores: Any) -> None:
    with stores(0) as store:
        store.challenges.publish(challenge("sums"), b"", at=0.0)
        attempt = store.attempts.enter("sums", "alice", at=10.0, seed=1)
        store.attempts.submit(attempt.id, "alice", Payload(), at=11.0)
        play(store, "alice", "won", 20.0)
        assert store.ratings.of("alice").matches == 1
        assert store.ratings.provisional(25.0) == {"alice"}


def test_repeating_what_was_solved_gains_nothing(stores: Any) -> None:
    with stores(0) as store:
        store.challenges.publish(
            Challenge(
                name="sums",
                title="Sums",
                goal="Add.",
                version="1",
                difficulty="newcomer",
                evaluator=Evaluator(type="reported"),
                scoring=ScoringRule(formula="tokens_total"),
            ),
            b"",
            at=0.0,
        )
        play(store, "alice", "won", 10.0)
        once = store.ratings.of("alice"), store.ratings.pairs()
        for number in range(5):
            play(store, "alice", "won", 100.0 * (number + 1))
        assert (store.ratings.of("alice"), store.ratings.pairs()) == once


def test_who_walks_away_has_lost_whoever_comes_next(empty_url: str, tmp_path: Path) -> None:
    (tmp_path / "challenge.yaml").write_text(
        "name: sums\ntime_limit: 60\nevaluator: {type: deterministic, truth: truth.json,"
        " fields: {sum: exact_match}}\nscoring: {dimensions: {correctness: 0.9, speed: 0.1}}\n"
    )
    (tmp_path / "truth.json").write_text('{"sum": 42}')
    now = 1000.0
    with quick_store(empty_url) as store:
        games = Competition(store, clock=lambda: now)
        games.publish(tmp_path)
        games.enter("sums", "alice")
        now += 61
        assert store.ratings.provisional(now) == {"alice"}
        entry = games.enter("sums", "bob")
        assert store.ratings.of("alice").losses == 1
        games.enter("sums", "alice")
        now += 61
        assert store.attempts.get(entry.attempt.id).state == "entered"
        with pytest.raises(InvalidInput, match="expired at"):
            games.submit(entry.attempt.id, "bob", {"sum": 42})
        games.enter("sums", "charlie")
        assert (store.ratings.of("alice").losses, store.ratings.provisional(now)) == (2, set())
        games.close()

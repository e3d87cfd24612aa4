"""Challenges that are played in a store and rescored, for tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from tallymark.challenges.attempt import Attempt, Evaluation, Metrics, Outcome, Payload
from tallymark.challenges.attempt_scores import score_attempt
from tallymark.challenges.challenge import Challenge, DimensionWeight, Evaluator, ScoringRule
from tallymark.challenges.rescore_plan import RescorePlan, change_scoring
from tallymark.scoring import Score
from tallymark.store import Store

START = 1_700_000_000.0
DIMENSIONS = (
    DimensionWeight(key="correctness", weight=0.75),
    DimensionWeight(key="completeness", weight=0.25),
)


def challenge(formula: str | None = "1000 - tokens_total", **changes: Any) -> Challenge:
    facts: dict[str, Any] = {
        "name": "sums",
        "title": "Sums",
        "goal": "Add.",
        "version": "1",
        "rated": "every",
        "evaluator": Evaluator(type="reported", options={"metrics": ("x",)}),
        "scoring": ScoringRule(formula=formula),
    }
    return Challenge(**(facts | changes))


@dataclass(frozen=True)
class Play:
    """One attempt that an agent makes."""

    agent: str
    metrics: Metrics
    dimensions: tuple[tuple[str, float], ...] = ()

    @property
    def evaluation(self) -> Evaluation:
        return Evaluation(metrics=self.metrics, dimensions=dict(self.dimensions))


def play(agent: str, tokens: int | None = 100, **metrics: Any) -> Play:
    return Play(agent, Metrics(**{"succeeded": True, "tokens_total": tokens, **metrics}))


def submitted(store: Store, given: Play, at: float) -> Attempt:
    return store.attempts.report("sums", given.agent, Payload(), given.metrics, at=at)


def finished(store: Store, attempt: Attempt, given: Play, plugin: Any = None) -> Attempt:
    """Scored by the rule of now."""
    outcome = score_attempt(
        store.challenges.get("sums"), given.evaluation, attempt=attempt, plugin=plugin
    )
    at = (attempt.submitted_at or 0.0) + 1
    assert store.attempts.finish(attempt.id, given.evaluation, outcome, at=at, verified=False)
    return store.attempts.get(attempt.id)


def played(store: Store, plays: list[Play], at: float = START, plugin: Any = None) -> list[Attempt]:
    """The attempts, one after the other, a minute each."""
    done = []
    for minute, given in enumerate(plays):
        attempt = submitted(store, given, at + 60 * minute)
        done.append(finished(store, attempt, given, plugin))
    return done


def plan(store: Store, **changes: Any) -> RescorePlan:
    """To another formula, plugin, config or strategy."""
    old = store.challenges.get("sums")
    plugin = changes.pop("loaded", None)
    return RescorePlan.of(old, change_scoring(old, **changes), plugin=plugin)


def board(store: Store, **how: Any) -> list[tuple[Any, ...]]:
    """All of it but the ids, which differ from store to store."""
    rows = store.boards.top("sums", limit=1000, **how)
    return [(r.rank, r.agent, r.value, r.score, r.submitted_at, r.tries) for r in rows]


def outcomes(store: Store) -> list[tuple[Any, ...]]:
    """Every attempt with its outcome; the rule's origin without what no two stores share."""
    found = []
    for each in reversed(store.attempts.of("sums", limit=None)):
        assert each.outcome is not None
        bare = msgspec.structs.replace(each.outcome, origin=None)
        last = store.attempts.history(each.id)[-1]
        assert (last.score, last.result, last.error) == (bare.score, bare.result, bare.error)
        found.append((each.agent, each.number, each.state, bare))
    return found


def state(store: Store) -> Any:
    """All that rescoring could touch."""
    ids = [each.id for each in store.attempts.of("sums", limit=None)]
    return (
        store.challenges.find("sums"),
        board(store),
        board(store, as_frozen=False),
        outcomes(store),
        [store.attempts.history(each) for each in ids],
        [store.attempts.audit(each) for each in ids],
        store.challenges.audit("sums"),
        store.ratings.elo(),
        list(store.ratings.matches()),
    )


class Halves:
    """A plugin that gives half the tokens, and fails on odd ones."""

    kind = "built-in"
    name = "halves"
    code_hash = "abc"

    def __init__(self) -> None:
        self.calls = 0

    def score(self, metrics: Any, config: Any, ctx: Any, timeout_s: float = 5.0) -> Score:
        self.calls += 1
        tokens = metrics["tokens_total"]
        if tokens % 2:
            return Score.failed("odd")
        return Score(tokens / 2 * config.get("times", 1), metadata={"half": tokens / 2})

    def score_many(
        self, attempts: Any, config: Any, ctx: Any, timeout_s: float = 5.0, users: Any = None
    ) -> list[Score]:
        return [self.score(each, config, ctx, timeout_s) for each in attempts]


def outcome_of(attempt: Attempt) -> Outcome:
    assert attempt.outcome is not None
    return attempt.outcome

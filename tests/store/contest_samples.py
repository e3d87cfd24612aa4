"""Challenges and attempts to store, and short ways to play them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from tallymark.challenges.attempt import Attempt, Evaluation, Metrics, Outcome, Payload
from tallymark.challenges.challenge import Challenge, Evaluator, ScoringRule
from tallymark.scoring import Origin
from tallymark.store import Store, open_store

DAY = 86_400.0
ORIGIN = Origin("formula", "v1", {"formula": "tokens_total"})
FULL_OUTCOME = Outcome(
    score=812.5,
    result="win",
    ranks=True,
    metrics=Metrics(
        succeeded=True,
        tokens_total=1200,
        elapsed_ms=2**40,
        rating=7.5,
        created_at=1_700_000_000_123,
        cost=0.25,
        calls=9,
        more={"lines": 12.0, "unknown": None},
    ),
    dimensions={"correctness": 900.0, "speed": 612.5},
    details={"score_breakdown": {"correctness": {"score": 900}}, "odd": "nul \0"},
    error=None,
    origin=ORIGIN,
)
PAYLOAD = Payload(
    submission={"answer": [1, None, "zwölf", 2**70], "odd": "nul \0"},
    metadata={"tokens": 1200},
    trajectory='[{"name": "call"}]',
)


@contextmanager
def quick_store(url: str, tenant: str = "default") -> Iterator[Store]:
    """A store that waits for no disk (tests do not cut the power), but long for others."""
    with open_store(url, tenant=tenant, patience=300.0) as store:
        if url.startswith("sqlite"):
            event.listen(
                store._database.engine,
                "connect",
                lambda connection, _: connection.execute("PRAGMA synchronous = OFF"),
            )
            store._database.engine.dispose()
        yield store


def a_challenge(**fields: Any) -> Challenge:
    """A challenge with little in it, called `sums`."""
    plain: dict[str, Any] = {"name": "sums", "title": "Sums", "goal": "Add up.", "version": "v1"}
    plain["rated"] = "every"
    return Challenge(**{**plain, "evaluator": Evaluator(type="reported"), **fields})


def by(strategy: Any, **fields: Any) -> Challenge:
    """A challenge whose board is ordered by a strategy."""
    return a_challenge(scoring=ScoringRule(strategy=strategy), **fields)


def an_outcome(score: float | None = 1.0, **fields: Any) -> Outcome:
    """An outcome that ranks, and is a win."""
    return Outcome(**{"score": score, "result": "win", "ranks": True, **fields})


def submitted(store: Store, agent: str = "alice", at: float = 10.0, **fields: Any) -> Attempt:
    """An attempt that waits to be scored."""
    entered = store.attempts.enter("sums", agent, at=at, seed=1, **fields)
    return store.attempts.submit(entered.id, agent, Payload(submission=agent), at=at)


def finish(store: Store, attempt: Attempt, outcome: Outcome, at: float = 20.0) -> bool:
    """Scores an attempt, which is not verified."""
    return store.attempts.finish(attempt.id, Evaluation(), outcome, at=at, verified=False)


def play(store: Store, agent: str, outcome: Outcome, at: float = 10.0) -> Attempt:
    """An attempt entered, submitted and scored at once."""
    attempt = submitted(store, agent, at)
    assert finish(store, attempt, outcome, at)
    return store.attempts.get(attempt.id)


def scored(agent: str, outcome: Outcome, at: float = 10.0, **fields: Any) -> Attempt:
    """An attempt to be loaded."""
    plain = {"id": "", "challenge": "sums", "version": "v1", "number": 0, "state": "scored"}
    plain |= {"seed": 3, "entered_at": at, "expires_at": at + 60, "submitted_at": at}
    return Attempt(**{**plain, "agent": agent, "outcome": outcome, **fields})


def agents(store: Store, **options: Any) -> list[str]:
    """Who is on the board, best first."""
    return [each.agent for each in store.boards.top("sums", **options)]

"""Judged results that nobody has scored are found; what only looks judged is not."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from tests.store.contest_samples import quick_store

from tallymark.judging.spending import JudgeSpending
from tallymark.runs.record import CaseResult, CheckResult, RunRecord
from tallymark.runs.reviews import CaseKey, GivenScore
from tallymark.store import Store

JUDGED = CheckResult(
    kind="scorer", name="tone", passed=True, judge=JudgeSpending("m", 1, 1, 1, 0.0)
)
TALK = 'it said {"judge":{"asked":1}, "kind":"llm_judge"}'


@pytest.fixture
def store(shared_url: str) -> Iterator[Store]:
    """With a judged run, one that talks of judges, and an older judged one."""
    with quick_store(shared_url, uuid.uuid4().hex) as opened:
        for at, (run, checks) in enumerate(
            (("old", (JUDGED,)), ("judged", (JUDGED,)), ("plain", ()))
        ):
            record = RunRecord(id=run, suite="s", model="m", status="completed", created_at=at)
            opened.create_run(record)
            results = [
                CaseResult(case=name, status="passed", output=TALK, checks=checks)
                for name in ("a", "b")
            ]
            opened.add_results(run, [*results, CaseResult(case="c", status="error", output=TALK)])
        yield opened


def test_runs_with_judges_are_found_newest_first(store: Store) -> None:
    assert store.reviews.judged_runs() == ["judged", "old"]
    assert store.reviews.judged_runs(limit=1) == ["judged"]
    assert store.reviews.judged_runs(suite="another") == []


def test_what_somebody_has_scored_is_seen_and_a_comment_is_no_score(store: Store) -> None:
    assert store.reviews.unseen("judged", 9) == [("a", 0), ("b", 0)]
    store.reviews.give(CaseKey("judged", "a"), "alice", GivenScore(comment="hm"), at=1.0)
    assert store.reviews.unseen("judged", 1) == [("a", 0)]
    given, _ = store.reviews.give(CaseKey("judged", "a"), "alice", GivenScore(value=1), at=2.0)
    assert store.reviews.unseen("judged", 9) == [("b", 0)]
    assert store.reviews.unseen("old", 9) == [("a", 0), ("b", 0)]
    store.reviews.withdraw(given.id, "alice", at=3.0)
    assert store.reviews.unseen("judged", 9) == [("a", 0), ("b", 0)]

"""Answers of judges are kept once, for their tenant, as they were."""

from __future__ import annotations

from typing import Any

from tests.store.contest_samples import quick_store

from tallymark.judging.judge_dialogue import JudgeAnswer
from tallymark.store import Store

ODD = JudgeAnswer('{"reason": "nul \0, zwölf", "rating": 8}', "tiny")


def test_the_first_answer_stands(contest: Store) -> None:
    assert contest.judge_answers.find("q") is None
    assert contest.judge_answers.keep("q", ODD) == ODD
    assert contest.judge_answers.keep("q", JudgeAnswer("other", None)) == ODD
    assert contest.judge_answers.find("q") == ODD


def test_answers_are_their_tenants_own(contest: Store, shared_url: Any) -> None:
    contest.judge_answers.keep("q", ODD)
    with quick_store(shared_url, "somebody-else") as other:
        assert other.judge_answers.find("q") is None

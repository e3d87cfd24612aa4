"""Scores of traces: once for each version of trace and rule, and which one counts."""

from __future__ import annotations

import msgspec
import pytest
from tests.store.traces.conftest import Keeper
from tests.traces.otlp_samples import START, span

from tallymark.store.traces.rules import RuleDefinition
from tallymark.store.traces.trace_scores import PERSON, StoredScore
from tallymark.traces.trace_query import parse_query


@pytest.fixture
def score(keeper: Keeper) -> StoredScore:
    keeper.send(span())
    keeper.settle()
    key = keeper.store.traces.get(f"{1:032x}").key
    return StoredScore(
        trace=key,
        version=1,
        rule=7,
        rule_version=1,
        name="polite",
        value=0.5,
        at=1.0,
        started_at=START,
    )


def current(keeper: Keeper, key: int) -> list[tuple[int, int, float | None]]:
    found = keeper.store.traces.scores([key])[key]
    return [(each.version, each.rule_version, each.value) for each in found]


def change(score: StoredScore, **fields: object) -> StoredScore:
    return msgspec.structs.replace(score, **fields)


def test_a_version_is_scored_once_by_each_version_of_a_rule(
    keeper: Keeper, score: StoredScore
) -> None:
    assert keeper.store.traces.put_scores([score]) == 1
    assert keeper.store.traces.put_scores([change(score, value=0.9)]) == 0
    assert current(keeper, score.trace) == [(1, 1, 0.5)]


def test_the_newest_version_counts_and_the_old_ones_stay(
    keeper: Keeper, score: StoredScore
) -> None:
    newer = change(score, rule_version=2, value=0.8)
    keeper.store.traces.put_scores([score])
    keeper.store.traces.put_scores([newer])
    assert current(keeper, score.trace) == [(1, 2, 0.8)]
    every = keeper.store.traces.scores([score.trace], all_of_them=True)[score.trace]
    assert [(each.value, each.is_current) for each in every] == [(0.5, False), (0.8, True)]


def test_a_late_score_of_an_old_version_does_not_take_over(
    keeper: Keeper, score: StoredScore
) -> None:
    keeper.store.traces.put_scores([change(score, version=2, value=0.8)])
    assert keeper.store.traces.put_scores([score]) == 1
    assert current(keeper, score.trace) == [(2, 1, 0.8)]


def test_people_correct_their_own_and_stand_beside_rules(
    keeper: Keeper, score: StoredScore
) -> None:
    own = change(score, rule=0, rule_version=0, author="ann", value=0.1, reason="rude")
    keeper.store.traces.put_scores([score])
    keeper.store.traces.put_scores([own], correct=True)
    keeper.store.traces.put_scores(
        [change(own, value=0.3, metadata={"expected": "x"})], correct=True
    )
    assert sorted(current(keeper, score.trace)) == [(1, 0, 0.3), (1, 1, 0.5)]
    assert keeper.ids("people.polite<0.4") == [1]


def test_a_failure_is_a_score_without_a_value(keeper: Keeper, score: StoredScore) -> None:
    keeper.store.traces.put_scores([change(score, value=None, error="the judge was away")])
    assert keeper.ids("score.polite:none") == [1]


def test_what_people_gave_is_asked_for_apart_from_what_rules_did(
    keeper: Keeper, score: StoredScore
) -> None:
    traces = keeper.store.traces
    own = change(score, rule=PERSON, rule_version=PERSON, value=0.1)
    traces.put_scores([score, *(change(own, author=each) for each in ("alice", "bob"))])
    traces.put_scores([change(own, author="alice", name="kind")])
    assert traces.score_names() == ["score.polite", "people.kind", "people.polite"]
    sums = traces.sums(parse_query("", now=START))
    assert (sums.whole("score.polite").mean, sums.whole("score.polite").measured) == (0.5, 1)
    assert (sums.whole("people.polite").mean, sums.whole("people.polite").measured) == (0.1, 2)
    fits = [
        text
        for text in ("score.polite<0.2", "people.polite<0.2", "score.kind:any", "people.kind:any")
        if traces.page(parse_query(text, now=START)).items
    ]
    assert fits == ["people.polite<0.2", "people.kind:any"]
    traces.put_scores([change(own, author="bob", value=0.3)], correct=True)
    everything = parse_query("", now=START)
    worst = [traces.worst(name, everything) for name in ("polite", "people.polite")]
    assert [[each.value for each in some] for some in worst] == [[0.5], [0.2]]


def test_a_rule_with_the_name_of_an_archived_one_has_it_alone(
    keeper: Keeper, score: StoredScore
) -> None:
    traces, rules = keeper.store.traces, keeper.store.rules
    old = rules.add("polite", RuleDefinition(scorer="answered"), owner="ann", at=1.0)
    mine = change(score, rule=old.id, rule_version=old.version_id, value=0.2)
    traces.put_scores([mine, change(mine, name="polite.tone")])
    rules.set_state("polite", "deleted", at=2.0)
    everything = parse_query("", now=START)
    assert traces.sums(everything).whole("score.polite").mean == 0.2
    assert traces.score_names() == ["score.polite", "score.polite.tone"]
    new = rules.add("polite", RuleDefinition(formula="cost"), owner="ann", at=3.0)
    assert traces.sums(everything).whole("score.polite").measured == 0
    traces.put_scores([change(score, rule=new.id, rule_version=new.version_id, value=0.8)])
    assert traces.sums(everything).whole("score.polite").mean == 0.8
    assert [each.value for each in traces.worst("polite", everything)] == [0.8]
    assert traces.score_names() == ["score.polite"]
    assert keeper.ids("score.polite<0.5") == keeper.ids("score.polite.tone:any") == []
    assert keeper.ids("score.polite>0.5") == [1]
    assert current(keeper, score.trace) == [(1, new.version_id, 0.8)]
    every = traces.scores([score.trace], all_of_them=True)[score.trace]
    assert [(each.value, each.is_current) for each in every if each.name == "polite"] == [
        (0.2, False),
        (0.8, True),
    ]

"""Rescoring: by any rule, as if it had been the rule from the start."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.effort import SHARED_FIXTURE, examples
from tests.formula.random_formulas import trees
from tests.store.contests.rescoring_games import (
    DIMENSIONS,
    START,
    Halves,
    Play,
    board,
    challenge,
    finished,
    outcome_of,
    outcomes,
    plan,
    play,
    played,
    state,
    submitted,
)

from tallymark.challenges.attempt import Evaluation, Metrics
from tallymark.challenges.attempt_formula import formula_names
from tallymark.challenges.challenge import ScoringRule
from tallymark.challenges.rescore_plan import RescorePlan, change_scoring
from tallymark.errors import FormulaError, WorkFailed
from tallymark.formula.tree import Node, to_text
from tallymark.store import Store, open_store
from tallymark.store.contests import plugin_quarantine

LATER = START + 1_000_000
_tenants = itertools.count()


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One database for all tests of this file, which are tenants of it: making one takes long."""
    if request.param == "postgresql":
        yield request.getfixturevalue("postgres").furnished()
    else:
        yield str(tmp_path_factory.mktemp("rescoring") / "tally.db")


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with open_store(url, tenant=f"t{next(_tenants)}") as opened:
        opened.challenges.publish(challenge(), b"files", at=START)
        yield opened


PLAYS = [play("alice", 500), play("bob", 100), play("carol", 300), play("alice", 200)]


def test_the_new_rule_scores_all_and_orders_the_board(store: Store) -> None:
    played(store, PLAYS)
    done = store.rescorings.apply(plan(store, formula="tokens_total / 2"), at=LATER)
    assert (done.attempts, done.changed, done.undefined) == (4, 4, 0)
    assert [(r[1], r[3]) for r in board(store)] == [("alice", 250), ("carol", 150), ("bob", 50)]
    assert store.challenges.get("sums").scoring.formula == "tokens_total / 2"


def test_old_scores_stay_in_the_history_with_their_rules(store: Store) -> None:
    attempt = played(store, PLAYS)[0]
    store.rescorings.apply(plan(store, formula="tokens_total / 2"), at=LATER)
    store.rescorings.apply(plan(store, formula="tokens_total"), at=LATER + 1)
    entries = store.attempts.history(attempt.id)
    assert [(each.at, each.score) for each in entries[1:]] == [(LATER, 250), (LATER + 1, 500)]
    assert entries[0].score == 500
    assert len({each.origin and each.origin.version for each in entries}) == 3


def test_a_score_that_stays_the_same_has_no_second_entry(store: Store) -> None:
    changed, kept = played(store, PLAYS)[:2]
    done = store.rescorings.apply(plan(store, formula="max(1000 - tokens_total, 600)"), at=LATER)
    assert done.changed == 1
    assert [len(store.attempts.history(each.id)) for each in (changed, kept)] == [2, 1]


def test_later_attempts_are_scored_by_the_new_rule(store: Store) -> None:
    played(store, PLAYS)
    store.rescorings.apply(plan(store, formula="tokens_total / 2"), at=LATER)
    assert outcome_of(played(store, [play("dave", 8)], at=LATER)[0]).score == 4


def test_undefined_scores_say_why_and_rank_last(store: Store) -> None:
    attempts = played(store, [*PLAYS, play("dave", 0)])
    done = store.rescorings.apply(plan(store, formula="1000 / tokens_total"), at=LATER)
    assert [(each.agent, each.reason) for each in done.reasons] == [
        ("dave", "the formula has no value: division by zero: tokens_total is 0")
    ]
    assert done.undefined == 1
    dave = store.attempts.get(attempts[-1].id)
    assert (dave.state, outcome_of(dave).score, outcome_of(dave).result) == ("failed", None, None)
    assert store.attempts.audit(dave.id)[-1].event == "rescored"
    assert board(store)[-1][1] == "dave"
    assert store.ratings.elo(limit=9) != []


def test_an_undefined_score_can_be_a_number(store: Store) -> None:
    dave = played(store, [play("dave", 0)])[0]
    rule = {"formula": "1000 / tokens_total", "config": {"undefined": 7}}
    done = store.rescorings.apply(plan(store, **rule), at=LATER)
    assert done.undefined == 0
    outcome = outcome_of(store.attempts.get(dave.id))
    assert (outcome.score, outcome.details["scorer"]["undefined"][:16]) == (7, "division by zero")


def test_a_failed_attempt_is_scored_when_the_rule_allows(store: Store) -> None:
    attempt = played(store, [play("alice", None)])[0]
    assert attempt.state == "failed"
    store.rescorings.apply(plan(store, formula="if(succeeded, 5, tokens_total)"), at=LATER)
    again = store.attempts.get(attempt.id)
    assert (again.state, outcome_of(again).score, outcome_of(again).result) == ("scored", 5, "win")
    assert [match.result for match in store.ratings.matches()] == ["win"]


@pytest.mark.parametrize("formula", ["cost * cost", "exp(cost)", "1e300 * cost / cost"])
def test_what_leaves_the_range_of_numbers_is_undefined(store: Store, formula: str) -> None:
    played(store, [play("alice", cost=1e200), play("bob", cost=2.0)])
    done = store.rescorings.apply(plan(store, formula=formula), at=LATER)
    assert [each.agent for each in done.reasons] == ["alice"]
    assert board(store)[0][1] == "bob"


def test_a_plugin_scores_all(store: Store) -> None:
    attempts = played(store, [*PLAYS, play("dave", 3)])
    done = store.rescorings.apply(
        plan(store, plugin="halves:Halves", config={"times": 4}, loaded=Halves()), at=LATER
    )
    assert (done.attempts, done.changed, done.undefined) == (5, 5, 1)
    assert [(r[1], r[3]) for r in board(store)][:2] == [("alice", 1000), ("carol", 600)]
    outcome = outcome_of(store.attempts.get(attempts[0].id))
    assert outcome.details["scorer"] == {"half": 250.0}
    assert outcome.origin is not None
    assert (outcome.origin.scorer, outcome.origin.version) == ("halves", "abc")


def test_another_strategy_is_another_order(store: Store) -> None:
    played(store, PLAYS)
    store.rescorings.apply(plan(store, formula=None, strategy="fewest_tokens"), at=LATER)
    assert [r[1] for r in board(store)] == ["bob", "alice", "carol"]


def test_submissions_are_evaluated_again_when_the_judge_changed(store: Store) -> None:
    old = challenge(version="2", evaluator=msgspec_evaluator("deterministic"))
    store.challenges.publish(old, b"files", at=START)
    attempt = played(store, PLAYS)[0]
    new = change_scoring(old, formula="tokens_total")
    seen = []

    def evaluate(attempt: Any) -> Evaluation:
        seen.append(attempt.id)
        return Evaluation(metrics=Metrics(succeeded=True, tokens_total=len(seen)))

    again = RescorePlan.of(old, new, packed=b"other files", evaluate=evaluate)
    assert again.need == "evaluate"
    store.rescorings.apply(again, at=LATER)
    assert len(seen) == 4
    assert outcome_of(store.attempts.get(attempt.id)).score == 1
    assert store.attempts.evaluation(attempt.id) == Evaluation(
        metrics=Metrics(succeeded=True, tokens_total=1)
    )
    assert store.challenges.packed("sums", new.version) == b"other files"


def msgspec_evaluator(kind: Any) -> Any:
    from tallymark.challenges.challenge import Evaluator

    return Evaluator(type=kind, options={})


CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("formula", {"formula": "tokens_total * 3"}),
    ("undefined", {"formula": "600 / (tokens_total - 100)"}),
    ("plugin", {"plugin": "halves:Halves", "loaded": Halves()}),
    ("strategy", {"strategy": "fewest_tokens"}),
    ("logarithm", {"formula": "log2(tokens_total + 1)"}),
]


@pytest.mark.parametrize("rule", [rule for _, rule in CHANGES], ids=[name for name, _ in CHANGES])
def test_rescorings_follow_each_other(store: Store, rule: dict[str, Any]) -> None:
    """Whatever comes after formulas finds their scores, and keeps them in the history."""
    alice = played(store, PLAYS)[0]
    for factor in (2, 5):
        store.rescorings.apply(plan(store, formula=f"tokens_total * {factor}"), at=LATER + factor)
    assert outcome_of(store.attempts.get(alice.id)).score == 2500
    store.rescorings.apply(plan(store, **rule), at=LATER + 9)
    scores = [each.score for each in store.attempts.history(alice.id)]
    assert scores[:3] == [500, 1000, 2500]
    assert scores[-1] == outcome_of(store.attempts.get(alice.id)).score
    ranks = {row[1]: row[3] for row in board(store)}
    assert ranks["alice"] in [outcome_of(each).score for each in store.attempts.of("sums")]


def test_attempts_loaded_after_a_formula_stand_beside_those_before(store: Store) -> None:
    played(store, PLAYS)
    store.rescorings.apply(plan(store, formula="tokens_total * 2"), at=LATER)
    elsewhere = msgspec.structs.replace(
        played(store, [play("erin", 700)], at=LATER)[0], agent="fay"
    )
    store.attempts.load("sums", [elsewhere], at=LATER + 1)
    assert [(row[1], row[3]) for row in board(store)] == [
        ("erin", 1400),
        ("fay", 1400),
        ("alice", 1000),
        ("carol", 600),
        ("bob", 200),
    ]


@pytest.mark.parametrize("levels", [1, 5, 9, 13, 17])
def test_formulas_as_deep_as_can_be_said(store: Store, levels: int) -> None:
    played(store, PLAYS)
    deep = "max(1, 2 * " * levels + "tokens_total" + ")" * levels
    for factor in (1, 2):
        store.rescorings.apply(plan(store, formula=f"{factor} * {deep}"), at=LATER)
        assert board(store)[0][3] == factor * 2**levels * 500


def test_what_is_finished_while_a_plugin_runs_is_scored_too(store: Store) -> None:
    played(store, PLAYS)
    late = submitted(store, play("aaron", 40), at=START + 600)

    class Slow(Halves):
        def score_many(self, *given: Any) -> list[Any]:
            if store.attempts.get(late.id).state == "submitted":
                finished(store, late, play("aaron", 40))
            return super().score_many(*given)

    plugin = Slow()
    plugin_plan = plan(store, plugin="halves:Halves", loaded=plugin)
    done = store.rescorings.apply(plugin_plan, at=LATER)
    assert done.attempts == 5
    assert outcome_of(store.attempts.get(late.id)).score == 20


RULES: list[dict[str, Any]] = [
    {"formula": "tokens_total / 2"},
    {"formula": "1000 / (tokens_total - 100)"},
    {"plugin": "halves:Halves", "loaded": Halves()},
]


@pytest.mark.parametrize("rule", RULES, ids=["formula", "undefined", "plugin"])
def test_a_preview_tells_what_applying_does_and_changes_nothing(
    store: Store, rule: dict[str, Any]
) -> None:
    played(store, PLAYS)
    before = state(store)
    preview = store.rescorings.preview(plan(store, **rule), at=LATER)
    assert state(store) == before
    old = {row[1]: row[0] for row in board(store)}
    done = store.rescorings.apply(plan(store, **rule), at=LATER)
    new = {row[1]: row[0] for row in board(store)}
    assert preview.attempts == done.attempts == 4
    assert done.changed == preview.changed
    assert (preview.undefined, preview.reasons) == (done.undefined, done.reasons)
    moved = {agent for agent in old | new if old.get(agent) != new.get(agent)}
    assert {move.agent for move in preview.moves} == moved
    assert preview.moved == len(moved) > 0


def test_a_rescoring_that_ends_early_changes_nothing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores, history and board are written by then."""
    played(store, PLAYS)
    before = state(store)

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(plugin_quarantine, "replace_counts", end)
    with pytest.raises(KeyboardInterrupt):
        store.rescorings.apply(plan(store, formula="tokens_total / 2"), at=LATER)
    assert state(store) == before


def test_numbers_beside_a_name_that_no_database_takes(store: Store) -> None:
    """PostgreSQL refuses to read JSON with a NUL character."""
    played(store, [play("alice", more={"x": 4.0, "a\0b": 1.0}), play("bob", more={"x": 3.0})])
    done = store.rescorings.apply(plan(store, formula="x * 10"), at=LATER)
    assert (done.changed, done.undefined) == (2, 0)
    assert [(row[1], row[3]) for row in board(store)] == [("alice", 40.0), ("bob", 30.0)]


def test_a_preview_explains_each_term(store: Store) -> None:
    played(store, PLAYS)
    rule = "tokens_total * 2 - 100 * succeeded"
    preview = store.rescorings.preview(plan(store, formula=rule), at=LATER)
    move = next(each for each in preview.moves if each.agent == "alice")
    assert move.before is not None
    assert move.after is not None
    assert (move.before.rank, move.after.rank) == (2, 1)
    assert move.before.terms == {"1000": 1000, "-tokens_total": -200}
    assert move.after.terms == {"tokens_total * 2": 1000, "-100 * succeeded": -100}
    assert move.after.score == 900


def test_a_preview_shows_so_many_and_counts_all(store: Store) -> None:
    played(store, PLAYS)
    rule = plan(store, formula="1 / (tokens_total - tokens_total)")
    preview = store.rescorings.preview(rule, at=LATER, most=2)
    assert (len(preview.reasons), preview.undefined) == (2, 4)


def test_a_frozen_board_does_not_move(store: Store) -> None:
    frozen = challenge(version="2", freezes_at=START + 500_000)
    store.challenges.publish(frozen, b"files", at=START)
    played(store, PLAYS)
    before = board(store)
    store.rescorings.apply(plan(store, formula="tokens_total / 2"), at=LATER)
    assert board(store) == before
    assert board(store, as_frozen=False) != before


def test_ratings_follow_results_that_changed(store: Store) -> None:
    store.challenges.publish(
        challenge(version="2", scoring=ScoringRule(dimensions=DIMENSIONS)), b"files", at=START
    )
    played(store, [dims_play("alice", 1000, 0), dims_play("bob", 500, 1000)])
    assert [match.result for match in store.ratings.matches()] == ["win", "draw"]
    swapped = tuple(type(each)(key=each.key, weight=1 - each.weight) for each in DIMENSIONS)
    store.rescorings.apply(plan(store, dimensions=swapped), at=LATER)
    assert [match.result for match in store.ratings.matches()] == ["loss", "win"]
    assert store.ratings.elo() == sorted(store.ratings.elo(), key=lambda pair: -pair[1].rating)
    assert store.ratings.elo()[0][0] == "bob"


def dims_play(agent: str, correctness: float, completeness: float) -> Play:
    parts = (("correctness", correctness), ("completeness", completeness))
    return Play(agent, Metrics(succeeded=True, tokens_total=1), parts)


def test_a_plan_for_a_version_that_is_gone_is_refused(store: Store) -> None:
    played(store, PLAYS)
    first, second = (plan(store, formula=f"tokens_total * {n}") for n in (2, 3))
    store.rescorings.apply(first, at=LATER)
    with pytest.raises(WorkFailed, match="'sums' was changed meanwhile"):
        store.rescorings.apply(second, at=LATER)
    assert board(store)[0][3] == 1000


def test_an_attempt_scored_by_the_old_rule_is_refused(store: Store) -> None:
    given_play = play("alice", 10)
    attempt = submitted(store, given_play, at=START)
    stored = store.challenges.find("sums")
    store.rescorings.apply(plan(store, formula="tokens_total"), at=LATER)
    old = Evaluation(metrics=given_play.metrics)
    with pytest.raises(WorkFailed, match="changed while attempt"):
        store.attempts.finish(
            attempt.id,
            old,
            outcome_of(finished_elsewhere(store)),
            at=LATER,
            verified=False,
            scored_by=stored,
        )


def finished_elsewhere(store: Store) -> Any:
    return played(store, [play("bob", 5)], at=START + 60)[0]


def test_racing_attempts_are_all_scored_by_the_new_rule(store: Store, url: str) -> None:
    plays = [play(f"agent-{n:02}", n + 1) for n in range(24)]
    attempts = [submitted(store, each, START + n) for n, each in enumerate(plays)]
    played(store, [play("zoe", 7)], at=START + 500)
    begin = threading.Barrier(5)
    wrong: list[BaseException] = []

    def finish(some: list[int]) -> None:
        try:
            with open_store(url, tenant=store.tenant) as mine:
                begin.wait()
                for n in some:
                    while not _finished(mine, attempts[n], plays[n]):
                        pass
        except BaseException as error:  # noqa: BLE001  raised in the test's own thread
            wrong.append(error)

    threads = [threading.Thread(target=finish, args=(list(range(n, 24, 4)),)) for n in range(4)]
    for thread in threads:
        thread.start()
    begin.wait()
    store.rescorings.apply(plan(store, formula="tokens_total * 10"), at=LATER)
    for thread in threads:
        thread.join(60)
    assert wrong == []
    scores = {each.agent: outcome_of(each).score for each in store.attempts.of("sums")}
    assert scores == {f"agent-{n:02}": (n + 1) * 10 for n in range(24)} | {"zoe": 70}
    assert [row[1] for row in board(store)][:2] == ["agent-23", "agent-22"]


def _finished(store: Store, attempt: Any, given_play: Play) -> bool:
    """False when the rule changed since it was read."""
    from tallymark.challenges.attempt_scores import score_attempt

    stored = store.challenges.find("sums")
    outcome = score_attempt(stored.challenge, given_play.evaluation, attempt=attempt)
    facts: dict[str, Any] = {"at": LATER, "verified": False, "scored_by": stored}
    try:
        return store.attempts.finish(attempt.id, given_play.evaluation, outcome, **facts)
    except WorkFailed:
        return False


# Laws

whole = st.one_of(st.none(), st.integers(0, 2000), st.sampled_from([2**53 + 1, 2**62]))
real = st.one_of(
    st.none(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, 0.1, 1e-320, 1e308]),
)
metrics = st.builds(
    Metrics,
    succeeded=st.booleans(),
    tokens_total=whole,
    elapsed_ms=whole,
    rating=real,
    cost=real,
    calls=whole,
    more=st.fixed_dictionaries({}, optional={"x": real}),
)
raw = st.one_of(st.integers(0, 1000).map(float), st.floats(0, 1000))
plain = st.builds(Play, st.sampled_from(["alice", "bob", "carol"]), metrics)
dimensional = st.builds(
    lambda each, one, two: Play(
        each.agent, each.metrics, (("correctness", one), ("completeness", two))
    ),
    plain,
    raw,
    raw,
)
NAMES = formula_names(("correctness", "completeness"), ("x",))


@settings(
    max_examples=examples(12, 4),
    deadline=None,
    suppress_health_check=SHARED_FIXTURE,
)
@given(
    st.booleans(),
    st.lists(trees(NAMES), min_size=2, max_size=2),
    st.lists(dimensional, min_size=1, max_size=6),
    st.integers(0, 6),
)
def test_rescoring_equals_scoring_from_scratch(
    url: str, weighed: bool, rules: list[Node], plays: list[Play], early: int
) -> None:
    dimensions = DIMENSIONS if weighed else ()
    try:
        first = challenge(None, scoring=ScoringRule(dimensions=dimensions))
        first = change_scoring(first, formula=to_text(rules[0]))
        second = change_scoring(first, formula=to_text(rules[1]))
    except (FormulaError, ValueError):
        assume(False)
    except Exception as error:  # the same rule twice
        assume("already" not in str(error))
        raise
    with (
        open_store(url, tenant=f"t{next(_tenants)}") as rescored,
        open_store(url, tenant=f"t{next(_tenants)}") as scratch,
    ):
        rescored.challenges.publish(first, b"", at=START)
        played(rescored, plays[:early])
        rescored.rescorings.apply(RescorePlan.of(first, second), at=LATER)
        played(rescored, plays[early:], at=START + 60 * len(plays[:early]))
        scratch.challenges.publish(second, b"", at=START)
        played(scratch, plays)
        assert board(rescored) == board(scratch)
        assert outcomes(rescored) == outcomes(scratch)
        assert rescored.ratings.pairs() == scratch.ratings.pairs()
        assert rescored.ratings.elo() == scratch.ratings.elo()
        assert list(rescored.ratings.matches()) == list(scratch.ratings.matches())

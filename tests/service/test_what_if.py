"""What-if: by a challenge's own rule it is the board, and it tells nothing that the board hides."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import SHARED_FIXTURE, examples
from tests.store.contest_samples import a_challenge, scored, submitted

from tallymark.challenges.attempt import Attempt, Evaluation, Metrics, Outcome
from tallymark.challenges.attempt_scores import score_attempt
from tallymark.challenges.challenge import (
    Challenge,
    Constraints,
    DimensionWeight,
    Evaluator,
    ScoringRule,
)
from tallymark.challenges.rescore_plan import RescorePlan, change_scoring
from tallymark.challenges.trajectory import Verification
from tallymark.errors import FormulaError, InvalidInput, NeedsJob
from tallymark.service.boards import WhatIfBoard
from tallymark.service.what_if import WhatIfRule, WhatIfs
from tallymark.store import Store

FORMULAS = (
    "rating - tokens_total",
    "tokens_total / calls",
    "elapsed_s * 3 + number",
    "if(lines > 2, rating, -lines)",
    "1",
)
OWN = Evaluator(type="reported", options={"metrics": ["lines"]})
WEIGHTS = {"correctness": 0.5, "speed": 0.3, "methodology": 0.2}
OTHER_WEIGHTS = {"correctness": 0.15, "speed": 0.15, "methodology": 0.7}
laws = settings(
    max_examples=examples(60, 6),
    deadline=None,
    suppress_health_check=SHARED_FIXTURE,
)
metrics = st.builds(
    lambda tokens, calls, rating, elapsed, lines, good: Metrics(
        succeeded=good,
        tokens_total=tokens,
        calls=calls,
        rating=rating,
        elapsed_ms=elapsed,
        more={"lines": lines},
    ),
    st.none() | st.integers(0, 3),
    st.none() | st.integers(0, 2),
    st.sampled_from([None, 0.0, -0.0, 1.5, -2.0, 1e300]),
    st.none() | st.integers(0, 3000),
    st.sampled_from([None, 0.5, 3.0]),
    st.sampled_from([True, True, True, False]),
)
agents = st.sampled_from(["ab", "a-c", "a.d", "b_a"])
acts = st.lists(
    st.one_of(
        st.tuples(st.just("play"), agents, metrics),
        st.tuples(st.just("play"), agents, metrics),
        st.tuples(st.just("play"), agents, metrics),
        st.tuples(st.just("load"), agents, metrics),
        st.tuples(st.just("void"), st.integers(0, 9), st.none()),
        st.tuples(st.just("unvoid"), st.integers(0, 9), st.none()),
        st.tuples(st.just("disqualify"), agents, st.none()),
        st.tuples(st.just("reinstate"), agents, st.none()),
        st.tuples(st.just("give"), agents, st.sampled_from([None, "ann", "ben"])),
        st.tuples(st.just("rescore"), st.sampled_from(FORMULAS), st.none()),
        st.tuples(st.sampled_from(["freeze", "unfreeze"]), st.none(), st.none()),
        st.tuples(st.just("ask"), st.none(), st.none()),
    ),
    min_size=4,
    max_size=14,
)


@pytest.fixture
def what_ifs() -> WhatIfs:
    return WhatIfs()


def by_formula(text: str, **fields: Any) -> Challenge:
    return a_challenge(scoring=ScoringRule(formula=text), evaluator=OWN, **fields)


def weigh(weights: dict[str, float]) -> tuple[DimensionWeight, ...]:
    return tuple(DimensionWeight(key=key, weight=weight) for key, weight in weights.items())


def by_dimensions(**fields: Any) -> Challenge:
    return a_challenge(scoring=ScoringRule(dimensions=weigh(WEIGHTS), **fields))


def judged(store: Store, attempt: Attempt, found: Metrics) -> Outcome:
    """Scored as the challenge says by now."""
    challenge = store.challenges.get("sums")
    return score_attempt(challenge, Evaluation(metrics=found), attempt=attempt)


class Game:
    """Acts in the order of their times."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.clock = itertools.count(10)

    def act(self, what: str, who: Any, found: Any) -> None:  # noqa: C901 (a list of acts)
        store, at = self.store, float(next(self.clock))
        if what == "play" and who not in store.disqualifications.agents():
            assert found is not None
            attempt = submitted(store, who, at)
            outcome = judged(store, attempt, found)
            store.attempts.finish(
                attempt.id, Evaluation(metrics=found), outcome, at=at, verified=False
            )
        elif what == "load":
            assert found is not None
            tries = store.attempts.of("sums", agent=who, limit=None)
            attempt = scored(who, Outcome(score=None), at, number=len(tries) + 1)
            given = [scored(who, judged(store, attempt, found), at)]
            store.attempts.load("sums", given, at=at, rated=False)
        elif what in ("void", "unvoid"):
            known = store.attempts.of("sums", limit=None)
            if known:
                getattr(store.attempts, what)(known[who % len(known)].id, at=at, reason="so")
        elif what in ("disqualify", "reinstate"):
            if any(each.agent == who for each in store.attempts.of("sums", limit=None)):
                getattr(store.disqualifications, what)(who, at=at, reason="so")
        elif what == "give":
            if who in {each.agent for each in store.attempts.of("sums", limit=None)}:
                store.agents.give(who, found, at=at)
        elif what == "rescore":
            old = store.challenges.get("sums")
            if old.scoring.formula != who:
                plan = RescorePlan.of(old, change_scoring(old, formula=who))
                try:
                    store.rescorings.apply(plan, at=at)
                except Exception as error:  # noqa: BLE001 (none would have a score: it says so)
                    assert "none of the" in str(error)
        elif what in ("freeze", "unfreeze"):
            getattr(store.challenges, what)("sums", at=at, reason="so")


def ask(store: Store, what_ifs: WhatIfs, text: str, **options: Any) -> WhatIfBoard:
    options = {"public": False, **options}
    return what_ifs.ask(store, "sums", WhatIfRule(formula=text), **options)


def require_same(store: Store, what_ifs: WhatIfs, text: str, *, public: bool) -> None:
    """The what-if by this formula is the board."""
    found = ask(store, what_ifs, text, public=public)
    board = store.boards.top("sums", limit=1000, as_frozen=public)
    assert [(each.rank, each.agent, each.attempt, each.score) for each in found.items] == [
        (each.rank, each.agent, each.attempt, each.score) for each in board
    ]
    assert [each.before for each in found.items] == [each.rank for each in board]
    assert (found.agents, found.up, found.down) == (len(board), 0, 0)


@laws
@given(st.sampled_from(FORMULAS), acts, st.sampled_from(["agent", "owner"]))
def test_by_its_own_formula_it_is_the_board(
    contests: Any, text: str, moves: list[Any], one_per: Any
) -> None:
    what_ifs = WhatIfs()
    with contests() as store:
        store.challenges.publish(by_formula(text, version="v2", one_per=one_per), b"", at=1.0)
        game = Game(store)
        for move in moves:
            if move[0] == "ask":
                now = store.challenges.get("sums").scoring.formula
                require_same(store, what_ifs, now or "", public=False)
            else:
                game.act(*move)
        now = store.challenges.get("sums").scoring.formula or ""
        require_same(store, what_ifs, now, public=False)
        require_same(store, WhatIfs(), now, public=False)
        if not any(move[0] == "rescore" for move in moves):
            require_same(store, what_ifs, now, public=True)


@laws
@given(st.sampled_from(FORMULAS), st.sampled_from(FORMULAS), acts)
def test_another_formula_gives_the_board_that_rescoring_would(
    contests: Any, text: str, other: str, moves: list[Any]
) -> None:
    what_ifs = WhatIfs()
    with contests() as store:
        store.challenges.publish(by_formula(text, version="v2"), b"", at=1.0)
        game = Game(store)
        for move in moves:
            if move[0] not in ("ask", "freeze", "rescore"):
                game.act(*move)
        found = ask(store, what_ifs, other)
        game.act("rescore", other, None)
        if store.challenges.get("sums").scoring.formula == other:
            board = store.boards.top("sums", limit=1000)
            assert [(each.rank, each.agent, each.attempt, each.score) for each in found.items] == [
                (each.rank, each.agent, each.attempt, each.score) for each in board
            ]


scores = st.one_of(st.integers(0, 1000).map(float), st.floats(0, 1000))
judgements = st.lists(
    st.tuples(agents, st.fixed_dictionaries(dict.fromkeys(WEIGHTS, scores)), st.booleans()),
    min_size=1,
    max_size=8,
)


@laws
@given(judgements, st.sampled_from([None, "total", "total + succeeded"]), st.booleans())
def test_other_weights_give_the_board_that_rescoring_would(
    contests: Any, tries: list[Any], formula: str | None, strict: bool
) -> None:
    """Broken constraints that score 0 included."""
    effect = Constraints(tokens=5, on_violation="zero" if strict else "note")
    keys = {"correctness": 0.5, "methodology": 0.5}
    rule = ScoringRule(dimensions=weigh(keys), formula=formula)
    challenge = a_challenge(version="v2", scoring=rule, constraints=effect)
    what_ifs = WhatIfs()
    with contests() as store:
        store.challenges.publish(challenge, b"", at=1.0)
        for at, (agent, found, broken) in enumerate(tries, 10):
            attempt = submitted(store, agent, float(at))
            shown = Verification(level="none", violations=("too many",) if broken else ())
            evaluation = Evaluation(dimensions={key: found[key] for key in keys})
            outcome = score_attempt(challenge, evaluation, attempt=attempt, trajectory=shown)
            store.attempts.finish(attempt.id, evaluation, outcome, at=float(at), verified=False)
        weights = {"correctness": 0.15, "methodology": 0.85}
        boards = [
            what_ifs.ask(store, "sums", WhatIfRule(weights=weights), public=True).items,
            ask(store, what_ifs, "correctness - total").items,
        ]
        changed: tuple[dict[str, Any], ...] = (
            {"dimensions": weigh(weights)},
            {"formula": "correctness - total"},
        )
        for found_items, changes in zip(boards, changed, strict=True):
            new = change_scoring(challenge, **changes)
            made = store.rescorings.preview(RescorePlan.of(challenge, new), at=99.0)
            before = {each.agent: each.rank for each in store.boards.top("sums", limit=100)}
            after = before | {
                each.agent: None if each.after is None else each.after.rank for each in made.moves
            }
            ranks = {agent: rank for agent, rank in after.items() if rank is not None}
            assert {each.agent: each.rank for each in found_items} == ranks


def report(store: Store, agent: str, at: float, **found: Any) -> Attempt:
    known = Metrics(succeeded=True, **found)
    attempt = submitted(store, agent, at)
    outcome = judged(store, attempt, known)
    store.attempts.finish(attempt.id, Evaluation(metrics=known), outcome, at=at, verified=False)
    return attempt


@pytest.fixture
def board(contests: Any) -> Iterator[Store]:
    """Alice leads by tokens, then bob, then charlie, who is the quickest."""
    with contests() as store:
        store.challenges.publish(by_formula("-tokens_total", version="v2"), b"", at=1.0)
        for number, agent in enumerate(("alice", "bob", "charlie"), 1):
            report(store, agent, 10.0 + number, tokens_total=number, elapsed_ms=9 - number)
        yield store


def test_who_moves_is_told_with_the_rank_before(board: Store, what_ifs: WhatIfs) -> None:
    found = ask(board, what_ifs, "-elapsed_ms", around="alice", limit=1)
    assert [(each.agent, each.before, each.moved, each.score) for each in found.items] == [
        ("charlie", 3, 2, -6.0)
    ]
    assert [each.agent for each in found.around or ()] == ["charlie", "bob", "alice"]
    assert (found.agents, found.attempts, found.up, found.down) == (3, 3, 1, 1)


def test_who_is_not_on_the_board_has_no_neighbours(board: Store, what_ifs: WhatIfs) -> None:
    assert ask(board, what_ifs, "1", around="dora").around == []


def test_a_wrong_formula_says_where(board: Store, what_ifs: WhatIfs) -> None:
    with pytest.raises(FormulaError, match="token_total") as caught:
        ask(board, what_ifs, "1 + token_total")
    place = caught.value.problems[0].place
    assert place is not None
    assert place.column == 5


def test_what_lint_finds_comes_along(board: Store, what_ifs: WhatIfs) -> None:
    found = ask(board, what_ifs, "1 / tokens_total").findings
    assert any(each["column"] is not None and "zero" in each["message"] for each in found)


def test_a_frozen_board_is_frozen_for_the_public(board: Store, what_ifs: WhatIfs) -> None:
    board.challenges.freeze("sums", at=20.0, reason="the last hour")
    later = report(board, "bob", 21.0, tokens_total=0, elapsed_ms=0)
    shown = ask(board, what_ifs, "-elapsed_ms", public=True)
    hidden = ask(board, what_ifs, "-elapsed_ms")
    assert [each.agent for each in shown.items] == ["charlie", "bob", "alice"]
    assert later.id not in {each.attempt for each in shown.items}
    assert [each.agent for each in hidden.items] == ["bob", "charlie", "alice"]
    assert (shown.frozen, hidden.frozen) == (True, False)
    assert shown.seq == 0 < hidden.seq


def test_of_a_frozen_board_a_later_void_is_not_told(board: Store, what_ifs: WhatIfs) -> None:
    first = report(board, "alice", 15.0, tokens_total=0)
    board.attempts.void(first.id, at=16.0, reason="broken")
    second = report(board, "bob", 17.0, tokens_total=0)
    board.challenges.freeze("sums", at=20.0, reason="the last hour")
    board.attempts.unvoid(first.id, at=21.0, reason="it was not")
    board.attempts.void(second.id, at=22.0, reason="broken")
    require_same(board, what_ifs, "-tokens_total", public=True)


def test_numbers_from_before_a_freeze_that_are_not_kept_are_not_made_up(
    board: Store, what_ifs: WhatIfs
) -> None:
    board.challenges.freeze("sums", at=20.0, reason="the last hour")
    old = board.challenges.get("sums")
    changed = msgspec.structs.replace(old, version="v3", time_limit_s=5.0)
    new = change_scoring(changed, formula="rating")
    with pytest.raises(Exception, match="none of the"):
        board.rescorings.apply(RescorePlan.of(old, new), at=21.0)
    new = change_scoring(changed, formula="-calls", config={"undefined": 1})
    board.rescorings.apply(RescorePlan.of(old, new), at=22.0)
    with pytest.raises(InvalidInput, match="scored again since its board was frozen"):
        ask(board, what_ifs, "-tokens_total", public=True)
    assert ask(board, what_ifs, "-tokens_total").agents == 3


def test_what_stands_in_for_an_undefined_score_is_tried_at_once(
    board: Store, what_ifs: WhatIfs
) -> None:
    report(board, "dora", 30.0)
    rule = WhatIfRule(config={"undefined": 7})
    found = what_ifs.ask(board, "sums", rule, public=True)
    assert (found.items[0].agent, found.items[0].score) == ("dora", 7.0)
    plain = ask(board, what_ifs, "-tokens_total")
    assert (plain.items[-1].agent, plain.items[-1].score, plain.undefined) == ("dora", None, 1)


def test_a_plugins_config_is_a_job(contests: Any, what_ifs: WhatIfs) -> None:
    with contests() as store:
        plugin = ScoringRule(plugin="builtin.weighted_scorer")
        store.challenges.publish(a_challenge(version="v2", scoring=plugin), b"", at=1.0)
        with pytest.raises(NeedsJob, match="plugin"):
            what_ifs.ask(store, "sums", WhatIfRule(config={"base": 1}), public=True)
        assert ask(store, what_ifs, "tokens_total").agents == 0


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (WhatIfRule(), "one of formula, weights and config"),
        (WhatIfRule(formula="1", weights={}), "one of formula, weights and config"),
        (WhatIfRule(weights={"speed": 1.0}), "weighs no dimensions"),
        (WhatIfRule(config={"base": 1}), "no use for the config 'base'"),
        (WhatIfRule(config={"undefined": "x"}), "undefined is a number"),
    ],
)
def test_refused(board: Store, what_ifs: WhatIfs, rule: WhatIfRule, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        what_ifs.ask(board, "sums", rule, public=True)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"correctnes": 0.5, "speed": 0.5}, "did you mean 'correctness'"),
        ({"correctness": 0.5, "speed": 0.3}, "0.8"),
        ({"correctness": float("nan"), "speed": 0.3}, "weight"),
    ],
)
def test_weights_that_are_none(
    contests: Any, what_ifs: WhatIfs, weights: dict[str, float], message: str
) -> None:
    with contests() as store:
        store.challenges.publish(
            msgspec.structs.replace(by_dimensions(), version="v2"), b"", at=1.0
        )
        with pytest.raises(InvalidInput, match=message):
            what_ifs.ask(store, "sums", WhatIfRule(weights=weights), public=True)


def test_another_tenant_has_no_such_challenge(board: Store, what_ifs: WhatIfs) -> None:
    other = Store(board._database, "somebody else")
    ask(board, what_ifs, "1")
    with pytest.raises(InvalidInput):
        ask(other, what_ifs, "1")


def test_memory_is_bounded_over_all_challenges(contests: Any) -> None:
    """Columns that do not fit are loaded again each time, and the answers are the same."""
    with contests() as store:
        small = WhatIfs(most_bytes=1)
        store.challenges.publish(by_formula("-tokens_total", version="v2"), b"", at=1.0)
        for turn in range(3):
            report(store, "alice", 10.0 + turn, tokens_total=turn)
            require_same(store, small, "-tokens_total", public=False)
            assert small.nbytes == 0


def test_of_each_owner_the_best_by_the_other_rule_is_shown(
    contests: Any, what_ifs: WhatIfs
) -> None:
    with contests() as store:
        challenge = by_formula("-tokens_total", version="v2", one_per="owner")
        store.challenges.publish(challenge, b"", at=1.0)
        for agent, tokens in (("ann-1", 1), ("ben-1", 2), ("ann-2", 3), ("lone", 4)):
            report(store, agent, 10.0, tokens_total=tokens)
            if agent != "lone":
                store.agents.give(agent, agent[:3], at=11.0)
        before = ask(store, what_ifs, "-tokens_total")
        after = ask(store, what_ifs, "tokens_total")
        assert [each.agent for each in before.items] == ["ann-1", "ben-1", "lone"]
        assert [(each.agent, each.before) for each in after.items] == [
            ("lone", 3),
            ("ann-2", None),
            ("ben-1", 2),
        ]

"""Batches: many items in one transaction come to what they would one by one."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import text
from tests.effort import SHARED_FIXTURE, examples
from tests.store.contest_samples import DAY, a_challenge, an_outcome, by, play, quick_store

from tallymark.challenges.attempt import Attempt, Evaluation, Metrics, Payload
from tallymark.errors import Conflict, InvalidInput, NotFound, RuleChanged, TallymarkError
from tallymark.store import Store
from tallymark.store.contests import attempt_rows, attempt_writer, challenges
from tallymark.store.contests.attempt_items import (
    Enter,
    Expire,
    Finish,
    Report,
    Submit,
    Verdict,
    Wait,
    Withdraw,
)
from tallymark.store.contests.attempt_rows import StoredAttempt
from tallymark.store.contests.audit_log import Actor, act_as
from tallymark.store.contests.challenges import StoredChallenge
from tallymark.store.idempotency import IdempotentRequest
from tallymark.store.quick_statements import QuickStatements

CHALLENGES = ("sums", "quota", "frozen")
AGENTS = ("alice", "bob", "charlie", "dave", "al1ce", "")


def verdict(score: float | None, result: str = "win", **fields: Any) -> Verdict:
    return Verdict(Evaluation(), an_outcome(score, result=result, **fields))


def a_report(store: Store, agent: str, score: float | None = 1.0, **options: Any) -> Report:
    """A report that is scored in the same batch; without a score, left to others."""
    judged = None if score is None else verdict(score)
    facts: Any = {"at": 10.0, "judge": lambda *_: judged, **options}
    name = facts.pop("challenge", "sums")
    return store.attempts.make_report(name, agent, Payload(), Metrics(succeeded=True), **facts)


def is_refused(answer: object) -> bool:
    return isinstance(answer, TallymarkError)


# One law: batches are what they would be one by one

OPERATIONS = st.tuples(
    st.sampled_from(["enter", "submit", "report", "finish", "withdraw", "expire", "wait"]),
    st.sampled_from(CHALLENGES),
    st.sampled_from(AGENTS),
    st.integers(0, 5),  # which attempt, from the last
    st.sampled_from([0.0, 1.0, 2.0, 3.0, None]),  # the score
    st.sampled_from([None, None, "one", "two"]),  # the key
    st.sampled_from([0.0, 1.0, 1.0, 40.0, -30.0, DAY]),  # how much later it is
)
BATCHES = st.lists(st.lists(OPERATIONS, min_size=1, max_size=12), max_size=8)


class Players:
    """Does operations for one tenant, and knows the attempts that they made."""

    def __init__(self, store: Store, *, reads_ahead: bool) -> None:
        """With `reads_ahead`, every other attempt is read before the batch that changes it."""
        self.store = store
        self.reads_ahead = reads_ahead
        self.at = 100.0
        self.known: list[Attempt] = []
        store.challenges.publish(by("custom", time_limit_s=60.0, rated="every"), b"", at=0.0)
        quota: Any = {"attempts": 5, "attempts_per_day": 2, "rated": "first"}
        store.challenges.publish(a_challenge(name="quota", **quota), b"", at=0.0)
        later: Any = {"freezes_at": 250.0, "rated": "until_won"}
        store.challenges.publish(by("fewest_tokens", name="frozen", **later), b"", at=0.0)
        play(store, "dave", an_outcome(2.0), at=50.0)
        store.disqualifications.disqualify("dave", at=51.0, reason="a law")

    def play(self, batch: Sequence[tuple[Any, ...]], together: bool) -> list[object]:
        """What was answered, without what differs between tenants."""
        items = [self.make_item(*each) for each in batch]
        if together:
            answers = self.store.attempts.do_all(items)
        else:
            answers = [answer for item in items for answer in self.store.attempts.do_all([item])]
        self.known += [each for each in answers if isinstance(each, Attempt)]
        return [self.describe(each) for each in answers]

    def make_item(  # noqa: PLR0917 (an operation)
        self,
        kind: str,
        challenge: str,
        agent: str,
        nth: int,
        score: float | None,
        key: str | None,
        later: float,
    ) -> Any:
        self.at = at = max(100.0, self.at + later)
        facts: Any = {"tenant": self.store.tenant, "at": at}
        mine = self.known[-1 - nth % len(self.known)] if self.known else None
        target: Any = {"attempt": "a999999999" if mine is None else mine.id}
        whose = agent if mine is None or nth == 5 else mine.agent
        metrics = Metrics(succeeded=True, tokens_total=int(score or 9))
        judged = Verdict(
            Evaluation(reason="why" if score == 3.0 else None),
            an_outcome(
                score,
                error="broken" if score is None else None,
                result=None if score is None else "win" if score > 1 else "loss",
                ranks=score not in (None, 1.0),
                metrics=metrics,
                details={"nth": nth},
            ),
            verified=nth == 2,
        )

        def ask(operation: str, *content: object, agent: str = agent) -> Any:
            if key is None:
                return None
            return IdempotentRequest(self.store.tenant, agent, key, operation, *content)

        match kind:
            case "enter":
                request = ask("enter", challenge)
                facts |= {"seed": nth, "memoryless": nth == 1, "request": request}
                return Enter(challenge=challenge, agent=agent, **facts)
            case "submit":
                texts = attempt_rows.make_payload_row(Payload(submission=score))
                request = ask("submit", nth, agent=whose)
                target["known"] = self.read_ahead(mine, nth)
                return Submit(agent=whose, texts=texts, request=request, **target, **facts)
            case "report":
                return a_report(
                    self.store,
                    agent,
                    challenge=challenge,
                    at=at,
                    key=key,
                    judge=(lambda *_: judged) if nth else None,
                )
            case "finish":
                target["known"] = self.read_ahead(mine, nth)
                return Finish(verdict=judged, revision=2 if nth == 5 else None, **target, **facts)
            case "withdraw":
                return Withdraw(agent=whose, **target, **facts)
            case "wait":
                return Wait(reason=f"because {nth}", hidden="truth", **target, **facts)
        return Expire(most=100, **facts)

    def read_ahead(self, attempt: Attempt | None, nth: int) -> StoredAttempt | None:
        if attempt is None or not self.reads_ahead or nth % 2:
            return None
        return self.store.attempts.find(attempt.id)

    def describe(self, answer: object) -> object:
        if isinstance(answer, TallymarkError):
            return type(answer), self.hide_ids(str(answer))
        if isinstance(answer, Attempt):
            return self.hide_ids(repr(answer))
        return answer

    def hide_ids(self, said: str) -> str:
        for nth, key in enumerate(self.read_keys()):
            said = said.replace(f"a{key:012}", f"#{nth}")
        return said

    def read_keys(self) -> list[int]:
        with self.store._database.read() as connection:
            query = text("SELECT key FROM attempts WHERE tenant = :t ORDER BY key")
            return list(connection.scalars(query, {"t": self.store.tenant}))

    def dump(self) -> dict[str, list[Any]]:
        """All that is stored, keys replaced by their order."""
        tables = (
            "attempts attempt_details attempt_scores attempt_waits scorings score_history boards"
            " ratings rating_pairs contest_audit idempotency agents"
        )
        keys = {key: nth for nth, key in enumerate(self.read_keys())}
        found: dict[str, list[Any]] = {}
        with self.store._database.read() as connection:
            names = self.number(connection, "challenges")
            rules = self.number(connection, "scorings")
            versions = self.number(connection, "challenge_versions")
            numbers = {"key": keys, "attempt": keys, "challenge_id": names}
            numbers |= {"scoring": rules, "version_id": versions}
            for table in tables.split():
                query = text(f"SELECT * FROM {table} WHERE tenant = :t")
                rows = connection.execute(query, {"t": self.store.tenant}).mappings()
                found[table] = sorted(
                    (self.clean(table, dict(row), numbers) for row in rows), key=repr
                )
        # The order of the log, and the digests of keys that name no tenant.
        return found

    def number(self, connection: Any, table: str) -> dict[int, int]:
        query = text(f"SELECT id FROM {table} WHERE tenant = :t ORDER BY id")
        rows = connection.scalars(query, {"t": self.store.tenant})
        return {key: nth for nth, key in enumerate(rows)}

    def clean(self, table: str, row: dict[str, Any], numbers: Any) -> dict[str, Any]:
        for name in ("tenant", "seq", "id"):
            row.pop(name, None)
        if table == "idempotency":
            operation, _, key = row["key"].partition(" ")
            if len(key) == 32:
                row["key"] = f"{operation} drawn"
            if not row["attempt"]:
                return {}
        for name, known in numbers.items():
            if name in row and not (table == "idempotency" and name == "key"):
                row[name] = known.get(row[name], row[name])
        return row

    def log(self) -> list[Any]:
        """The log of each challenge, in its order."""
        query = text("SELECT * FROM contest_audit WHERE tenant = :t ORDER BY challenge_id, seq")
        keys = {key: nth for nth, key in enumerate(self.read_keys())}
        with self.store._database.read() as connection:
            names = self.number(connection, "challenges")
            rows = connection.execute(query, {"t": self.store.tenant}).mappings()
            numbers = {"attempt": keys, "challenge_id": names}
            return [self.clean("contest_audit", dict(row), numbers) for row in rows]

    def assert_derived(self) -> None:
        """Boards, blocks and ratings are those that follow from the attempts."""
        before = self.dump()
        for name in CHALLENGES:
            top = self.store.boards.top(name, limit=50, as_frozen=False)
            assert self.store.boards.size(name, as_frozen=False) == len(top)
            for each in top:
                assert self.store.boards.standing(name, each.agent, as_frozen=False) == each
        self.store.ratings.rebuild()
        after = self.dump()
        rated = [each for each in before["ratings"] if each["matches"]]
        assert rated == [each for each in after["ratings"] if each["matches"]]
        assert before["rating_pairs"] == after["rating_pairs"]


@contextmanager
def players(url: str, *, reads_ahead: bool = False) -> Iterator[Players]:
    with quick_store(url, uuid.uuid4().hex) as store:
        yield Players(store, reads_ahead=reads_ahead)


@settings(
    max_examples=examples(60, 6),
    deadline=None,
    suppress_health_check=SHARED_FIXTURE,
)
@given(batches=BATCHES)
def test_a_batch_comes_to_what_its_items_would_one_by_one(
    shared_url: str, batches: list[list[tuple[Any, ...]]]
) -> None:
    """Also where some were read before, and are not read again."""
    with players(shared_url) as single, players(shared_url, reads_ahead=True) as together:
        for batch in batches:
            assert together.play(batch, together=True) == single.play(batch, together=False)
        assert together.dump() == single.dump()
        assert together.log() == single.log()
        together.assert_derived()


# What an item sees of those before it


def test_a_report_is_scored_ranked_rated_and_logged_at_once(contest: Store) -> None:
    (answer,) = contest.attempts.do_all([a_report(contest, "alice", 7.0)])
    assert isinstance(answer, Attempt)
    assert answer == contest.attempts.get(answer.id)
    assert answer.outcome is not None
    assert (answer.state, answer.outcome.score) == ("scored", 7.0)
    assert contest.boards.top("sums")[0].score == 7.0
    assert contest.ratings.of("alice").wins == 1
    events = [each.event for each in contest.attempts.audit(answer.id)]
    assert events == ["entered", "reported", "scored"]


def test_numbers_boards_and_ratings_go_on_inside_a_batch(contest: Store) -> None:
    scores = [3.0, 9.0, 5.0]
    answers = contest.attempts.do_all([a_report(contest, "alice", each) for each in scores])
    assert [each.number for each in answers if isinstance(each, Attempt)] == [1, 2, 3]
    (top,) = contest.boards.top("sums")
    assert (top.score, top.tries) == (9.0, 3)
    assert contest.ratings.of("alice").matches == 3


@pytest.mark.parametrize("quota", ["attempts", "attempts_per_day"])
def test_a_quota_is_exact_inside_a_batch(contest: Store, quota: str) -> None:
    contest.challenges.publish(a_challenge(version="v2", **{quota: 3}), b"", at=1.0)
    contest.attempts.do_all([a_report(contest, "alice")])
    answers = contest.attempts.do_all([a_report(contest, "alice") for _ in range(5)])
    assert [is_refused(each) for each in answers] == [False, False, True, True, True]
    assert len(contest.attempts.of("sums")) == 3


def test_a_key_said_twice_in_a_batch_is_one_attempt(contest: Store) -> None:
    same = [a_report(contest, "alice", key="k") for _ in range(3)]
    other = contest.attempts.make_report(
        "sums", "alice", Payload(), Metrics(tokens_total=5), at=10.0, key="k"
    )
    *answers, refused = contest.attempts.do_all([*same, other])
    assert isinstance(refused, Conflict)
    assert len({each.id for each in answers if isinstance(each, Attempt)}) == 1
    assert len(contest.attempts.of("sums")) == 1


def test_one_bad_item_is_refused_alone(contest: Store) -> None:
    items: list[Any] = [
        a_report(contest, "alice"),
        a_report(contest, "A handle?"),
        a_report(contest, "alice", challenge="none"),
        Finish(tenant=contest.tenant, at=1.0, attempt="a77", verdict=verdict(1.0)),
        a_report(contest, "bob"),
    ]
    answers = contest.attempts.do_all(items)
    assert [type(each) for each in answers] == [Attempt, InvalidInput, NotFound, NotFound, Attempt]
    assert contest.boards.size("sums") == 2


def test_of_names_that_look_alike_in_a_batch_the_first_is_taken(contest: Store) -> None:
    items = [a_report(contest, each) for each in ("rn-bot", "m-bot", "rn-bot")]
    answers = contest.attempts.do_all(items)
    assert [is_refused(each) for each in answers] == [False, True, False]


def test_an_attempt_of_another_tenant_is_none(contests: Callable[..., Any]) -> None:
    with contests() as mine, contests() as other:
        attempt = other.attempts.enter("sums", "alice", at=10.0, seed=1)
        with pytest.raises(NotFound, match="has no attempt"):
            mine.attempts.withdraw(attempt.id, "alice", 11.0)
        assert other.attempts.get(attempt.id).state == "entered"


def test_a_judge_that_fails_leaves_its_attempt_submitted(contest: Store) -> None:
    def broken(*_: object) -> Verdict:
        raise ZeroDivisionError

    items = [a_report(contest, "alice", judge=broken), a_report(contest, "bob")]
    answers = contest.attempts.do_all(items)
    assert [each.state for each in answers if isinstance(each, Attempt)] == ["submitted", "scored"]


def test_what_a_challenge_does_not_take_leaves_nothing(contest: Store) -> None:
    def check(_: object) -> None:
        raise InvalidInput("not that")

    answers = contest.attempts.do_all([a_report(contest, "alice", check=check)])
    assert is_refused(answers[0])
    assert contest.attempts.of("sums") == []


def test_a_verdict_by_an_older_rule_is_refused_alone(contest: Store) -> None:
    waiting = [a_report(contest, agent, None) for agent in ("alice", "bob")]
    first, second = contest.attempts.do_all(waiting)
    assert isinstance(first, Attempt)
    assert isinstance(second, Attempt)
    facts: Any = {"tenant": contest.tenant, "at": 20.0, "verdict": verdict(1.0)}
    items = [
        Finish(attempt=first.id, revision=99, **facts),
        Finish(attempt=second.id, revision=1, **facts),
        Finish(attempt=second.id, revision=1, **facts),
    ]
    stale, done, again = contest.attempts.do_all(items)
    assert isinstance(stale, RuleChanged)
    assert isinstance(done, Attempt)
    assert again is False
    assert [each.id for each in contest.attempts.pending()] == [first.id]


def test_the_board_is_kept_as_it_was_before_the_freeze(contest: Store) -> None:
    contest.challenges.publish(by("custom", version="v2", freezes_at=50.0), b"", at=1.0)
    moments = [(40.0, "alice"), (49.0, "bob"), (50.0, "charlie"), (60.0, "alice")]
    items = [a_report(contest, agent, at, at=at) for at, agent in moments]
    contest.attempts.do_all(items)
    assert [each.agent for each in contest.boards.top("sums")] == ["bob", "alice"]
    live = contest.boards.top("sums", as_frozen=False)
    assert [each.agent for each in live] == ["alice", "charlie", "bob"]


def test_the_log_names_who_asked_for_each(contest: Store) -> None:
    with act_as(Actor("service-1", "192.0.2.1")):
        first = a_report(contest, "alice")
    second = a_report(contest, "bob")
    answers = contest.attempts.do_all([first, second])
    logs = [contest.attempts.audit(each.id) for each in answers if isinstance(each, Attempt)]
    actors = [[each.actor for each in log] for log in logs]
    assert actors == [["service-1", "service-1", "system"], ["bob", "bob", "system"]]


def test_a_challenge_that_goes_before_it_is_locked_is_entered_by_nobody(
    contest: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = challenges.lock_challenge_row

    def lock_late(statements: QuickStatements, key: int) -> StoredChallenge | None:
        for table in ("challenge_versions", "challenges"):
            statements.run(f"DELETE FROM {table} WHERE tenant = ?", contest.tenant)
        return lock(statements, key)

    monkeypatch.setattr(attempt_writer, "lock_challenge_row", lock_late)
    with pytest.raises(NotFound, match="there are no challenges yet"):
        contest.attempts.enter("sums", "alice", at=1.0, seed=1)

"""Attempts: the rules of entering and submitting, keys, quotas, expiry, and the audit log."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from tests.store.contest_samples import (
    DAY,
    FULL_OUTCOME,
    ORIGIN,
    PAYLOAD,
    a_challenge,
    an_outcome,
    finish,
    play,
    submitted,
)

from tallymark.challenges.attempt import Attempt, Evaluation, Metrics, Outcome, Payload
from tallymark.errors import InvalidInput, WorkFailed
from tallymark.store import AuditEntry, ScoreEntry, Store, open_store
from tallymark.store.contests.attempt_items import Submit
from tallymark.store.contests.attempt_rows import make_payload_row
from tallymark.store.contests.challenges import StoredChallenge
from tallymark.store.schema import LOGS

HINT = "enter the challenge again"


def enter(store: Store, agent: str = "alice", at: float = 10.0, **options: Any) -> Attempt:
    return store.attempts.enter("sums", agent, at=at, seed=7, **options)


def republish(store: Store, **fields: Any) -> None:
    store.challenges.publish(a_challenge(version="v2", **fields), b"", at=1.0)


def refused(message: str) -> Any:
    return pytest.raises(InvalidInput, match=re.escape(message))


# Entering


def test_entering_starts_the_clock(contest: Store) -> None:
    attempt = enter(contest, memoryless=True)
    assert attempt == Attempt(
        id=attempt.id,
        challenge="sums",
        version="v1",
        agent="alice",
        number=1,
        state="entered",
        seed=7,
        entered_at=10.0,
        expires_at=3610.0,
        memoryless=True,
    )
    assert contest.attempts.get(attempt.id) == attempt


def test_an_agent_has_one_open_attempt(contest: Store) -> None:
    first = enter(contest)
    assert contest.attempts.enter("sums", "alice", at=11.0, seed=8) == first
    assert enter(contest, "bob").id != first.id


def test_a_next_attempt_has_the_next_number(contest: Store) -> None:
    assert [submitted(contest).number for _ in range(3)] == [1, 2, 3]
    assert submitted(contest, "bob").number == 1


def test_ids_sort_in_the_order_of_entering(contest: Store) -> None:
    ids = [submitted(contest).id for _ in range(12)]
    assert sorted(ids) == ids


def test_a_seed_of_63_bits_is_kept(contest: Store) -> None:
    attempt = contest.attempts.enter("sums", "alice", at=1.0, seed=2**63 - 1)
    assert contest.attempts.get(attempt.id).seed == 2**63 - 1


@pytest.mark.parametrize(
    ("at", "message"),
    [
        (99.9, "challenge 'sums' is not open yet; it opens at 1970-01-01 00:01:40 UTC"),
        (100.0, None),
        (199.9, None),
        (200.0, "challenge 'sums' is closed; it closed at 1970-01-01 00:03:20 UTC"),
    ],
    ids=["early", "opening", "last moment", "closing"],
)
def test_a_challenge_is_entered_while_it_is_open(
    contest: Store, at: float, message: str | None
) -> None:
    republish(contest, opens_at=100.0, closes_at=200.0)
    if message is None:
        assert enter(contest, at=at).expires_at == 200.0
    else:
        with refused(message):
            enter(contest, at=at)


@pytest.mark.parametrize("agent", ["", "a\0b", "x" * 41], ids=["empty", "nul", "long"])
def test_an_agent_enters_by_a_handle(contest: Store, agent: str) -> None:
    with refused("is no handle of an agent"):
        enter(contest, agent)


# Quotas


def test_attempts_in_all_are_limited(contest: Store) -> None:
    republish(contest, attempts=2)
    submitted(contest)
    contest.attempts.withdraw(enter(contest).id, "alice", 11.0)
    with refused(
        "'alice' has made all of its 2 attempts at 'sums'; the challenge allows no further attempt"
    ):
        enter(contest)
    assert enter(contest, "bob").number == 1


def test_attempts_of_a_day_are_limited_in_utc(contest: Store) -> None:
    republish(contest, attempts_per_day=2)
    for at in (DAY - 5, DAY - 1, DAY, DAY + 5):
        submitted(contest, at=at)
    with refused("'alice' has made its 2 attempts of today at 'sums'; try again from 1970-01-03"):
        enter(contest, at=2 * DAY - 1)
    assert enter(contest, at=2 * DAY).number == 5


def test_the_open_attempt_is_given_back_when_the_quota_is_used_up(contest: Store) -> None:
    republish(contest, attempts=1)
    assert enter(contest) == enter(contest)


@pytest.mark.parametrize("quota", ["attempts", "attempts_per_day"])
def test_a_quota_of_none_admits_nobody(contest: Store, quota: str) -> None:
    republish(contest, **{quota: 0})
    with refused("has made"):
        enter(contest)


# Submitting


def test_a_submission_comes_back_whole(contest: Store) -> None:
    entered = enter(contest)
    attempt = contest.attempts.submit(entered.id, "alice", PAYLOAD, at=12.5)
    assert (attempt.state, attempt.submitted_at) == ("submitted", 12.5)
    assert contest.attempts.payload(attempt.id) == PAYLOAD
    assert contest.attempts.pending() == [attempt]


def test_the_same_content_again_gives_the_same_attempt(contest: Store) -> None:
    entered = enter(contest)
    first = contest.attempts.submit(entered.id, "alice", PAYLOAD, at=12.0)
    assert contest.attempts.submit(entered.id, "alice", PAYLOAD, at=99_999.0) == first
    finish(contest, first, an_outcome())
    assert contest.attempts.submit(entered.id, "alice", PAYLOAD, at=13.0).state == "scored"


def test_other_content_is_refused(contest: Store) -> None:
    attempt = submitted(contest)
    with refused(f"attempt {attempt.id} was already submitted, with other content; {HINT}"):
        contest.attempts.submit(attempt.id, "alice", PAYLOAD, at=12.0)


@pytest.mark.parametrize(
    "change",
    [{"submission": 2}, {"metadata": {"tokens": 1}}, {"trajectory": "[]"}],
    ids=["submission", "metadata", "trajectory"],
)
def test_every_part_is_content(contest: Store, change: dict[str, Any]) -> None:
    attempt = enter(contest)
    contest.attempts.submit(attempt.id, "alice", Payload(submission=1), at=12.0)
    with refused("with other content"):
        contest.attempts.submit(attempt.id, "alice", Payload(**{"submission": 1, **change}), at=12)


@pytest.mark.parametrize("agent", ["bob", "alice\0"])
@pytest.mark.parametrize("act", ["submit", "withdraw"])
def test_only_the_owner_may_act_and_a_stranger_learns_nothing(
    contest: Store, agent: str, act: str
) -> None:
    theirs = enter(contest).id

    def answer(identifier: str) -> str:
        acts = {
            "submit": lambda: contest.attempts.submit(identifier, agent, PAYLOAD, at=12.0),
            "withdraw": lambda: contest.attempts.withdraw(identifier, agent, 12.0),
        }
        with pytest.raises(InvalidInput) as caught:
            acts[act]()
        return str(caught.value).replace(identifier, "ID")

    assert answer(theirs) == answer("a999999999999") == answer("nonsense")
    assert contest.attempts.get(theirs).state == "entered"


@pytest.mark.parametrize(
    ("submission", "what"),
    [
        ("half \ud800", "text that is not Unicode"),
        ({1: 2}, "a value that JSON does not know"),
        (object(), "a value that JSON does not know"),
    ],
    ids=["surrogate", "key", "object"],
)
def test_what_json_cannot_carry_is_refused(contest: Store, submission: Any, what: str) -> None:
    attempt = enter(contest)
    with refused(f"the submission holds {what}; submit plain JSON"):
        contest.attempts.submit(attempt.id, "alice", Payload(submission=submission), at=12.0)


def test_nothing_was_submitted_yet(contest: Store) -> None:
    attempt = enter(contest)
    with refused(f"nothing was submitted with attempt {attempt.id}"):
        contest.attempts.payload(attempt.id)


# Submitting what was read before

BETWEEN: dict[str, tuple[Callable[[Store, str], object], str | None]] = {
    "nothing": (lambda *_: None, None),
    "the same": (lambda s, a: s.attempts.submit(a, "alice", PAYLOAD, at=11.0), None),
    "another": (
        lambda s, a: s.attempts.submit(a, "alice", Payload(submission=1), at=11.0),
        "was already submitted, with other content",
    ),
    "withdrawn": (lambda s, a: s.attempts.withdraw(a, "alice", 11.0), "is withdrawn"),
    "expired": (lambda s, _: s.attempts.expire(4000.0), "is expired"),
}


@pytest.mark.parametrize("between", BETWEEN)
def test_an_attempt_that_ended_since_it_was_read_is_read_again(
    contest: Store, between: str
) -> None:
    attempt = enter(contest)
    known = contest.attempts.find(attempt.id, "alice")
    act, refusal = BETWEEN[between]
    act(contest, attempt.id)
    before = contest.attempts.audit(attempt.id)
    if refusal is None:
        done = contest.attempts.submit(attempt.id, "alice", PAYLOAD, at=12.0, known=known)
        assert done == contest.attempts.get(attempt.id)
        assert done.submitted_at == (11.0 if between == "the same" else 12.0)
        return
    with refused(refusal):
        contest.attempts.submit(attempt.id, "alice", PAYLOAD, at=12.0, known=known)
    assert contest.attempts.audit(attempt.id) == before


def test_of_two_who_read_an_open_attempt_one_submits(contest: Store) -> None:
    attempt = enter(contest)
    known = contest.attempts.find(attempt.id, "alice")
    items = [
        Submit(
            tenant=contest.tenant,
            at=12.0,
            attempt=attempt.id,
            agent="alice",
            texts=make_payload_row(Payload(submission=answer)),
            known=known,
        )
        for answer in (1, 2, 1)
    ]
    first, other, same = contest.attempts.do_all(items)
    assert first == same == contest.attempts.get(attempt.id)
    assert "with other content" in str(other)


def test_what_is_late_is_late_for_who_knows_the_attempt_too(contest: Store) -> None:
    attempt = enter(contest)
    known = contest.attempts.find(attempt.id, "alice")
    with refused(f"attempt {attempt.id} expired at"):
        contest.attempts.submit(attempt.id, "alice", PAYLOAD, at=3610.5, known=known)
    assert contest.attempts.get(attempt.id).state == "expired"


def test_a_key_of_another_submission_is_found_by_who_knows_the_attempt(contest: Store) -> None:
    first = enter(contest)
    contest.attempts.submit(first.id, "alice", PAYLOAD, at=11.0, key="k")
    second = enter(contest, at=12.0)
    known = contest.attempts.find(second.id, "alice")
    with refused("the idempotency key 'k' was used before"):
        contest.attempts.submit(second.id, "alice", PAYLOAD, at=13.0, key="k", known=known)
    assert contest.attempts.get(second.id).state == "entered"


# Expiry


def test_the_last_moment_is_in_time(contest: Store) -> None:
    attempt = enter(contest)
    assert contest.attempts.submit(attempt.id, "alice", PAYLOAD, at=3610.0).state == "submitted"


@pytest.mark.parametrize("act", ["submit", "withdraw", "expire", "enter"])
def test_whatever_comes_too_late_finds_the_attempt_expired_and_lost(
    contest: Store, act: str
) -> None:
    attempt = enter(contest)
    late = 3610.5
    if act == "enter":
        assert enter(contest, at=late).number == 2
    elif act == "expire":
        assert (contest.attempts.expire(late), contest.attempts.expire(late)) == (1, 0)
    else:
        with refused(f"attempt {attempt.id} expired at 1970-01-01 01:00:10 UTC; {HINT}"):
            if act == "submit":
                contest.attempts.submit(attempt.id, "alice", PAYLOAD, at=late)
            else:
                contest.attempts.withdraw(attempt.id, "alice", late)
    assert contest.attempts.get(attempt.id).state == "expired"
    assert [(each.agent, each.result) for each in contest.ratings.matches()] == [("alice", "loss")]
    assert contest.ratings.of("alice").rating == 984


def test_an_expired_attempt_stays_so(contest: Store) -> None:
    attempt = enter(contest)
    contest.attempts.expire(4000.0)
    with refused(f"attempt {attempt.id} is expired; {HINT}"):
        contest.attempts.submit(attempt.id, "alice", PAYLOAD, at=20.0)


def test_expiry_leaves_alone_what_has_time_or_was_submitted(contest: Store) -> None:
    submitted(contest, "bob", at=10.0)
    enter(contest, at=500.0)
    assert contest.attempts.expire(4000.0) == 0


# Withdrawing


def test_withdrawing_is_a_loss(contest: Store) -> None:
    attempt = enter(contest)
    gone = contest.attempts.withdraw(attempt.id, "alice", 11.0)
    assert gone.state == "withdrawn"
    assert contest.attempts.withdraw(attempt.id, "alice", 12.0) == gone
    assert [each.result for each in contest.ratings.matches()] == ["loss"]
    assert enter(contest).number == 2


def test_what_was_submitted_cannot_be_withdrawn(contest: Store) -> None:
    attempt = submitted(contest)
    with refused(f"attempt {attempt.id} is submitted, and cannot be withdrawn; only an open"):
        contest.attempts.withdraw(attempt.id, "alice", 11.0)


# Reporting


def test_a_report_is_entered_and_submitted_at_once(contest: Store) -> None:
    metrics = Metrics(succeeded=True, tokens_total=5, more={"lines": 2.0})
    attempt = contest.attempts.report("sums", "alice", PAYLOAD, metrics, at=12.0)
    assert (attempt.state, attempt.entered_at, attempt.submitted_at) == ("submitted", 12.0, 12.0)
    assert contest.attempts.payload(attempt.id).reported == metrics
    events = [(each.event, each.after) for each in contest.attempts.audit(attempt.id)]
    assert events == [("entered", "entered"), ("reported", "submitted")]


def test_a_report_leaves_an_open_attempt_open(contest: Store) -> None:
    mine = enter(contest)
    contest.attempts.report("sums", "alice", PAYLOAD, Metrics(), at=12.0)
    assert enter(contest) == mine


def test_reports_have_quotas_too(contest: Store) -> None:
    republish(contest, attempts=1, closes_at=50.0)
    contest.attempts.report("sums", "alice", PAYLOAD, Metrics(), at=12.0)
    with refused("'alice' has made its only attempt"):
        contest.attempts.report("sums", "alice", PAYLOAD, Metrics(), at=12.0)
    with refused("challenge 'sums' is closed"):
        contest.attempts.report("sums", "bob", PAYLOAD, Metrics(), at=60.0)


# Idempotency keys

Act = Callable[[Store, str], Attempt]
ACTS: dict[str, tuple[Act, Act]] = {
    "enter": (
        lambda store, key: enter(store, key=key),
        lambda store, key: enter(store, key=key, memoryless=True),
    ),
    "report": (
        lambda s, key: s.attempts.report("sums", "alice", PAYLOAD, Metrics(), at=1.0, key=key),
        lambda s, key: s.attempts.report("sums", "alice", Payload(), Metrics(), at=1.0, key=key),
    ),
    "submit": (
        lambda s, key: s.attempts.submit(enter(s).id, "alice", PAYLOAD, at=11.0, key=key),
        lambda s, key: s.attempts.submit(enter(s).id, "alice", Payload(), at=11.0, key=key),
    ),
}


@pytest.mark.parametrize("act", ["enter", "report"])
def test_a_key_used_twice_is_one_request(contest: Store, act: str) -> None:
    do, _ = ACTS[act]
    first = do(contest, "k1")
    if act == "enter":
        contest.attempts.withdraw(first.id, "alice", 12.0)
    assert do(contest, "k1").id == first.id
    assert do(contest, "k2").id != first.id


def test_a_submission_sent_twice_with_a_key_is_one(contest: Store) -> None:
    attempt = enter(contest)
    first = contest.attempts.submit(attempt.id, "alice", PAYLOAD, at=11.0, key="k1")
    assert contest.attempts.submit(attempt.id, "alice", PAYLOAD, at=9999.0, key="k1") == first


@pytest.mark.parametrize("act", sorted(ACTS))
def test_a_key_used_for_something_else_is_refused(contest: Store, act: str) -> None:
    do, do_other = ACTS[act]
    do(contest, "k1")
    with refused("the idempotency key 'k1' was used before for another request; send the same"):
        do_other(contest, "k1")


def test_keys_of_agents_are_their_own(contest: Store) -> None:
    assert enter(contest, "alice", key="k1").id != enter(contest, "bob", key="k1").id


@pytest.mark.parametrize("key", ["", "x" * 256, "nul \0"], ids=["empty", "long", "nul"])
def test_a_key_must_be_one(contest: Store, key: str) -> None:
    with refused("the idempotency key cannot be used; give 1 to 255 characters"):
        enter(contest, key=key)


# Finishing


def test_an_outcome_comes_back_whole(contest: Store) -> None:
    attempt = submitted(contest)
    evaluation = Evaluation(metrics=Metrics(tokens_total=3), details={"found": [1]})
    kept = contest.attempts.finish(attempt.id, evaluation, FULL_OUTCOME, at=20.0, verified=True)
    done = contest.attempts.get(attempt.id)
    assert kept is True
    assert done.outcome == FULL_OUTCOME
    assert (done.state, done.scored_at, done.verified) == ("scored", 20.0, True)
    assert contest.attempts.evaluation(attempt.id) == evaluation
    assert contest.attempts.pending() == []


def test_an_attempt_is_scored_once(contest: Store) -> None:
    attempt = submitted(contest)
    assert finish(contest, attempt, an_outcome(5.0)) is True
    assert finish(contest, attempt, an_outcome(9.0)) is False
    assert [each.score for each in contest.attempts.history(attempt.id)] == [5.0]
    assert len(list(contest.ratings.matches())) == 1


def test_a_failed_attempt_has_an_error_and_is_a_loss(contest: Store) -> None:
    attempt = submitted(contest)
    outcome = Outcome(score=None, error="the plugin crashed", origin=ORIGIN)
    assert finish(contest, attempt, outcome) is True
    done = contest.attempts.get(attempt.id)
    assert (done.state, done.outcome) == ("failed", outcome)
    assert [each.result for each in contest.ratings.matches()] == ["loss"]
    assert contest.boards.top("sums") == []


@pytest.mark.parametrize("end", ["entered", "expired", "withdrawn"])
def test_only_what_was_submitted_is_scored(contest: Store, end: str) -> None:
    attempt = enter(contest)
    if end == "expired":
        contest.attempts.expire(5000.0)
    elif end == "withdrawn":
        contest.attempts.withdraw(attempt.id, "alice", 11.0)
    with refused(f"attempt {attempt.id} is {end}, and cannot be scored"):
        finish(contest, attempt, an_outcome())


def test_a_score_by_a_rule_that_changed_is_refused_and_stays_pending(contest: Store) -> None:
    attempt = submitted(contest)
    stored = contest.challenges.find("sums")
    republish(contest)

    def end(stored: StoredChallenge) -> bool:
        return contest.attempts.finish(
            attempt.id, Evaluation(), an_outcome(), at=20.0, verified=False, scored_by=stored
        )

    with pytest.raises(WorkFailed, match=r"the scoring of challenge 'sums' changed while.*again"):
        end(stored)
    assert contest.attempts.pending() == [attempt]
    assert contest.attempts.history(attempt.id) == []
    assert end(contest.challenges.find("sums")) is True


def test_the_history_names_the_origin(contest: Store) -> None:
    attempt = play(contest, "alice", an_outcome(5.0, origin=ORIGIN), at=10.0)
    entry = ScoreEntry(at=10.0, score=5.0, result="win", origin=ORIGIN)
    assert contest.attempts.history(attempt.id) == [entry]


def test_numbers_that_no_column_can_hold_are_not_known(contest: Store) -> None:
    metrics = Metrics(tokens_total=10**30, rating=float("nan"), cost=float("inf"))
    done = play(contest, "alice", an_outcome(float("inf"), metrics=metrics))
    assert done.outcome == an_outcome(None, metrics=Metrics())
    assert contest.boards.top("sums")[0].value is None


def test_every_change_is_written_down(contest: Store) -> None:
    entered = enter(contest, at=10.0)
    contest.attempts.submit(entered.id, "alice", PAYLOAD, at=11.0)
    finish(contest, entered, an_outcome(2.5), at=12.0)
    assert contest.attempts.audit(entered.id) == [
        AuditEntry(at=10.0, actor="alice", event="entered", after="entered"),
        AuditEntry(at=11.0, actor="alice", event="submitted", before="entered", after="submitted"),
        AuditEntry(
            at=12.0,
            actor="system",
            event="scored",
            before="submitted",
            after="scored",
            note={"score": 2.5},
        ),
    ]


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("change", ["UPDATE {} SET tenant = 'x'", "DELETE FROM {}"])
def test_the_database_refuses_to_change_a_log(contest: Store, log: str, change: str) -> None:
    play(contest, "alice", an_outcome())
    with (
        contest._database.engine.connect() as connection,
        pytest.raises(DBAPIError, match=f"{log} is only ever added to"),
    ):
        connection.execute(text(change.format(log)))


# Reading


def test_attempts_are_listed_newest_first(contest: Store) -> None:
    first, second = play(contest, "alice", an_outcome()), play(contest, "bob", an_outcome())
    third = submitted(contest, "alice")
    assert contest.attempts.of("sums") == [third, second, first]
    assert contest.attempts.of("sums", agent="alice") == [third, first]
    assert contest.attempts.of("sums", state="scored", limit=1, offset=1) == [first]


def test_the_zeros_of_an_id_may_be_left_out(contest: Store) -> None:
    entered = contest.attempts.enter("sums", "alice", at=1.0, seed=1)
    assert contest.attempts.get(f"a{int(entered.id[1:])}") == entered


@pytest.mark.parametrize("identifier", ["", "a", "a999999999999", "a00000000000é", "x" * 99])
def test_an_attempt_that_is_not_there(contest: Store, identifier: str) -> None:
    with refused(f"there is no attempt {identifier!r}; check the id"):
        contest.attempts.get(identifier)


def test_tenants_do_not_see_each_other(shared_url: str, contest: Store) -> None:
    attempt = submitted(contest)
    with open_store(shared_url, tenant="another") as other:
        assert other.attempts.pending() == []
        assert other.attempts.expire(1e9) == 0
        for use in (other.attempts.get, other.attempts.payload, other.attempts.audit):
            with refused("there is no attempt"):
                use(attempt.id)
        with refused("there is no attempt"):
            finish(other, attempt, an_outcome())
        with refused("'alice' has no attempt"):
            other.attempts.submit(attempt.id, "alice", PAYLOAD, at=11.0)

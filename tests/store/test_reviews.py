"""People's own scores: one of a name for each person and case, theirs to change, in the log."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.store.contest_samples import quick_store

from tallymark.errors import InvalidInput, NotAllowed, NotFound
from tallymark.runs.record import CaseResult, RunRecord
from tallymark.runs.reviews import CaseKey, GivenScore, Review
from tallymark.store import Store

KEY = CaseKey("r1", "polite", 0)


@pytest.fixture
def store(shared_url: str) -> Iterator[Store]:
    """With a run of one case."""
    with quick_store(shared_url, uuid.uuid4().hex) as opened:
        opened.create_run(RunRecord(id="r1", suite="s", model="m", status="completed"))
        opened.add_results("r1", [CaseResult(case="polite", status="passed")])
        yield opened


def give(store: Store, author: str, at: float = 1.0, **fields: object) -> Review:
    found, _ = store.reviews.give(KEY, author, GivenScore(**fields), at=at)  # type: ignore[arg-type]
    return found


def test_a_score_has_its_author_and_its_moments(store: Store) -> None:
    given = give(store, "alice", at=5.0, value=0.25, comment=" too short ")
    assert (given.author, given.value, given.comment) == ("alice", 0.25, "too short")
    assert (given.created_at, given.changed_at, given.says) == (5.0, 5.0, "fail")
    assert store.reviews.all() == [given]


def test_said_again_it_takes_the_place_of_ones_own_and_of_nobody_elses(store: Store) -> None:
    first = give(store, "alice", label="pass")
    other = give(store, "bob", label="pass")
    again = give(store, "alice", at=9.0, label="fail", comment="I looked again")
    assert (again.id, again.value, again.changed_at) == (first.id, 0.0, 9.0)
    assert store.reviews.all(run="r1", case="polite") == [other, again]
    named = give(store, "alice", name="tone", value=1.0)
    assert named.id != first.id


def test_comments_are_as_many_as_one_likes(store: Store) -> None:
    words = [give(store, "alice", comment=text) for text in ("one", "two")]
    assert [each.comment for each in store.reviews.of_cases("r1", [("polite", 0)])] == [
        "one",
        "two",
    ]
    assert {each.name for each in words} == {"comment"}
    assert store.reviews.of_cases("r1", [("polite", 1)]) == []


def test_only_its_author_changes_or_withdraws_it(store: Store) -> None:
    given = give(store, "alice", label="pass")
    with pytest.raises(NotAllowed, match="another's"):
        store.reviews.change(given.id, "bob", GivenScore(label="fail"), at=2.0)
    with pytest.raises(NotAllowed):
        store.reviews.withdraw(given.id, "bob", at=2.0)
    with pytest.raises(InvalidInput, match="needs a value or a label"):
        store.reviews.change(given.id, "alice", GivenScore(comment="words"), at=2.0)
    assert store.reviews.change(given.id, "alice", GivenScore(value=0), at=2.0).says == "fail"
    store.reviews.withdraw(given.id, "alice", at=3.0)
    assert store.reviews.all() == []
    for identifier in (given.id, "s0", "12", "s" + "9" * 30, "s-1", "sé"):
        with pytest.raises(NotFound):
            store.reviews.withdraw(identifier, "alice", at=4.0)
    assert give(store, "alice", label="fail").id != given.id


def test_all_of_it_is_in_the_log(store: Store) -> None:
    given = give(store, "alice", label="pass")
    give(store, "alice", at=2.0, label="pass")  # says nothing new
    give(store, "alice", at=3.0, label="fail", comment="no")
    store.reviews.withdraw(given.id, "alice", at=4.0)
    entries = [each for each in store.audit_log.entries() if each.event.startswith("score")]
    assert [each.event for each in entries] == ["score withdrawn", "score changed", "score given"]
    note = entries[1].note or {}
    assert note["was"] == {"value": 1.0, "label": "pass", "comment": ""}
    assert (note["author"], note["label"], note["case"]) == ("alice", "fail", "polite")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "is empty"),
        ({"comment": "  "}, "is empty"),
        ({"value": 1.01}, "from 0 to 1"),
        ({"value": float("nan")}, "from 0 to 1"),
        ({"name": "", "value": 1}, "cannot name"),
        ({"name": "a\nb", "value": 1}, "cannot name"),
        ({"name": "comment", "value": 1}, "words alone"),
        ({"label": "x" * 61}, "at most 60"),
        ({"label": "a\u202eb"}, "at most 60"),
        ({"comment": "x" * 10_001}, "at most 10,000"),
    ],
)
def test_what_cannot_be_a_score_is_refused(
    store: Store, fields: dict[str, object], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        give(store, "alice", 1.0, **fields)
    assert store.reviews.all() == []


def test_what_has_not_run_cannot_be_scored(store: Store) -> None:
    for key in (CaseKey("r1", "rude"), CaseKey("r1", "polite", 1), CaseKey("r2", "polite")):
        with pytest.raises(NotFound, match="no result of the case"):
            store.reviews.give(key, "alice", GivenScore(label="pass"), at=1.0)


def test_one_person_at_two_screens_has_one_score(store: Store) -> None:
    with ThreadPoolExecutor(4) as pool:
        ids = {each.id for each in pool.map(lambda n: give(store, "alice", value=n / 4), range(4))}
    assert len(ids) == 1
    assert len(store.reviews.all()) == 1


def test_scores_go_with_their_run(store: Store) -> None:
    give(store, "alice", label="pass")
    store.delete_run("r1")
    assert store.reviews.all() == []


def test_of_another_tenant_nothing_is_seen(store: Store) -> None:
    given = give(store, "alice", label="pass")
    other = store.for_tenant("other")
    assert other.reviews.all() == []
    with pytest.raises(NotFound):
        other.reviews.withdraw(given.id, "alice", at=2.0)


def test_a_list_is_filtered_and_goes_on(store: Store) -> None:
    given = [give(store, author, value=0.5) for author in ("alice", "bob", "charlie")]
    assert store.reviews.all(limit=2) == given[:0:-1]
    assert store.reviews.all(before=int(given[1].id[1:])) == given[:1]
    assert store.reviews.all(author="bob") == [given[1]]
    assert store.reviews.all(name="tone") == []

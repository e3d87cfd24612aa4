"""A request that is sent again is answered alike, and done once."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import func, select

from tallymark.errors import Conflict, InvalidInput, WorkFailed
from tallymark.store import Store
from tallymark.store.idempotency import GIVEN_UP_S, KEPT_S, StoredAnswer
from tallymark.store.idempotency import idempotent_answers as table

ANSWER = StoredAnswer(status=201, headers={"location": "/x"}, body=b'{"a": "\xc3\xa4\\u0000"}')


def begin(store: Store, *, digest: str = "d", at: float = 10.0, **who: str) -> StoredAnswer | None:
    given = {"caller": "key_1", "key": "k", **who}
    return store.idempotent_answers.begin(given["caller"], given["key"], digest, at=at)


def test_the_same_request_gets_the_same_answer(store: Store) -> None:
    assert begin(store) is None
    store.idempotent_answers.finish("key_1", "k", ANSWER)
    assert begin(store, at=20.0) == ANSWER
    assert begin(store, caller="key_2") is None
    assert begin(store, key="l") is None


def test_another_tenant_has_answers_of_its_own(store: Store, make_store: Any) -> None:
    begin(store)
    store.idempotent_answers.finish("key_1", "k", ANSWER)
    assert begin(make_store()) is None


def test_the_key_of_another_request_is_refused(store: Store) -> None:
    begin(store)
    with pytest.raises(Conflict, match="used before for another request"):
        begin(store, digest="e")


def test_of_requests_that_race_one_is_served(store: Store) -> None:
    def ask(_: int) -> str:
        try:
            return "mine" if begin(store) is None else "answered"
        except Conflict:
            return "being served"

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(ask, range(4))) == ["being served"] * 3 + ["mine"]


def test_what_came_to_nothing_may_be_asked_again(store: Store) -> None:
    begin(store)
    answers = store.idempotent_answers
    name = answers.find_name("key_1", "k")
    answers.forget("key_1", "k")
    answers.forget("key_1", "k")
    # It may have gone on with what another had left: that is still found.
    assert begin(store) is None
    assert answers.find_name("key_1", "k") == name is not None
    answers.forget("key_1", "k")
    assert begin(store, digest="another") is None  # which must not be answered with the first one's
    assert answers.find_name("key_1", "k") not in (name, None)


def test_what_another_server_refused_may_be_asked_again(store: Store) -> None:
    with subprocess.Popen(["sleep", "60"]) as server:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("os.getpid", lambda: server.pid)
            begin(store)
            store.idempotent_answers.forget("key_1", "k")
        assert begin(store, digest="another") is None
        server.kill()


def test_what_broke_off_is_taken_over_under_its_name(store: Store) -> None:
    """Whoever makes it again finds what there is of it, also where the database itself was gone."""
    answers = store.idempotent_answers
    begin(store)
    name = answers.find_name("key_1", "k")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store._database, "write", lambda _: refuse())
        with pytest.raises(WorkFailed):
            answers.finish("key_1", "k", ANSWER)
    for _ in range(2):
        assert begin(store) is None
        assert answers.find_name("key_1", "k") == name
        answers.leave("key_1", "k")
    with pytest.raises(Conflict, match="for another request"):
        begin(store, digest="another")


def refuse() -> None:
    raise WorkFailed("the database is gone")


def test_an_answer_is_not_forgotten_by_mistake(store: Store) -> None:
    begin(store)
    store.idempotent_answers.finish("key_1", "k", ANSWER)
    store.idempotent_answers.forget("key_1", "k")
    assert begin(store) == ANSWER


def test_a_request_that_died_with_its_server_may_be_made_again(store: Store) -> None:
    begin(store, at=10.0)
    with pytest.raises(Conflict, match="still being served"):
        begin(store, at=9.0 + GIVEN_UP_S)
    assert begin(store, at=10.0 + GIVEN_UP_S) is None


def test_of_a_server_that_was_killed_that_is_known_at_once(store: Store) -> None:
    with subprocess.Popen(["sleep", "60"]) as server:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("os.getpid", lambda: server.pid)
            begin(store)
        name = store.idempotent_answers.find_name("key_1", "k")
        with pytest.raises(Conflict, match="still being served"):
            begin(store)
        server.kill()
    assert begin(store) is None
    with pytest.raises(Conflict, match="still being served"):
        begin(store)  # by whoever took it over
    assert name == store.idempotent_answers.find_name("key_1", "k") is not None
    store.idempotent_answers.finish("key_1", "k", ANSWER)
    assert store.idempotent_answers.find_name("key_1", "k") is None


def test_a_clock_that_was_wrong_by_a_day_holds_nobody_up(store: Store) -> None:
    begin(store, at=86_400.0)
    assert begin(store, at=10.0) is None


def test_answers_are_kept_for_a_day(store: Store) -> None:
    begin(store, at=10.0)
    store.idempotent_answers.finish("key_1", "k", ANSWER)
    assert begin(store, at=9.0 + KEPT_S) == ANSWER
    begin(store, key="next", at=10.0 + KEPT_S)
    with store._database.read() as connection:
        query = select(func.count()).where(table.c.tenant == store.tenant)
        assert connection.scalar(query) == 1


@pytest.mark.parametrize("key", ["", "x" * 256, "a\0b", "a\nb"])
def test_a_key_that_cannot_be_kept_is_refused(store: Store, key: str) -> None:
    with pytest.raises(InvalidInput, match="the idempotency key cannot be used"):
        begin(store, key=key)

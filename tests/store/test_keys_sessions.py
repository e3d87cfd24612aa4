"""Sessions: found by a token that is not kept, over with their key."""

from __future__ import annotations

from sqlalchemy import select
from tests.store.account_samples import add_key

from tallymark.store import Store
from tallymark.store.keys import SESSION_PREFIX, Session, make_secret, sessions


def sign_in(store: Store, *, at: float = 20.0, owner: str = "alice") -> tuple[Session, str]:
    key, _ = add_key(store, owner=owner)
    session = Session(key=key, csrf="c", created_at=at, expires_at=at + 100.0)
    token = make_secret(SESSION_PREFIX)
    store.sessions.add(session, token)
    return session, token


def test_a_session_is_found_with_its_key(store: Store) -> None:
    session, token = sign_in(store)
    assert store.sessions.find(token) == session
    assert store.sessions.find(make_secret(SESSION_PREFIX)) is None
    with store._database.read() as connection:
        assert token not in repr(connection.execute(select(sessions)).all())


def test_who_signs_out_is_signed_out(store: Store) -> None:
    _, token = sign_in(store)
    store.sessions.remove(token)
    assert store.sessions.find(token) is None


def test_an_owner_is_signed_out_everywhere_and_nobody_else(store: Store) -> None:
    tokens = [sign_in(store)[1], sign_in(store)[1]]
    _, bobs = sign_in(store, owner="bob")
    assert store.sessions.remove_all("alice", at=30.0) == 2
    assert [store.sessions.find(each) for each in tokens] == [None, None]
    assert store.sessions.find(bobs) is not None


def test_revoking_the_key_ends_its_sessions(store: Store) -> None:
    session, token = sign_in(store)
    store.keys.revoke(session.key.id, at=30.0)
    assert store.sessions.find(token) is None


def test_sessions_that_are_over_are_forgotten_by_the_next(store: Store) -> None:
    session, old = sign_in(store)
    later = Session(key=session.key, csrf="d", created_at=130.0, expires_at=200.0)
    store.sessions.add(later, make_secret(SESSION_PREFIX))
    assert store.sessions.find(old) is None

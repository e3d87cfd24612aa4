"""Databases of both kinds, stores and tenants for the tests of the store."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.postgres import Postgres, postgres, postgres_url
from tests.store.account_samples import make_tenant
from tests.store.contest_samples import by, quick_store
from tests.store.next_version import next_version

from tallymark.store import Store, open_store

__all__ = ["next_version", "postgres", "postgres_url"]


@pytest.fixture(autouse=True)
def no_key_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keys of whoever runs the tests are neither used nor made."""
    monkeypatch.delenv("TALLY_SECRET_KEY", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place with nothing in it, on each database."""
    return make_empty_url(request, tmp_path)


@pytest.fixture(params=["sqlite", "postgresql"])
def own_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of each kind for one test; our tables are there where they take long to make."""
    return make_own_url(request, tmp_path)


def make_empty_url(request: pytest.FixtureRequest, folder: Path) -> str:
    """In the database that the fixture's parameter names."""
    if request.param == "sqlite":
        return f"sqlite:///{folder}/tally.db"
    server: Postgres = request.getfixturevalue("postgres")
    return server.fresh()


def make_own_url(request: pytest.FixtureRequest, folder: Path) -> str:
    """The same, with our tables on PostgreSQL."""
    if request.param == "sqlite":
        return make_empty_url(request, folder)
    server: Postgres = request.getfixturevalue("postgres")
    return server.furnished()


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def shared_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database of each kind that the tests of a file share: tenants keep them apart."""
    return make_own_url(request, tmp_path_factory.mktemp("shared"))


@pytest.fixture(scope="module")
def contests(shared_url: str) -> Any:
    """Stores of their own on one database, as many as are asked for, each with a challenge."""

    @contextmanager
    def fresh(strategy: Any = "custom", **fields: Any) -> Iterator[Store]:
        with quick_store(shared_url, uuid.uuid4().hex) as store:
            store.challenges.publish(by(strategy, **fields), b"files", at=0.0)
            yield store

    return fresh


@pytest.fixture
def contest(contests: Any) -> Iterator[Store]:
    """A store of its own with the challenge `sums` in it."""
    with contests() as store:
        yield store


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    """A store in a file, with little patience."""
    with open_store(str(tmp_path / "tally.db"), patience=0.2) as store:
        yield store


@pytest.fixture
def make_store(shared_url: str) -> Iterator[Any]:
    """Opens stores of new tenants; `like` another, that one's again, as another server would."""
    with ExitStack() as stack:

        def open_one(*, like: Store | None = None, **settings: Any) -> Store:
            tenant = f"t{uuid.uuid4().hex[:20]}" if like is None else like.tenant
            store = stack.enter_context(quick_store(shared_url, tenant))
            if like is None:
                make_tenant(store, **settings)
            return store

        yield open_one


@pytest.fixture
def store(make_store: Any) -> Store:
    """A store of a new tenant."""
    made: Store = make_store()
    return made

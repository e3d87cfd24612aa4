"""What the tests of the store share: where to store, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.postgres import Postgres, postgres, postgres_url

from tallymark.store import Store, open_store

__all__ = ["postgres", "postgres_url"]


@pytest.fixture(autouse=True)
def no_key_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keys of whoever runs the tests are neither used nor made."""
    monkeypatch.delenv("TALLY_SECRET_KEY", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place with nothing in it, on each database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/tally.db"
    server: Postgres = request.getfixturevalue("postgres")
    return server.fresh()


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[Store]:
    """A store in a file, with little patience."""
    with open_store(str(tmp_path / "tally.db"), patience=0.2) as store:
        yield store

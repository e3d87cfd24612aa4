"""Where to play: on SQLite, and for a proof on PostgreSQL too, whose own tests are the store's."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.store.conftest import make_empty_url, no_key_of_the_user, postgres, postgres_url

__all__ = ["no_key_of_the_user", "postgres", "postgres_url"]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.proof)])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place with nothing in it."""
    return make_empty_url(request, tmp_path)

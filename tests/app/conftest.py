"""What the tests of services share: stores on both databases."""

from __future__ import annotations

from tests.postgres import postgres, postgres_url
from tests.store.conftest import contests, shared_url

__all__ = ["contests", "postgres", "postgres_url", "shared_url"]

"""Where to play: on both databases, as the tests of the store do."""

from __future__ import annotations

from tests.store.conftest import empty_url, no_key_of_the_user, postgres, postgres_url

__all__ = ["empty_url", "no_key_of_the_user", "postgres", "postgres_url"]

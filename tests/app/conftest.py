"""Where services work in tests: on both databases, with no key of whoever runs them."""

from __future__ import annotations

from tests.postgres import postgres, postgres_url
from tests.store.conftest import empty_url, no_key_of_the_user

__all__ = ["empty_url", "no_key_of_the_user", "postgres", "postgres_url"]

"""Where services work in tests: on both databases, with no key of whoever runs them."""

from __future__ import annotations

from tests.postgres import postgres, postgres_url
from tests.store.conftest import contests, empty_url, no_key_of_the_user, shared_url

__all__ = [
    "contests",
    "empty_url",
    "no_key_of_the_user",
    "postgres",
    "postgres_url",
    "shared_url",
]

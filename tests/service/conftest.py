"""Where services work in tests: on both databases, with no key of whoever runs them."""

from __future__ import annotations

from tests.postgres import postgres, postgres_url
from tests.store.conftest import contests, no_key_of_the_user, own_url, shared_url

__all__ = [
    "contests",
    "no_key_of_the_user",
    "own_url",
    "postgres",
    "postgres_url",
    "shared_url",
]

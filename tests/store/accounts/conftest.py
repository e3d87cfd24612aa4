"""Tenants of their own on both databases."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from tests.store.accounts.account_samples import make_tenant
from tests.store.contest_samples import quick_store

from tallymark.store import Store


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

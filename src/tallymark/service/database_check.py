"""The check of a whole database, with its plugins run again where that is asked for."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge
    from tallymark.challenges.plugins import Plugin
    from tallymark.store import Store
    from tallymark.store.checks.findings import CheckReport


def check_database(store: Store, *, plugins: bool = False) -> CheckReport:
    """What is stored otherwise than the log says, of all tenants; nothing is changed."""
    if not plugins:
        return store.check_all()
    from tallymark.service.rulings import Rulings  # noqa: PLC0415 (the sandbox loads with it)

    known: dict[str, Rulings] = {}
    with ExitStack() as left:

        def find(tenant: str, challenge: Challenge) -> Plugin | None:
            if tenant not in known:
                made = Rulings(store.for_tenant(tenant), None, time.time)
                known[tenant] = left.enter_context(closing(made))
            return known[tenant].load_unpaused(challenge)

        return store.check_all(find)

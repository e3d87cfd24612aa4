"""A record by another rule beats nobody, whenever that rule comes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.postgres import Postgres
from tests.store.contest_samples import a_challenge, an_outcome, play, quick_store
from tests.store.test_webhooks import heard, listen

from tallymark.challenges.attempt import Metrics
from tallymark.challenges.challenge import ScoringRule
from tallymark.store import webhooks


def test_a_rule_that_changes_while_it_is_told_beats_no_record(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On PostgreSQL, where others write between two statements."""
    read = webhooks._read_record
    with quick_store(postgres.furnished()) as store:
        store.challenges.publish(a_challenge(), b"files", at=0.0)
        play(store, "alice", an_outcome(-10.0, metrics=Metrics(tokens_total=5)), at=1.0)
        listen(store)
        play(store, "bob", an_outcome(-20.0, metrics=Metrics(tokens_total=9)), at=20.0)

        def change_then_read(*given: Any) -> Any:
            if store.challenges.get("sums").version == "v1":
                new = a_challenge(version="v2", scoring=ScoringRule(strategy="first"))
                store.challenges.publish(new, b"files", at=30.0)
            return read(*given)

        monkeypatch.setattr(webhooks, "_read_record", change_then_read)
        store.follow_challenges()
        store.follow_challenges()
        assert heard(store) == []

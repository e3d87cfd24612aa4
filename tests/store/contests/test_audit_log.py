"""The audit log: searched by what people ask, page by page, without reading all of it."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError
from tests.store.contest_samples import an_outcome, play

from tallymark.store import Store
from tallymark.store.contests.audit_log import Actor, act_as, write_account_entry

WHY = "a test"


@pytest.fixture
def busy(contest: Store) -> Store:
    """Two agents have played; one attempt is void, one agent out, one variable set by alice."""
    made = play(contest, "bot-a", an_outcome())
    play(contest, "bot-b", an_outcome())
    contest.attempts.void(made.id, at=30.0, reason=WHY)
    contest.disqualifications.disqualify("bot-b", at=31.0, reason=WHY)
    with act_as(Actor("admin alice", "192.0.2.7")):
        contest.set_var("region", "eu")
    return contest


def events(store: Store, **filters: Any) -> list[str]:
    return [each.event for each in store.audit_log.entries(**filters)]


def test_acts_are_newest_first_and_attempts_are_left_out(busy: Store) -> None:
    assert events(busy) == ["variable set", "disqualified", "voided", "published"]
    seqs = [each.seq for each in busy.audit_log.entries()]
    assert seqs == sorted(seqs, reverse=True)


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"challenge": "sums"}, ["voided", "published"]),
        ({"agent": "bot-a"}, ["voided"]),
        ({"agent": "bot-b"}, ["disqualified"]),
        ({"actor": "admin alice"}, ["variable set"]),
        ({"event": "voided"}, ["voided"]),
        ({"event": "voided", "agent": "bot-b"}, []),
        ({"challenge": "none"}, []),
        ({"limit": 1}, ["variable set"]),
        ({"challenge": None, "agent": None, "limit": 2}, ["variable set", "disqualified"]),
    ],
)
def test_filters(busy: Store, filters: dict[str, Any], found: list[str]) -> None:
    assert events(busy, **filters) == found


def test_pages_follow_each_other_both_ways(busy: Store) -> None:
    first, second = busy.audit_log.entries(limit=2)
    assert events(busy, before=second.seq) == ["voided", "published"]
    assert events(busy, since=second.seq) == [first.event]


def test_an_entry_says_from_where(busy: Store) -> None:
    (entry,) = busy.audit_log.entries(actor="admin alice")
    assert (entry.address, entry.note) == ("192.0.2.7", {"variable": "region"})
    assert busy.audit_log.entries(event="voided")[0].address is None


def test_secrets_and_variables_are_logged_by_name_alone(contest: Store) -> None:
    contest.set_secret("TOKEN", "s3cret-value")
    contest.delete_secret("TOKEN")
    contest.set_var("region", "eu-value")
    contest.delete_var("region")
    assert events(contest, limit=4) == [
        "variable deleted",
        "variable set",
        "secret deleted",
        "secret set",
    ]
    assert "value" not in repr(contest.audit_log.entries(limit=4))


def test_another_tenants_log_is_not_seen(busy: Store, contests: Any) -> None:
    with contests() as other:
        assert events(other) == ["published"]


def test_what_attempts_wrote_is_not_read(contest: Store) -> None:
    query = contest.audit_log._select({"challenge": "sums"}).limit(10)
    engine = contest._database.engine
    statement = str(query.compile(engine, compile_kwargs={"literal_binds": True}))
    explain = "EXPLAIN QUERY PLAN " if engine.name == "sqlite" else "EXPLAIN "
    with contest._database.read() as connection:
        if engine.name == "postgresql":
            # With so few rows, which plan is cheapest depends on when they were counted.
            connection.execute(text("SET LOCAL enable_seqscan = off"))
            connection.execute(text("SET LOCAL enable_sort = off"))
        plan = repr(connection.exec_driver_sql(explain + statement).all())
    assert "ix_contest_audit_acts" in plan


def test_entries_of_a_tenant_are_seen_in_their_order(contest: Store) -> None:
    """Else one that is older than the last that was seen could come after it, and not be seen."""
    if contest._database.address.path is not None:
        return  # on SQLite every writer is alone

    def write(connection: Connection) -> None:
        write_account_entry(connection, contest.tenant, "first", 1.0)
        with contest._database.engine.begin() as another:
            another.exec_driver_sql("SET LOCAL lock_timeout = 50")
            with pytest.raises(OperationalError, match="lock timeout"):
                write_account_entry(another, contest.tenant, "second", 2.0)

    contest._database.write(write)

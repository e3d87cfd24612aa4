"""Batches of several processes on one database, the order of the log, and processes killed."""

from __future__ import annotations

import subprocess
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from scripts.server_process import require_as_logged
from sqlalchemy import text
from tests.store.contest_samples import a_challenge, by, quick_store
from tests.store.contests.test_attempt_writer import a_report

from tallymark.challenges.attempt import Attempt
from tallymark.ratings import Counts, elo
from tallymark.store import Store, open_store

ROOT = next(each for each in Path(__file__).parents if each.name == "tests").parent


def start_server(url: str, tenant: str, word: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.store.contests.batch_server", url, tenant, word]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def kill_after(server: subprocess.Popen[str], count: int) -> list[str]:
    """Kills it when so many reports were answered; all that it said were."""
    assert server.stdout is not None
    said = [server.stdout.readline() for _ in range(count)]
    server.kill()
    # Not `communicate`, which passes over what `readline` has read ahead, and begins within a line.
    rest = server.stdout.read()
    server.stdout.close()
    server.wait(600)
    # A line that was cut short was not said.
    return [
        line.rstrip("\n") for line in [*said, *rest.splitlines(keepends=True)] if line[-1:] == "\n"
    ]


def read(store: Store, query: str) -> list[Any]:
    with store._database.read() as connection:
        return list(connection.execute(text(query), {"tenant": store.tenant}).all())


def assert_whole(store: Store, answered: list[str]) -> None:
    """Every answered report is there, scored once; all else follows from what is there."""
    keys = read(store, "SELECT key FROM idempotency WHERE tenant = :tenant")
    asked = {key.removeprefix("report ") for (key,) in keys}
    assert set(answered) <= asked
    states = Counter(
        state for (state,) in read(store, "SELECT state FROM attempts WHERE tenant = :tenant")
    )
    assert states == {"scored": len(asked)}
    for table in ("attempt_scores", "score_history"):
        found = read(store, f"SELECT attempt FROM {table} WHERE tenant = :tenant")
        assert len(found) == len({row.attempt for row in found}) == len(asked)
    events = read(store, "SELECT attempt, event FROM contest_audit WHERE tenant = :tenant")
    counted = Counter(event for attempt, event in events if attempt is not None)
    assert counted == dict.fromkeys(("entered", "reported", "scored"), len(asked))
    log = list(store.ratings.matches())
    assert dict(store.ratings.elo()) == elo.replay(log)
    assert set(store.ratings.pairs()) == set(Counts.of(log))
    top = store.boards.top("sums")
    assert len(top) == store.boards.size("sums")
    assert sum(each.tries for each in top) == len(asked)


def kill_servers(url: str, times: int, servers: int, reports: int) -> None:
    with open_store(url, tenant=uuid.uuid4().hex) as store:
        store.challenges.publish(by("custom"), b"", at=0.0)
        answered: list[str] = []
        for number in range(times):
            running = [start_server(url, store.tenant, f"{number}-{nth}") for nth in range(servers)]
            for server in running:
                answered += kill_after(server, reports)
            assert_whole(store, answered)
        assert len(answered) >= times * servers * reports
        require_as_logged(store, "attempts", "boards", "ratings")


def test_a_server_killed_under_load_has_stored_all_that_it_answered(own_url: str) -> None:
    kill_servers(own_url, times=1, servers=1, reports=200)


@pytest.mark.proof
def test_servers_killed_ten_times_have_stored_all_that_they_answered(own_url: str) -> None:
    kill_servers(own_url, times=10, servers=1, reports=300)


def test_two_servers_on_one_database_score_everything_once(own_url: str) -> None:
    kill_servers(own_url, times=1, servers=2, reports=150)


def test_stores_that_race_for_a_key_make_one_attempt(shared_url: str) -> None:
    """Under one key, at two challenges: one is done, and the other told that it conflicts."""
    tenant = uuid.uuid4().hex
    with quick_store(shared_url, tenant) as first, quick_store(shared_url, tenant) as second:
        for name in ("sums", "chess"):
            first.challenges.publish(a_challenge(name=name), b"", at=0.0)

        def race(number: int) -> list[str]:
            together = threading.Barrier(2)

            def ask(store: Store, name: str) -> str:
                item = a_report(store, "alice", challenge=name, key=f"k{number}")
                together.wait(60)
                return type(store.attempts.do_all([item])[0]).__name__

            asked = (pool.submit(ask, *each) for each in ((first, "sums"), (second, "chess")))
            return sorted(each.result(60) for each in list(asked))

        with ThreadPoolExecutor(2) as pool:
            assert [race(number) for number in range(10)] == [["Attempt", "Conflict"]] * 10
        assert len(first.attempts.of("sums")) + len(first.attempts.of("chess")) == 10


def test_the_log_of_a_challenge_grows_in_the_order_of_commits(shared_url: str) -> None:
    """Whoever has read up to an entry never finds an earlier one afterwards."""
    tenant = uuid.uuid4().hex
    with quick_store(shared_url, tenant) as store, quick_store(shared_url, tenant) as other:
        store.challenges.publish(by("custom", time_limit_s=5.0), b"", at=0.0)
        acts: list[Callable[[Store, int], object]] = [
            lambda at, n: at.attempts.do_all([a_report(at, f"agent-{n % 5}") for _ in range(3)]),
            lambda at, n: at.attempts.enter("sums", f"late-{n}", at=10.0, seed=n),
            lambda at, n: at.attempts.expire(100.0 + n),
            lambda at, n: at.challenges.note("sums", "noted", {"n": n}, at=10.0),
            lambda at, n: at.challenges.freeze("sums", at=20.0 + n, reason=f"{n}"),
            lambda at, n: at.challenges.unfreeze("sums", at=20.0 + n, reason=f"{n}"),
            lambda at, n: at.challenges.publish(by("custom", version=f"v{n}"), b"", at=10.0),
        ]
        done = threading.Event()

        def act(nth: int) -> None:
            for number in range(12):
                acts[nth]((store, other)[(nth + number) % 2], number)

        def watch() -> list[int]:
            mine = "tenant = :tenant AND challenge_id > 0"
            query = text(f"SELECT seq FROM contest_audit WHERE {mine} ORDER BY seq")
            seen: list[int] = []
            while True:
                last = done.is_set()
                with store._database.read() as connection:
                    now = list(connection.scalars(query, {"tenant": tenant}))
                assert now[: len(seen)] == seen
                seen = now
                if last:
                    return seen

        with ThreadPoolExecutor(len(acts) + 1) as pool:
            watching = pool.submit(watch)
            try:
                list(pool.map(act, range(len(acts))))
            finally:
                done.set()
            assert len(watching.result(60)) > 50


def test_agents_that_enter_at_once_with_new_names_wait_for_each_other(shared_url: str) -> None:
    """Batches with new agents and several challenges, in any order: nobody waits in a circle."""
    tenant = uuid.uuid4().hex
    with quick_store(shared_url, tenant) as store, quick_store(shared_url, tenant) as other:
        names = ("sums", "chess", "go")
        for name in names:
            store.challenges.publish(a_challenge(name=name), b"", at=0.0)

        def play(nth: int) -> int:
            at = (store, other)[nth % 2]
            items = [
                a_report(at, f"agent-{number % 7}-{nth * number % 5}", challenge=names[number % 3])
                for number in range(20 * nth, 20 * nth + 20)
            ]
            return sum(isinstance(each, Attempt) for each in at.attempts.do_all(items))

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(play, range(8))) == [20] * 8
        log = list(store.ratings.matches())
        assert dict(store.ratings.elo()) == elo.replay(log)

"""A database of every schema that was ever released is brought up to date, and tells the same.

Each was made by the code of its own time: see `released/make.py`. What that code said of its runs,
boards and ratings is what is said of them today.
"""

from __future__ import annotations

import gzip
import json
import math
import random
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.store.contest_samples import a_challenge, an_outcome, play, quick_store
from tests.store.run_samples import a_run

from tallymark.store import Store, open_store
from tallymark.store.schema import CURRENT, list_versions

RELEASED = Path(__file__).with_name("released")
NEVER_RELEASED = {"0002", "0011"}
"""Each came together with the one after it."""
VERSIONS = sorted({path.name.partition(".")[0] for path in RELEASED.glob("*.gz")})
DERIVED = "0005"
"""From here on matches follow from the attempts: before it, ratings told something else."""

FROZEN = "0012"
"""From here on the public does not see who has won the races since."""


def read_released(version: str, dialect: str) -> dict[str, Any]:
    kept = (RELEASED / f"{version}.{dialect}.json.gz").read_bytes()
    found: dict[str, Any] = json.loads(gzip.decompress(kept))
    return found


def test_every_version_but_the_last_is_there() -> None:
    """When another comes, the one before it is made: python -m tests.store.released.make."""
    assert set(VERSIONS) | {CURRENT} == list_versions() - NEVER_RELEASED


@pytest.mark.parametrize("version", VERSIONS)
def test_on_sqlite(tmp_path: Path, version: str) -> None:
    released = read_released(version, "sqlite")
    path = tmp_path / "tally.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(released["dump"])
    connection.close()
    tell_the_same(f"sqlite:///{path}", version, released["said"])


@pytest.mark.proof
@pytest.mark.parametrize("version", VERSIONS)
def test_on_postgresql(postgres_url: str, version: str) -> None:
    released = read_released(version, "postgresql")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(released["dump"].encode())
    tell_the_same(postgres_url, version, released["said"])


@pytest.mark.parametrize("path", sorted(RELEASED.glob("*.backup")), ids=lambda path: path.stem)
def test_a_backup_on_either_database(empty_url: str, path: Path) -> None:
    """Of a database that SQLite kept."""
    with quick_store(empty_url) as store:
        store.backups.restore(path)
    tell_the_same(empty_url, path.stem, read_released(path.stem, "sqlite")["said"])


_OPEN = """
import os, sys
from tallymark.store import open_store

os.write(1, b".")
open_store(sys.argv[1], upgrade=True).close()
"""


@pytest.mark.proof
@pytest.mark.parametrize("version", VERSIONS)
def test_on_postgresql_by_processes_that_are_killed_and_two_at_once(
    postgres_url: str, version: str
) -> None:
    released = read_released(version, "postgresql")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(released["dump"].encode())
    dice = random.Random(version)
    for _ in range(3):
        with begin_opening(postgres_url) as process:
            assert process.stdout is not None
            process.stdout.read(1)
            time.sleep(dice.uniform(0.02, 0.6))
            process.kill()
    with begin_opening(postgres_url) as one, begin_opening(postgres_url) as other:
        assert (one.wait(60), other.wait(60)) == (0, 0)
    tell_the_same(postgres_url, version, released["said"])


def begin_opening(url: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", _OPEN, url], stdout=subprocess.PIPE)


def tell_the_same(url: str, version: str, said: dict[str, Any]) -> None:
    open_store(url, upgrade=True).close()
    with quick_store(url) as store:
        report = store.check_all()
        assert [str(each) for each in report.differences] == []
        check_runs(store, said["runs --json"])
        for name in ("races", "words", "sums"):
            if (board := said.get(f"leaderboard {name} --json")) is not None:
                check_board(store, name, board)
        if version >= FROZEN:
            live, shown = (
                store.boards.top("races", public=public)[0].agent for public in (False, True)
            )
            assert (live, shown) == ("erin", "bob")
        if version >= DERIVED and "ratings --json" in said:
            check_ratings(store, said["ratings --json"])
        if "traces list --json" in said:
            assert {each.trace_id for each in store.traces.page(all_traces()).items} == {
                each["id"] for each in list_items(said["traces list --json"])
            }
        assert store.vars() == {"city": "Lyon"}
        # And it goes on.
        store.create_run(a_run("new-run"))
        store.challenges.publish(a_challenge(name="anew"), b"", at=0.0)
        store.challenges.publish(a_challenge(), b"", at=0.0)
        play(store, "zoe", an_outcome(5.0), at=9e9)
        assert store.boards.standing("sums", "zoe")


def all_traces() -> Any:
    from tallymark.traces.trace_query import parse_query

    return parse_query("", now=0.0)


def list_items(said: Any) -> list[dict[str, Any]]:
    """The rows of an answer, whatever it called them then."""
    if isinstance(said, list):
        return said
    for name in ("runs", "standings", "board", "items", "agents", "ratings", "traces"):
        if isinstance(said.get(name), list):
            found: list[dict[str, Any]] = said[name]
            return found
    raise AssertionError(f"there are no rows in {sorted(said)}")


def check_runs(store: Store, said: Any) -> None:
    told = {each["id"]: each for each in list_items(said)}
    assert len(told) == 3
    for run in store.runs(limit=None):
        before = told.pop(run.id)
        assert are_same(run.score, before["score"])
        assert run.status == before["status"]
        assert len(list(store.results(run.id, with_traces=True))) == 3
    assert not told


def check_board(store: Store, name: str, said: Any) -> None:
    rows = [(each["rank"], each["agent"], each["score"]) for each in list_items(said)]
    now = [(each.rank, each.agent, each.score) for each in store.boards.top(name)]
    assert [each[:2] for each in now] == [each[:2] for each in rows]
    assert all(are_same(one[2], other[2]) for one, other in zip(now, rows, strict=True))


def check_ratings(store: Store, said: Any) -> None:
    assert said["agents"]
    for agent, told in said["agents"].items():
        if told["elo"] is not None:
            assert store.ratings.of(agent).rating == told["elo"]["rating"]


def are_same(one: float | None, other: float | None) -> bool:
    return one is other if one is None or other is None else math.isclose(one, other)

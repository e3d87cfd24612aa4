"""Backups under load restore completely; killed restores and full disks leave nothing behind.

    python -m scripts.prove_backup [--short] [NAME ...]

While clients report to a server, `tally admin backup` is called again and again; each backup is
restored and copied to the other kind of database, and `tally admin check` must find nothing in
either, nor in the database that went on.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace
from scripts.prove_server import Load, judge
from scripts.server_process import CHALLENGE, open_postgres, serve, set_up

from tallymark.challenges.challenge import Challenge
from tallymark.store import open_store
from tallymark.store.database_address import parse_address

_TALLY = str(Path(sys.executable).with_name("tally"))


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything."""

    backups: int = 5
    least: int = 2000
    """Answers between two backups."""
    kills: int = 10


SHORT = Size(backups=2, least=200, kills=3)


def run(*words: str | Path, code: int = 0) -> str:
    """What a command says; it must end with this code."""
    done = subprocess.run(
        [_TALLY, *map(str, words)], capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode != code:
        said = (done.stdout + done.stderr)[-800:]
        raise AssertionError(f"tally {words[:3]} ended with {done.returncode}: {said}")
    return done.stdout or done.stderr


@contextmanager
def databases(folder: Path) -> Iterator[Callable[[str], str]]:
    """Addresses of new databases, of either kind."""
    import psycopg  # noqa: PLC0415 (as the server's package)

    made = 0
    with open_postgres() as url:

        def make(kind: str) -> str:
            nonlocal made
            made += 1
            if kind == "SQLite":
                return str(folder / f"{made}.db")
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE made_{made}".encode())
            return url.replace("/postgres?", f"/made_{made}?")

        yield make


def prove_load(folder: Path, size: Size, kind: str) -> str:
    """Backups while clients write, restored and copied to the other kind."""
    counts: list[int] = []
    made: list[tuple[Path, int]] = []
    with databases(folder) as make:
        db = make(kind)
        with open_store(db) as store:
            set_up(store)
        with serve(db) as server:
            load = Load(server.url, seed=1)
            for nth in range(size.backups):
                load.wait_for(len(load.answered) + size.least)
                before = len({each["key"] for each in load.answered})
                file = folder / f"{kind}-{nth}.tally"
                run("admin", "backup", file, "--db", db)
                made.append((file, before))
            run("admin", "check", "--db", db)  # while it goes on
            server.kill()
            load.finish()
        run("admin", "check", "--db", db)
        for file, before in made:
            restored, copied = make(kind), make("SQLite" if kind == "PostgreSQL" else "PostgreSQL")
            run("admin", "restore", file, "--db", restored)
            run("admin", "copy", copied, "--db", restored)
            for there in (restored, copied):
                report = json.loads(run("admin", "check", "--db", there, "--json"))
                counts.append(report["checked"]["attempts"])
                if counts[-1] < before:
                    raise AssertionError(f"{before} were answered, {counts[-1]} are there")
    return (
        f"{size.backups} backups under load, of {counts[0]:,} to {counts[-1]:,} attempts, each"
        " restored, copied to the other kind and checked; so was the database that went on"
    )


def prove_sqlite(folder: Path, size: Size) -> str:
    """From SQLite."""
    return prove_load(folder, size, "SQLite")


def prove_postgres(folder: Path, size: Size) -> str:
    """From PostgreSQL."""
    return prove_load(folder, size, "PostgreSQL")


def make_backup(folder: Path, count: int, db: str | None = None) -> Path:
    """One of so many attempts."""
    db, file = db or str(folder / "from.db"), folder / f"some-{random.random()}.tally"
    with open_store(db) as store:
        set_up(store)
    with serve(db) as server:
        Load(server.url, seed=1, count=count).finish()
    run("admin", "backup", file, "--db", db)
    return file


def prove_killed(folder: Path, size: Size) -> str:
    """Restores that are killed at any moment: nothing is there, and the next one works."""
    dice = random.Random(7)
    early = 0
    with databases(folder) as make:
        for kind in ("SQLite", "PostgreSQL"):
            file = make_backup(folder, 4 * size.least, make(kind))
            began = time.monotonic()
            run("admin", "restore", file, "--db", make(kind))
            whole = time.monotonic() - began
            for _ in range(size.kills):
                db = make(kind)
                words = [_TALLY, "admin", "restore", str(file), "--db", db]
                with subprocess.Popen(words, stderr=subprocess.DEVNULL) as process:
                    time.sleep(whole * dice.uniform(0.3, 1.0))
                    process.kill()
                early += 1 - settle(db)
                if not settle(db):
                    run("admin", "restore", file, "--db", db)
                run("admin", "check", "--db", db)
    return f"{2 * size.kills} restores killed, {early} of them halfway: nothing was left of those"


def settle(db: str) -> bool:
    """Whether all is there, once no program of PostgreSQL's is at it any more."""
    address = parse_address(db)
    if address.path is None:
        import psycopg  # noqa: PLC0415 (as above)

        query = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"
        )
        with psycopg.connect(db, autocommit=True) as connection:
            while connection.execute(query, [address.url.database]).fetchone() != (0,):
                time.sleep(0.05)
    with open_store(db) as store:
        return store.exists


def prove_full(folder: Path, size: Size) -> str:  # noqa: ARG001
    """A disk that is full: one sentence, and nothing left."""
    file = make_backup(folder, 2000)
    if os.geteuid():
        return "not tried: only root can mount a small disk"
    small = folder / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tally", str(small)], check=True)
    try:
        said = run("admin", "backup", small / "x.tally", "--db", folder / "from.db", code=3)
        left = [each.name for each in small.iterdir()]
        if left or ("full" not in said and "No space left" not in said):
            raise AssertionError(f"{said}: {left}")
        said = run("admin", "restore", file, "--db", small / "x.db", code=3)
    finally:
        subprocess.run(["umount", str(small)], check=True)
    return f"a backup of {file.stat().st_size:,} bytes to 64 KB left nothing; so did its restore"


def prove_memory(folder: Path, size: Size) -> str:
    """A database ten times as large takes no more memory to back up."""
    found = []
    for times in (1, 10):
        db = str(folder / f"large-{times}.db")
        with open_store(db) as store:
            set_up(store)
            for nth in range(times * max(1, size.backups)):
                store.challenges.publish(_heavy(nth), os.urandom(4_000_000), at=0.0)
        run("admin", "backup", folder / f"{times}.tally", "--db", db)
        found.append(_measure(folder / f"again-{times}.tally", db))
    if found[1] > found[0] + 100:
        raise AssertionError(f"it takes {found[0]:.0f} MB, then {found[1]:.0f} MB")
    return (
        f"{found[0]:.0f} MB at most for {size.backups * 4} MB, {found[1]:.0f} MB for ten times that"
    )


def _measure(file: Path, db: str) -> float:
    """Megabytes at most, of a process of its own."""
    code = (
        "import sys, resource; from tallymark.store import open_store; from pathlib import Path\n"
        "with open_store(sys.argv[1]) as s: s.backups.write(Path(sys.argv[2]))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    )
    words = [sys.executable, "-c", code, db, str(file)]
    return float(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def _heavy(nth: int) -> Challenge:
    return replace(CHALLENGE, name=f"heavy-{nth}")


PROOFS: dict[str, Callable[[Path, Size], str]] = {
    "backups of SQLite": prove_sqlite,
    "backups of PostgreSQL": prove_postgres,
    "killed restores": prove_killed,
    "a full disk": prove_full,
    "memory": prove_memory,
}


def judge_backups(size: Size | None = None, names: list[str] | None = None) -> tuple[bool, str]:
    """Whether all of it holds, and a table of what was found."""
    return judge(PROOFS, size or Size(), names)


def main() -> int:
    """Tells what was found; 1 when something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the names of proofs; all without any")
    parser.add_argument("--short", action="store_true")
    given = parser.parse_args()
    holds, _ = judge_backups(SHORT if given.short else Size(), given.names)
    return int(not holds)


if __name__ == "__main__":
    sys.exit(main())

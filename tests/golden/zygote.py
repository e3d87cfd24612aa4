"""A process that has loaded `tally` once and forks for every call: 20 ms instead of 600.

Run as a script it serves: a request is a line of JSON on stdin, an answer a line on stdout.
`Zygote` is the other end. A fork needs a process without threads, and a pytest worker has some,
so this one stands apart; it imports nothing of Tallymark but what an installed `tally` starts.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NoReturn

MOST_SECONDS = 120
"""A call that hangs ends by a signal, which is an exit code that no entry expects."""

LOADED_LATE = {"wordllama"}
"""Left to the calls that need it: its import sets up logging for whatever comes after."""


RUNNING: set[int] = set()
"""Those that this process has started: tests that count its processes leave them out."""


@dataclass(frozen=True)
class Call:
    """One command: `argv[0]` is `tally`, or `python` for a script."""

    argv: list[str]
    cwd: str
    env: dict[str, str]
    stdin: str = ""
    now: float | None = 0.0
    """What the clock says, all the while: an attempt takes as long as its story says. With None
    it goes as ever."""


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str


@dataclass
class Clock:
    """Stands where `time.time` was, and stands still: nothing measured by it can flicker."""

    time: Callable[[], float]
    """The real one, for calls that say nothing of theirs."""
    now: float | None = 0.0

    def __call__(self) -> float:
        return self.time() if self.now is None else self.now


class Zygote:
    """The other end, for one caller at a time."""

    def __init__(self, env: dict[str, str], warm: list[Call]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
            text=True,
        )
        RUNNING.add(self._process.pid)
        self._ask([asdict(each) for each in warm])

    def __call__(self, call: Call) -> Outcome:
        return Outcome(**self._ask(asdict(call)))

    def close(self) -> None:
        """Ends it, by the end of its input."""
        self._process.communicate()
        RUNNING.discard(self._process.pid)

    def _ask(self, question: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the zygote died: {self._process.wait()}")
        return json.loads(answer)


@dataclass
class Server:
    """Inside the zygote: the first request is what to load by, every other one a call."""

    clock: Clock
    folder: Path

    def answers(self, questions: Iterator[Any]) -> Iterator[Any]:
        self._preload([Call(**each) for each in next(questions)])
        yield "ready"
        for each in questions:
            yield asdict(self._fork(partial(self._run, Call(**each))))

    def _preload(self, warm: list[Call]) -> None:
        """Loads what these calls load. They run in a child, so that only modules stay."""
        listed = self.folder / "modules"

        def visit() -> int:
            for call in warm:
                with suppress(SystemExit):
                    self._run(call)
            listed.write_text(json.dumps(list(sys.modules)))
            return 0

        done = self._fork(visit)
        if done.code != 0:
            raise RuntimeError(f"cannot load tally: {done.err}")
        for name in json.loads(listed.read_text()):
            if name.partition(".")[0] not in LOADED_LATE:
                with suppress(ImportError):
                    importlib.import_module(name)
        _keep_commands()
        _keep_tables(self.folder)
        tasks = list(Path("/proc/self/task").iterdir())
        if len(tasks) != 1:
            raise RuntimeError(f"a module that was loaded has started {len(tasks) - 1} threads")
        gc.collect()
        gc.freeze()

    def _fork(self, work: Callable[[], object]) -> Outcome:
        out, err = self.folder / "out", self.folder / "err"
        child = os.fork()
        if child == 0:
            _redirect(1, out)
            _redirect(2, err)
            _leave(work)
        _, status = os.waitpid(child, 0)
        texts = [each.read_text("utf-8", "backslashreplace") for each in (out, err)]
        return Outcome(os.waitstatus_to_exitcode(status), *texts)

    def _run(self, call: Call) -> None:
        """What the interpreter does before and while it runs the command, in the child."""
        stdin = self.folder / "in"
        stdin.write_text(call.stdin, "utf-8", "surrogateescape")
        os.dup2(os.open(stdin, os.O_RDONLY), 0)
        os.chdir(call.cwd)
        os.environ.clear()
        os.environ.update(call.env)
        self.clock.now = call.now
        sys.argv = call.argv if call.argv[0] == "tally" else call.argv[1:]
        if call.argv[0] == "tally":
            importlib.import_module("tallymark.cli").main()
        else:
            sys.path[0] = str(Path(sys.argv[0]).parent.absolute())
            runpy.run_path(sys.argv[0], run_name="__main__")


def _keep_commands() -> None:
    """Typer builds all commands anew at each start, which takes longer than most of them run."""
    typer: Any = importlib.import_module("typer.main")
    typer.get_command = cache(typer.get_command)
    sys.argv = ["tally", "--version"]
    with suppress(SystemExit):
        importlib.import_module("tallymark.cli").main()


def _keep_tables(folder: Path) -> None:
    """What is put together once in a process, and takes longer than most commands run: what tokens
    are counted by, which scorers are installed, the statements that make a database.
    """
    importlib.import_module("tallymark.models.token_count").count_tokens("one")
    importlib.import_module("tallymark.scoring.scorer_registry").default_registry.names()
    with importlib.import_module("tallymark.store").open_store(str(folder / "made.db")) as store:
        store._database.look(create=True)


def _redirect(descriptor: int, path: Path) -> None:
    opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(opened, descriptor)
    os.close(opened)


def _leave(work: Callable[[], object]) -> NoReturn:
    """Runs and exits as the interpreter would, but without taking every module apart."""
    code: object = 3
    signal.alarm(MOST_SECONDS)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as in the foreground of a terminal
    try:
        code = work()
    except SystemExit as exit_:
        code = exit_.code
    except BaseException as error:  # noqa: BLE001 (a traceback is an outcome, too)
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    with suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))


def serve() -> None:
    """Answers until there are no more requests."""
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    # As for the installed script; this folder's own modules are no part of the command.
    sys.path[0] = str(Path(sys.executable).parent)
    clock = Clock(time.time)
    time.time = clock  # before anything keeps a reference to it
    folder = Path(tempfile.mkdtemp(prefix="zygote-"))  # a TemporaryDirectory would end with a child
    try:
        for answer in Server(clock, folder).answers(map(json.loads, requests)):
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    serve()

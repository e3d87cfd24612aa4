"""`run_program` on programs that mean well, and what it refuses to start."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.golden.zygote import RUNNING
from tests.sandbox.backends import FIRST, SAFE, limits, run_python
from tests.sandbox.processes import children, has_computed

from tallymark.errors import InvalidInput, WorkFailed
from tallymark.sandbox.limits import Limits
from tallymark.sandbox.machine_probe import SafeBackend
from tallymark.sandbox.policy import Policy, choose_policy
from tallymark.sandbox.program_run import PROGRAM_LIMITS, run_program
from tallymark.sandbox.programs import bubblewrap_run, program_view
from tallymark.sandbox.programs.launcher_process import read_report

pytestmark = pytest.mark.skipif(not SAFE, reason="no sandbox works on this machine")


@pytest.fixture(params=FIRST)
def backend(request: pytest.FixtureRequest) -> SafeBackend:
    found: SafeBackend = request.param
    return found


def in_bubblewrap() -> None:
    if "bubblewrap" not in SAFE:
        pytest.skip("needs bubblewrap")


def test_files_go_in_and_output_and_files_come_out(backend: SafeBackend, tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(bytes(range(256)))
    started = time.monotonic()
    outcome = run_program(
        ["python", "src/main.py", "one argument"],
        files={
            "src/main.py": (
                "import sys, helper\n"
                "print(sys.argv[1], sys.stdin.read(), helper.NAME)\n"
                "print('aside', file=sys.stderr)\n"
                "data = open('data.bin', 'rb').read()\n"
                "open('made', 'wb').write(data[::-1])\n"
                "exit(3)\n"
            ),
            "src/helper.py": b"NAME = 'helper'\n",
            "data.bin": tmp_path / "data.bin",
        },
        stdin="asked",
        keep=["made", "src/helper.py", "never/made"],
        limits=limits(backend),
        policy=Policy(backend),
    )
    assert outcome.stdout == b"one argument asked helper\n"
    assert outcome.stderr == b"aside\n"
    assert (outcome.exit_code, outcome.signal, outcome.stopped) == (3, None, None)
    assert outcome.kept == {"made": bytes(range(256))[::-1], "src/helper.py": b"NAME = 'helper'\n"}
    assert outcome.warnings == ()
    assert not outcome.ok
    assert 0 < outcome.wall_s <= time.monotonic() - started


def test_a_program_that_ends_well_is_ok(backend: SafeBackend) -> None:
    assert run_python(backend, "print('fine')").ok


def test_a_signal_has_its_name() -> None:
    in_bubblewrap()
    outcome = run_python("bubblewrap", "import os\nos.abort()")
    assert (outcome.exit_code, outcome.signal, outcome.stopped) == (None, "SIGABRT", None)


def test_each_run_starts_from_nothing(backend: SafeBackend) -> None:
    source = "import os\nprint(os.listdir())\nopen('left', 'w').close()"
    outcomes = [run_python(backend, source) for _ in range(2)]
    assert [each.stdout for each in outcomes] == [b"['main.py']\n"] * 2


COMMANDS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "code": (["python", "-c", "print('ran')"], {}),
    "module": (["python", "-m", "tool"], {"tool.py": "print('ran')"}),
    "shell": (["sh", "run.sh"], {"run.sh": "echo ran"}),
    "own program": (["./run"], {"run": "#!/bin/sh\necho ran"}),
    "by python's own name": (
        ["python3", "-c", "import sys; print('ran' if sys.prefix == '/python' else 'ran')"],
        {},
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_of_every_kind_run(backend: SafeBackend, name: str) -> None:
    command, files = COMMANDS[name]
    outcome = run_program(command, files=files, limits=limits(backend), policy=Policy(backend))
    assert (outcome.stdout, outcome.stderr) == (b"ran\n", b"")


def test_a_command_that_is_not_there_says_so(backend: SafeBackend) -> None:
    outcome = run_program(["no-such-thing"], limits=limits(backend), policy=Policy(backend))
    assert outcome.exit_code == 127
    assert outcome.stderr == b"cannot run no-such-thing: No such file or directory\n"


TEST_FILES = {
    "answer.py": "def double(n):\n    return 2 * n\n",
    "test_answer.py": (
        "import unittest, answer\n"
        "class TestAnswer(unittest.TestCase):\n"
        "    def test_double(self):\n"
        "        self.assertEqual(answer.double(4), 8)\n"
    ),
}


def test_unittest_runs_without_packages(backend: SafeBackend) -> None:
    outcome = run_program(
        ["python", "-m", "unittest"],
        files=TEST_FILES,
        limits=limits(backend),
        policy=Policy(backend),
    )
    assert outcome.ok
    assert b"Ran 1 test" in outcome.stderr


def test_pytest_runs_with_packages_and_not_without(backend: SafeBackend) -> None:
    outcomes = [
        run_program(
            ["python", "-m", "pytest", "-q", "-p", "no:cacheprovider"],
            files=TEST_FILES,
            limits=limits(backend),
            packages=packages,
            policy=Policy(backend),
        )
        for packages in (True, False)
    ]
    assert outcomes[0].ok, outcomes[0].stderr
    assert b"1 passed" in outcomes[0].stdout
    assert b"No module named pytest" in outcomes[1].stderr


def test_numpy_works_with_packages(backend: SafeBackend) -> None:
    outcome = run_program(
        ["python", "-c", "import numpy; print(numpy.ones((50, 50)).dot(numpy.ones(50)).sum())"],
        limits=limits(backend, memory_mb=256),
        packages=True,
        policy=Policy(backend),
    )
    assert (outcome.stdout, outcome.stderr) == (b"2500.0\n", b"")


def test_a_pool_of_processes_and_asyncio_work_in_bubblewrap() -> None:
    in_bubblewrap()
    source = """
import asyncio, multiprocessing, subprocess, sys
def double(n):
    return 2 * n
async def said():
    made = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "print('child')", stdout=asyncio.subprocess.PIPE)
    return (await made.communicate())[0]
if __name__ == "__main__":
    with multiprocessing.Pool(2) as pool:
        print(pool.map(double, range(4)))
    print(asyncio.run(said()))
    print(subprocess.run(["sh", "-c", "echo shell | tr a-z A-Z"], capture_output=True).stdout)
"""
    outcome = run_python("bubblewrap", source, processes=16)
    assert outcome.stderr == b""
    assert outcome.stdout == b"[0, 2, 4, 6]\nb'child\\n'\nb'SHELL\\n'\n"


def test_memory_that_processes_share_counts_once() -> None:
    in_bubblewrap()
    source = """
import os, time
held = os.urandom(60 * 2**20)
children = []
for _ in range(4):
    child = os.fork()
    if child == 0:
        time.sleep(0.3)
        os._exit(len(held) & 1)
    children.append(child)
print([os.waitpid(child, 0)[1] for child in children])
"""
    outcome = run_python("bubblewrap", source, memory_mb=128)
    assert (outcome.stopped, outcome.stdout) == (None, b"[0, 0, 0, 0]\n")


@pytest.mark.parametrize("reads", [True, False], ids=["read", "unread"])
def test_much_input_and_much_output_do_not_lock(backend: SafeBackend, reads: bool) -> None:
    given = b"x" * 3_000_000
    echo = "import sys\nsys.stdout.buffer.write(sys.stdin.buffer.read())"
    outcome = run_program(
        ["python", "-c", echo if reads else "print('deaf')"],
        stdin=given,
        limits=limits(backend, output_mb=4),
        policy=Policy(backend),
    )
    assert outcome.ok
    assert outcome.stdout == (given if reads else b"deaf\n")


def test_large_files_go_in_and_come_out(backend: SafeBackend) -> None:
    data = os.urandom(5_000_000)
    outcome = run_program(
        ["python", "-c", "import os; os.rename('in', 'out')"],
        files={"in": data},
        keep=["out"],
        limits=limits(backend),
        policy=Policy(backend),
    )
    assert outcome.kept == {"out": data}


BAD_NAMES = {
    "up": "../x",
    "up within": "a/../../x",
    "absolute": "/etc/x",
    "empty": "",
    "dot": "./x",
    "double slash": "a//b",
    "folder": "a/",
    "nul": "a\0b",
    "newline": "a\nb",
    "long": "x" * 300,
    "deep": "d/" * 40 + "x",
}


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("what", ["files", "keep"])
def test_names_that_could_lead_out_are_refused(name: str, what: str) -> None:
    given: Any = {BAD_NAMES[name]: b""} if what == "files" else [BAD_NAMES[name]]
    with pytest.raises(InvalidInput, match="cannot be a file of a program"):
        run_program(["true"], **{what: given})


def test_a_name_that_is_a_file_and_a_folder_is_refused() -> None:
    with pytest.raises(InvalidInput, match="'a' is both a file and a folder"):
        run_program(["true"], files={"a": b"", "a/b": b""})


def test_more_files_than_the_disk_holds_are_refused(tmp_path: Path) -> None:
    big = tmp_path / "big"
    big.write_bytes(b"x" * 2_000_000)
    small = Limits(disk_mb=1)
    with pytest.raises(InvalidInput, match="larger than the program's disk limit of 1 MB"):
        run_program(["true"], files={"big": big}, limits=small)
    with pytest.raises(InvalidInput, match="more than its disk limit of 1 MB"):
        run_program(["true"], files={"a": b"x" * 600_000, "b": b"x" * 600_000}, limits=small)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"cannot read .*gone, the program's 'data'"):
        run_program(["true"], files={"data": tmp_path / "gone"})


@pytest.mark.parametrize("command", [[], "python main.py", [""], ["a\0b"]], ids=repr)
def test_a_command_that_is_no_list_of_words_is_refused(command: Any) -> None:
    with pytest.raises(InvalidInput, match="program's command"):
        run_program(command)


def test_several_processes_without_bubblewrap_are_refused() -> None:
    with pytest.raises(WorkFailed, match="without bubblewrap a program may have 1 process, not 16"):
        run_program(["true"], limits=PROGRAM_LIMITS, policy=Policy("landlock"))


def test_insecure_local_runs_with_its_warning() -> None:
    chosen = choose_policy(insecure_local=True)
    outcome = run_program(
        ["sh", "-c", "echo ran; echo kept > out"],
        keep=["out"],
        limits=PROGRAM_LIMITS,
        policy=chosen,
    )
    assert (outcome.stdout, outcome.kept) == (b"ran\n", {"out": b"kept\n"})
    assert outcome.warnings == chosen.warnings
    assert "without a sandbox" in outcome.warnings[0]


def test_insecure_local_still_keeps_deadlines() -> None:
    outcome = run_program(
        ["sh", "-c", "sleep 3600 & sleep 3600"],
        limits=Limits(wall_s=0.3),
        policy=choose_policy(insecure_local=True),
    )
    assert outcome.stopped == "timeout"


def left_behind() -> tuple[set[str], set[str]]:
    """Children of this process, and its open descriptors."""
    children = Path(f"/proc/self/task/{threading.get_native_id()}/children").read_text().split()
    return set(children), {each.name for each in Path("/proc/self/fd").iterdir()}


def test_nothing_is_left_open_or_running(
    backend: SafeBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    run_python(backend, "")
    before = left_behind()
    for source, given in (("", {}), ("while True: print(1)", {}), ("input(", {"wall_s": 1})):
        run_python(backend, source, **given)
    children, open_files = left_behind()
    assert (children - before[0], len(open_files)) == (set(), len(before[1]))
    assert list(tmp_path.iterdir()) == []


def test_threads_run_programs_side_by_side(backend: SafeBackend) -> None:
    def answered(number: int) -> bytes:
        return run_python(backend, f"print({number} * 2)").stdout

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(answered, range(8))) == [b"%d\n" % (2 * n) for n in range(8)]


def test_a_program_that_floods_before_its_launcher_reports_has_started() -> None:
    said = {1: b"flood", 2: b"", 3: b""}
    talk: Any = SimpleNamespace(stdout=1, stderr=2, report=3, stopped="output", said_on=said.get)
    assert read_report(talk) == ({}, b"")
    talk.stopped = None
    with pytest.raises(WorkFailed, match="could not be set up: it ended without a message"):
        read_report(talk)


@pytest.mark.parametrize("which", ["bubblewrap", "its first process"])
def test_a_sandbox_that_is_killed_from_outside_is_not_the_programs_fault(which: str) -> None:
    in_bubblewrap()
    with ThreadPoolExecutor(1) as pool:
        called = pool.submit(run_python, "bubblewrap", "while True: pass", wall_s=60.0, cpu_s=60.0)
        # As long as the program computes, its launcher and bubblewrap are there.
        await_program()
        outer = children({os.getpid()}) - RUNNING
        for pid in outer if which == "bubblewrap" else children(outer):
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(WorkFailed, match="killed from outside"):
            called.result(30)


@pytest.mark.parametrize(("kills", "works"), [(2, True), (3, False)])
def test_a_sandbox_that_is_killed_before_its_program_begins_is_set_up_again(
    monkeypatch: pytest.MonkeyPatch, *, kills: int, works: bool
) -> None:
    in_bubblewrap()
    make, left = program_view.make_command, [["sh", "-c", "kill -9 $$", "--"]] * kills

    def make_command(**given: Any) -> list[str]:
        return left.pop() if left else make(**given)

    monkeypatch.setattr(program_view, "make_command", make_command)
    monkeypatch.setattr(bubblewrap_run, "_PAUSES_S", (0.0, 0.0))
    if works:
        assert run_python("bubblewrap", "print(1)").stdout == b"1\n"
    else:
        with pytest.raises(WorkFailed, match="could not be set up"):
            run_python("bubblewrap", "print(1)")
    assert not left


def await_program() -> None:
    """Until something below a launcher has computed for a while."""
    until = time.monotonic() + 30
    while not any(map(has_computed, children(children(children({os.getpid()}) - RUNNING)))):
        assert time.monotonic() < until, "no program is at work"
        os.sched_yield()


def test_a_program_that_kills_itself_has_failed(backend: SafeBackend) -> None:
    outcome = run_python(backend, "import os; os.kill(os.getpid(), 9)")
    if outcome.signal is None:  # it may not even do that
        assert outcome.exit_code == 1
    else:
        assert (outcome.signal, outcome.stopped) == ("SIGKILL", None)


CALLER = """
import sys
from tallymark.sandbox.limits import Limits
from tallymark.sandbox.policy import Policy
from tallymark.sandbox.program_run import run_program
try:
    run_program(["sleep", "3600"], limits=Limits(wall_s=3600), policy=Policy(sys.argv[1]))
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["interrupt", "kill"])
def test_a_caller_that_ends_takes_its_program_along(
    backend: SafeBackend, number: signal.Signals, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", CALLER, backend],
        stdout=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    with process:
        while not (started := sleepers(process.pid)):
            assert process.poll() is None
        process.send_signal(number)
        said, _ = process.communicate(timeout=30)
    for each in started:
        wait_for_end(each)
    if number == signal.SIGINT:
        assert said == b"interrupted\n"
        assert list(tmp_path.iterdir()) == []


def sleepers(parent: int) -> list[int]:
    """Descriptors of the `sleep 3600`s below a process."""
    found = []
    for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
        try:
            descriptor = os.pidfd_open(int(pid))
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if command.startswith(b"sleep\x003600"):
                found.append(descriptor)
            else:
                os.close(descriptor)
                found += sleepers(int(pid))
        except OSError:
            continue
    return found


def wait_for_end(descriptor: int) -> None:
    ended, _, _ = select.select([descriptor], [], [], 30)
    os.close(descriptor)
    assert ended, "it still runs"

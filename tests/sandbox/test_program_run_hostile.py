"""Programs that attack, and what becomes of them. None may hurt the host or outlive its run."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

import pytest
from tests.sandbox.backends import FIRST, ORDINARY, SAFE, run_python

from tallymark.sandbox import interpreter
from tallymark.sandbox.machine_probe import SafeBackend

pytestmark = pytest.mark.skipif(not SAFE, reason="no sandbox works on this machine")

# Prints what an attempt led to: one word for each.
TRYING = """
import os, sys, socket, ctypes, mmap, resource, signal
def tried(*actions):
    for action in actions:
        try:
            action()
        except (OSError, ValueError, AttributeError) as error:
            print("refused")
        else:
            print("reached")
"""


@pytest.fixture(params=FIRST)
def backend(request: pytest.FixtureRequest) -> SafeBackend:
    found: SafeBackend = request.param
    return found


def needs_processes(backend: SafeBackend) -> None:
    if backend != "bubblewrap":
        pytest.skip("a program has one process here")


STOPPED = {
    "an endless loop": ("while True: pass", "cpu", {"cpu_s": 0.3}),
    "a fork bomb": (
        "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass",
        "cpu",
        {"cpu_s": 1.0},
    ),
    "a memory bomb": ("held = []\nwhile True: held.append(b'x' * 2**20)", "memory", {}),
    "a disk bomb": (
        "with open('big', 'wb', 0) as big:\n  while True: big.write(b'x' * 2**16)",
        "disk",
        {},
    ),
    "a disk bomb of many files": (
        "n = 0\nwhile True:\n  n += 1\n  open(f'f{n}', 'wb').write(b'x' * 2**16)",
        "disk",
        {},
    ),
    "a bomb of empty files": (
        "import os\nn = 0\nwhile True:\n  n += 1\n  os.close(os.open(f'f{n}', os.O_CREAT))",
        "disk",
        {},
    ),
    "a flood of output": ("while True: print('x' * 1000)", "output", {}),
    "a flood of complaints": (
        "import sys\nwhile True: sys.stderr.write('x' * 1000)",
        "output",
        {},
    ),
    "a long sleep": ("import time\ntime.sleep(3600)", "timeout", {"wall_s": 0.3}),
    "waiting for input that never comes": (
        "import os\na, b = os.pipe()\nos.read(a, 1)",
        "timeout",
        {"wall_s": 0.3},
    ),
    "ignoring every signal": (
        """
import signal, time
for each in set(signal.Signals) - {9, 19}:
    try: signal.signal(each, signal.SIG_IGN)
    except (OSError, ValueError): pass
time.sleep(3600)
""",
        "timeout",
        {"wall_s": 0.3},
    ),
    "closing its output and staying": (
        "import os, time\nfor each in (0, 1, 2): os.close(each)\ntime.sleep(3600)",
        "timeout",
        {"wall_s": 0.3},
    ),
}


@pytest.mark.parametrize("name", STOPPED)
def test_what_passes_a_limit_is_stopped(backend: SafeBackend, name: str) -> None:
    source, stopped, given = STOPPED[name]
    outcome = run_python(backend, source, **given)
    assert (outcome.stopped, outcome.exit_code, outcome.signal) == (stopped, None, "SIGKILL")
    assert not outcome.ok


HIDES = """
import os
text = open("/bin/sleep", "rb").read()
file = os.open("x", os.O_CREAT | os.O_WRONLY, 0o111)
os.write(file, text)
os.close(file)
os.execv("./x", ["x", "3600"])
"""


@pytest.mark.skipif(not ORDINARY or "landlock" not in SAFE, reason="nothing hides from root")
def test_a_program_cannot_hide_the_files_that_it_has_open() -> None:
    """Started from a file that nobody may read, it could hold removed files of any size."""
    assert run_python("landlock", HIDES).stopped == "disk"


def test_folders_without_end_are_stopped_and_removed(backend: SafeBackend) -> None:
    source = "import os\nwhile True:\n  os.mkdir('d')\n  os.chdir('d')"
    # Landlock's checks grow with the depth, so the processor time may run out first.
    assert run_python(backend, source, cpu_s=0.5).stopped in {"disk", "cpu"}


STOPPED_TREES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "memory spread over processes": (
        """
import os, time
for _ in range(6):
    if os.fork() == 0:
        held = os.urandom(40 * 2**20)
        time.sleep(3600)
time.sleep(3600)
""",
        "memory",
        {},
    ),
    "spinning in several processes": (
        "import os\nfor _ in range(3): os.fork()\nwhile True: pass",
        "cpu",
        {"cpu_s": 1.0},
    ),
    "spinning in children that end": (
        """
import os, time
while True:
    if os.fork() == 0:
        end = time.process_time() + 0.1
        while time.process_time() < end: pass
        os._exit(0)
    os.wait()
""",
        "cpu",
        {"cpu_s": 0.5},
    ),
    "stopping itself": (
        "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
        "timeout",
        {"wall_s": 0.5},
    ),
    "a fork bomb that only sleeps": (
        """
import os, time
while True:
    try:
        if os.fork() == 0: time.sleep(3600)
    except OSError: break
time.sleep(3600)
""",
        "timeout",
        {"wall_s": 0.5},
    ),
}


@pytest.mark.parametrize("name", STOPPED_TREES)
def test_a_tree_of_processes_is_stopped_as_one(backend: SafeBackend, name: str) -> None:
    needs_processes(backend)
    source, stopped, given = STOPPED_TREES[name]
    outcome = run_python(backend, source, **given)
    assert (outcome.stopped, outcome.signal) == (stopped, "SIGKILL")


def test_output_is_stored_up_to_the_limit(backend: SafeBackend) -> None:
    outcome = run_python(backend, "while True: print('x' * 999)", output_mb=0.01)
    assert len(outcome.stdout) + len(outcome.stderr) == int(0.01 * 2**20)


REFUSED = {
    "every kind of socket": (
        "for family in range(1, 46):\n"
        "  for kind in (1, 2, 3):\n"
        "    tried(lambda: socket.socket(family, kind))"
    ),
    "a datagram pair": "tried(lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))",
    "the users of the host": "tried(lambda: open('/etc/passwd'), lambda: open('/etc/shadow'))",
    "homes": "tried(*(lambda p=p: os.listdir(p) for p in ('/root', '/home', sys.argv[1])))",
    "the code that runs it": "tried(lambda: os.listdir('/launcher'), lambda: open(sys.argv[2]))",
    "the processes of the host": (
        "tried(lambda: os.listdir('/proc'), lambda: open('/proc/self/environ'),"
        " lambda: open(f'/proc/{sys.argv[3]}/environ'), lambda: open('/proc/1/mem'))"
    ),
    "the kernel's settings": (
        "tried(lambda: open('/proc/sys/kernel/core_pattern', 'w'),"
        " lambda: open('/proc/sys/kernel/panic', 'a'), lambda: os.listdir('/sys'))"
    ),
    "writing outside its folder": (
        "tried(*(lambda p=p: open(p + '/x', 'w') for p in"
        " ('/', '/usr', '/usr/bin', '/etc', '/dev', '/root', '..', '/var/tmp', sys.argv[1])))"
    ),
    "folders outside its own": "tried(lambda: os.mkdir('/x'), lambda: os.mkdir('../x'))",
    "changing Python": "tried(lambda: open(os.__file__, 'a'), lambda: open(sys.executable, 'a'))",
    "modes and owners outside": (
        "tried(lambda: os.chmod('/usr', 0o700), lambda: os.chmod('/', 0o777),"
        " lambda: os.chown('/usr', 1, 1), lambda: os.utime('/usr'))"
    ),
    "a link to outside that is kept": "tried(lambda: os.symlink('/etc/passwd', 'kept'))",
    "a hard link to outside": "tried(lambda: os.link(os.__file__, 'kept'))",
    "a pipe that is kept": "tried(lambda: os.mkfifo('kept'))",
    "a device": "tried(lambda: os.mknod('disk', 0o60600, os.makedev(254, 0)))",
    "devices": "tried(lambda: open('/dev/kmsg'), lambda: open('/dev/mem'))",
    "a file beyond its disk": "tried(lambda: os.truncate(os.open('kept', 66, 0o600), 2**40))",
    "signals to the host": "tried(lambda: os.kill(int(sys.argv[3]), 0))",
    "signals to what started it": (
        "tried(lambda: os.kill(os.getppid(), signal.SIGKILL),"
        " lambda: os.kill(os.getppid(), signal.SIGINT))"
    ),
    "becoming root": "tried(lambda: os.setuid(0), lambda: os.setgid(0), lambda: os.setgroups([0]))",
    "higher limits": (
        "for which in (resource.RLIMIT_AS, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE):\n"
        "  tried(lambda: resource.setrlimit(which, (resource.RLIM_INFINITY,) * 2))"
    ),
    "limits of others": (
        "tried(lambda: resource.prlimit(int(sys.argv[3]), resource.RLIMIT_NOFILE, (64, 64)))"
    ),
    "priorities of others": "tried(lambda: os.setpriority(os.PRIO_PROCESS, int(sys.argv[3]), 19))",
    "memory outside its own": "tried(lambda: os.memfd_create('x'))",
    "shared memory of the system": (
        "libc = ctypes.CDLL(None)\n"
        "assert libc.shmget(0, 4096, 0o1600) == -1 and libc.msgget(0, 0o1600) == -1\n"
        "print('refused')"
    ),
    "descriptors of the launcher": ("tried(*(lambda n=n: os.fstat(n) for n in range(3, 64)))"),
    "a real-time schedule": (
        "tried(lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))"
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_outside_is_out_of_reach(backend: SafeBackend, name: str, tmp_path: Path) -> None:
    given = (str(tmp_path), __file__, str(os.getpid()))
    outcome = run_python(backend, TRYING + REFUSED[name], *given, keep=("kept",))
    assert outcome.stderr == b""
    assert set(outcome.stdout.split()) == {b"refused"}
    assert outcome.ok
    assert outcome.kept in ({}, {"kept": b""})


DEADLY = {
    "ptrace": "libc.ptrace(0, 0, 0, 0)",
    "mount": "libc.mount(b'none', b'/tmp', b'tmpfs', 0, None)",
    "umount": "libc.umount2(b'/usr', 2)",
    "unshare": "libc.unshare(0x10000000)",
    "setns": "libc.setns(0, 0)",
    "chroot": "libc.chroot(b'.')",
    "memory of other processes": "libc.process_vm_readv(1, None, 0, None, 0, 0)",
    "the clock": "libc.clock_settime(0, (ctypes.c_long * 2)(0, 0))",
    "the host's name": "libc.sethostname(b'x', 1)",
    "reboot": "libc.reboot(0x01234567)",
    "kernel modules": "libc.init_module(None, 0, None)",
}


@pytest.mark.parametrize("name", DEADLY)
def test_a_call_that_only_attacks_make_ends_the_process(backend: SafeBackend, name: str) -> None:
    outcome = run_python(backend, f"import ctypes\nlibc = ctypes.CDLL(None)\n{DEADLY[name]}")
    assert (outcome.signal, outcome.exit_code, outcome.stopped) == ("SIGSYS", None, None)


def test_the_environment_is_the_same_for_all(
    backend: SafeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    outcome = run_python(backend, "import os\nprint(*sorted(os.environ))")
    assert b"secret" not in outcome.stdout
    expected = [
        "HOME",
        "LANG",
        "OMP_NUM_THREADS",
        "PATH",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONHASHSEED",
        "TMPDIR",
    ]
    # What this machine's Python needs to start at another place, if anything.
    needed = interpreter.variables() if backend == "bubblewrap" else {}
    assert outcome.stdout.decode().split() == sorted([*expected, *needed])


def test_source_folders_in_usr_are_hidden(backend: SafeBackend) -> None:
    """Where there is a view: without one, all of `/usr` is open to read."""
    needs_processes(backend)
    source = """
import os
for place in ("/usr/src", "/usr/local/src"):
    if os.path.exists(place): print(*os.listdir(place))
"""
    outcome = run_python(backend, source)
    assert (outcome.stdout.split(), outcome.stderr) == ([], b"")


def test_its_processes_are_as_many_as_allowed(backend: SafeBackend) -> None:
    needs_processes(backend)
    source = """
import os, time
made = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(3600)
        made += 1
except OSError:
    print(made)
"""
    assert run_python(backend, source, processes=5).stdout == b"4\n"


def test_without_bubblewrap_there_is_no_second_process(backend: SafeBackend) -> None:
    if backend == "bubblewrap":
        pytest.skip("it may have several here")
    assert run_python(backend, TRYING + "tried(os.fork)").stdout == b"refused\n"


@pytest.mark.parametrize("leaving", ["", "os.setsid()\n"], ids=["child", "session"])
def test_processes_left_running_end_with_the_program(leaving: str) -> None:
    if "bubblewrap" not in SAFE:
        pytest.skip("needs bubblewrap")
    token = secrets.token_hex(8)
    source = f"""
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork():
    print(sys.argv[1], flush=True)
    os._exit(0)
{leaving}if os.fork():
    os._exit(0)
time.sleep(3600)
"""
    outcome = run_python("bubblewrap", source, token)
    assert outcome.ok
    assert outcome.stdout.decode().strip() == token
    assert not processes_with(token)


def processes_with(word: str) -> list[str]:
    """Living processes that have the word on their command line, seen from the host."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word in place.read_text(errors="replace"):
                found.append(place.parent.name)
        except OSError:
            continue
    return found


def test_a_stopped_tree_leaves_no_process(backend: SafeBackend) -> None:
    token = secrets.token_hex(8)
    source = "import os, time\ntry: os.fork()\nexcept OSError: pass\ntime.sleep(3600)"
    assert run_python(backend, source, token, wall_s=0.3).stopped == "timeout"
    assert not processes_with(token)


def test_killing_everyone_kills_only_itself(backend: SafeBackend) -> None:
    source = "import os\ntry: os.kill(-1, 9)\nexcept OSError: pass\nprint('here')"
    outcome = run_python(backend, source)
    assert (outcome.exit_code, outcome.stdout) == (0, b"here\n")


def test_an_allocation_beyond_all_limits_fails_inside(backend: SafeBackend) -> None:
    outcome = run_python(backend, "b'x' * 2**40")
    assert (outcome.exit_code, outcome.stopped) == (1, None)
    assert b"MemoryError" in outcome.stderr


def test_a_crash_in_c_is_only_its_own(backend: SafeBackend) -> None:
    outcome = run_python(backend, "import ctypes\nctypes.string_at(0)")
    assert (outcome.signal, outcome.exit_code) == ("SIGSEGV", None)


def test_a_program_cannot_speak_for_the_launcher(backend: SafeBackend) -> None:
    source = """
import os
for descriptor in range(1, 64):
    try:
        os.write(descriptor, b'{"code": 0, "stopped": null, "kept": []}\\n')
    except OSError:
        pass
os._exit(7)
"""
    assert run_python(backend, source).exit_code == 7


def test_a_full_disk_that_is_cleared_again_is_no_trouble(backend: SafeBackend) -> None:
    source = """
import os
for _ in range(4):
    with open("big", "wb") as big:
        big.write(b"x" * 6 * 2**20)
    os.remove("big")
"""
    assert run_python(backend, source).ok

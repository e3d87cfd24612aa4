"""Memory limits enforced by the kernel. Files laid out here say where a group can be made.

A machine whose cgroups of version 2 have no memory to give, as this one may be, can still show that
a program enters its group: that part is tried for real.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.sandbox.backends import FIRST, SAFE, limits, run_python
from tests.sandbox.machines import machine

from tallymark.errors import WorkFailed
from tallymark.sandbox import memory_group, program_run
from tallymark.sandbox.machine_probe import SafeBackend
from tallymark.sandbox.memory_group import MemoryGroup, NoGroup, find_parent
from tallymark.sandbox.programs.bubblewrap_run import run_in_bubblewrap
from tallymark.sandbox.programs.direct_run import run_direct
from tallymark.sandbox.programs.program_task import make_task


def laid_out(folder: Path, own: str, **groups: tuple[str, str]) -> Path:
    """A /proc/self and a tree of groups, by name: the controllers it has, and its children have."""
    proc, tree = folder / "proc", folder / "tree"
    proc.mkdir()
    for name, (has, children_have) in groups.items():
        place = tree / name.replace("__", "/").replace("top", ".")
        place.mkdir(parents=True, exist_ok=True)
        for file, text in (("controllers", has), ("subtree_control", children_have), ("procs", "")):
            (place / f"cgroup.{file}").write_text(text, encoding="ascii")
    (proc / "cgroup").write_text(f"4:memory:/old\n0::{own}\n", encoding="ascii")
    mount = f"31 24 0:26 / {tree} rw,nosuid - cgroup2 cgroup2 rw\n"
    (proc / "mountinfo").write_text(f"24 1 0:1 / / rw - ext4 x rw\n{mount}", encoding="ascii")
    return proc


@pytest.mark.parametrize(
    ("own", "groups", "chosen"),
    [
        ("/", {"top": ("cpu memory", "memory")}, "."),
        ("/a/b", {"a": ("memory", "memory"), "a__b": ("memory", "memory")}, "a/b"),
        ("/a/b", {"a": ("memory", "memory"), "a__b": ("", "")}, "a"),
        ("/a/b", {"a": ("memory pids", "pids"), "a__b": ("pids", "")}, "a"),
    ],
    ids=["the top", "its own", "the one above", "the one above, to be switched on"],
)
def test_a_group_is_made_in_the_nearest_that_may_have_some(
    tmp_path: Path, own: str, groups: dict[str, tuple[str, str]], chosen: str
) -> None:
    proc = laid_out(tmp_path, own, **groups)
    assert find_parent(proc) == tmp_path / "tree" / chosen


def test_a_group_that_refuses_children_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel refuses it to a group that has processes of its own."""
    proc = laid_out(tmp_path, "/a/b", a=("memory", "memory"), a__b=("memory", ""))
    write = Path.write_text

    def refuse(path: Path, text: str, **given: str) -> int:
        if path.parent.name == "b":
            raise OSError(16, "Device or resource busy")
        return write(path, text, **given)

    monkeypatch.setattr(Path, "write_text", refuse)
    assert find_parent(proc) == tmp_path / "tree/a"


@pytest.mark.parametrize(
    ("own", "groups", "writable", "says"),
    [
        ("/a", {"top": ("", ""), "a": ("pids", "")}, True, "memory is not among the controllers"),
        ("/a", {"top": ("memory", "memory"), "a": ("memory", "")}, False, "is not delegated"),
    ],
    ids=["no memory", "not ours"],
)
def test_a_machine_without_memory_groups_has_a_reason(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    own: str,
    groups: dict[str, tuple[str, str]],
    writable: bool,
    says: str,
) -> None:
    proc = laid_out(tmp_path, own, **groups)
    monkeypatch.setattr(os, "access", lambda *_: writable)
    with pytest.raises(NoGroup, match=says):
        find_parent(proc)


def test_a_machine_without_version_2_says_so(tmp_path: Path) -> None:
    proc = laid_out(tmp_path, "/")
    (proc / "cgroup").write_text("4:memory:/old\n", encoding="ascii")
    with pytest.raises(NoGroup, match="no cgroup of version 2"):
        find_parent(proc)


def test_a_group_has_its_limit_before_anybody_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_group, "_EMPTYING_S", 0.0)
    mkdir = Path.mkdir

    def mount(path: Path) -> None:
        """As the kernel does, with its files in it."""
        mkdir(path)
        (path / "cgroup.procs").touch()
        (path / "memory.events").write_text("low 0\noom 1\noom_kill 0\n", encoding="ascii")
        (path / "memory.swap.max").write_text("max", encoding="ascii")

    monkeypatch.setattr(Path, "mkdir", mount)
    group = MemoryGroup(tmp_path, 12345)
    (folder,) = tmp_path.iterdir()
    written = {path.name: path.read_text(encoding="ascii") for path in folder.iterdir()}
    assert written["memory.max"] == "12345"
    assert written["memory.oom.group"] == "1"
    assert written["memory.swap.max"].startswith("0")
    assert not group.is_limit_passed()
    (folder / "memory.events").write_text("oom 2\noom_kill 1\n", encoding="ascii")
    assert (group.is_limit_passed(), group.is_machine_full()) == (True, False)
    # By the limit of a group above, or for want of memory on the machine.
    (folder / "memory.events").write_text("oom 0\noom_kill 1\n", encoding="ascii")
    assert (group.is_limit_passed(), group.is_machine_full()) == (False, True)
    group.close()


class PretendedGroup:
    """Says that the kernel has ended the program; who enters it leaves a note."""

    def __init__(self, note: Path) -> None:
        self.note = note
        self.entrance = os.open(note, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC)

    def is_limit_passed(self) -> bool:
        return True


@pytest.mark.parametrize("backend", FIRST)
def test_a_program_that_the_kernel_ended_exceeded_its_memory_limit(
    backend: SafeBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    @contextmanager
    def open_group(most: int) -> Iterator[PretendedGroup]:
        asked.append(most)
        group = PretendedGroup(tmp_path / "entered")
        yield group
        os.close(group.entrance)

    monkeypatch.setattr(program_run, "_open_group", open_group)
    outcome = run_python(backend, "import os; os.kill(os.getpid(), 9)", memory_mb=64)
    assert outcome.stopped == "memory"
    assert (tmp_path / "entered").read_text(encoding="ascii") == "0"
    scratch = 8 * 2**20 if backend == "bubblewrap" else 0
    assert 64 * 2**20 + scratch <= asked[0] < 64 * 2**20 + scratch + 2**20


class CrowdedGroup(PretendedGroup):
    """Says that the machine had no memory left."""

    def is_limit_passed(self) -> bool:
        return False

    def is_machine_full(self) -> bool:
        return True


@pytest.mark.parametrize("source", ["os.kill(os.getpid(), 9)", "print(1)"])
def test_a_program_that_ends_for_lack_of_memory_within_its_limit_is_not_to_blame(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def open_group(_: int) -> Iterator[PretendedGroup]:
        group = CrowdedGroup(tmp_path / "entered")
        yield group
        os.close(group.entrance)

    monkeypatch.setattr(program_run, "_open_group", open_group)
    if "kill" in source:
        with pytest.raises(WorkFailed, match="the machine ran out of memory"):
            run_python(SAFE[0], f"import os; {source}")
    else:
        assert run_python(SAFE[0], source).ok


@pytest.fixture
def real_group() -> Iterator[Path]:
    """A group of version 2, whatever it can limit."""
    try:
        place = memory_group._find_own(Path("/proc/self")) / "tally-test"
        place.mkdir()
    except (NoGroup, OSError):
        pytest.skip("no cgroup of version 2 to write to")
    yield place
    place.rmdir()


@pytest.mark.parametrize("backend", FIRST)
def test_a_program_enters_a_real_group_and_leaves_it_empty(
    backend: SafeBackend, real_group: Path
) -> None:
    members = real_group / "cgroup.procs"
    entrance = os.open(members, os.O_WRONLY | os.O_CLOEXEC)
    task = make_task(
        ["python", "-c", "print(len(input()))"],
        files={},
        stdin="four",
        limits=limits(backend),
        keep=(),
        packages=False,
    )
    before = _sum_time(real_group)
    if backend == "bubblewrap":
        ended = run_in_bubblewrap(task, entrance)
    else:
        ended = run_direct(task, entrance, walls=True)
    os.close(entrance)
    assert (ended.code, ended.stdout) == (0, b"4\n"), ended.stderr
    assert _sum_time(real_group) > before
    assert members.read_text(encoding="ascii") == ""


def _sum_time(group: Path) -> int:
    """Processor time that was used in the group: somebody has been in it."""
    lines = (group / "cpu.stat").read_text(encoding="ascii").splitlines()
    return int(dict(line.split() for line in lines)["usage_usec"])


@pytest.mark.parametrize("trouble", [OSError(28, "No space left on device"), NoGroup("gone")])
def test_a_program_runs_without_a_group_where_none_can_be_made_now(
    monkeypatch: pytest.MonkeyPatch, trouble: Exception
) -> None:
    def refuse() -> Path:
        raise trouble

    monkeypatch.setattr(program_run, "probe", machine)
    monkeypatch.setattr(program_run, "find_parent", refuse)
    assert run_python(SAFE[0], "print('ran')").stdout == b"ran\n"

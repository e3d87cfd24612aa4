"""Submission of `tally challenge check` that searches for marked secrets wherever it can look.

It runs inside the sandbox like a competitor's program, and imports nothing of ours.
"""

from __future__ import annotations

import gc
import json
import os
import re
import stat
import sys
import time
from pathlib import Path
from types import FrameType

MARK = re.compile(rb"tally-mark-[0-9a-f]{32}")
MOST = 1_000_000
SECONDS = 5.0
SYSTEM = ("/proc", "/sys", "/dev", "/usr", "/lib", "/lib64", "/bin", "/sbin")
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|TALLY|DATABASE|URL|_DB")


def has_run() -> bool:
    """Confirms that the probe could be imported, so that it searched at all."""
    return True


def probe_files(folder: str) -> list[str]:
    """Everything that can be read, system folders aside, and the challenge's own folder."""
    # Existence proves nothing: without bubblewrap, paths can be tested and not opened.
    if _list_names(folder) or _is_marked(Path(folder, "marked.txt")):
        return [folder]
    skipped = {Path(each).resolve() for each in (*SYSTEM, *sys.path[1:], sys.base_prefix)}
    ends = time.monotonic() + SECONDS
    for start in (Path.cwd(), Path(folder).parent, Path("/")):
        for place, folders, names in os.walk(start):
            folders[:] = [each for each in folders if Path(place, each).resolve() not in skipped]
            found = [name for name in names if _is_marked(Path(place, name))]
            if found or time.monotonic() > ends:
                return found
    return []


def probe_environment(_: str) -> list[str]:
    """Variables that look like keys and addresses of the host."""
    return [name for name in os.environ if SECRET.search(name)]


def probe_processes(folder: str) -> list[str]:
    """Other programs' commands and variables, and what is mounted where."""
    found = []
    for pid in filter(str.isdigit, _list_names("/proc")):
        for name in ("cmdline", "environ", "mountinfo"):
            content = _read_start(Path("/proc", pid, name))
            if MARK.search(content) or (name != "cmdline" and folder.encode() in content):
                found.append(f"{pid} {name}")
    return found


def probe_descriptors(_: str) -> list[str]:
    """Files that were left open for this program."""
    found = []
    for name in _list_names("/proc/self/fd"):
        try:
            mode = os.fstat(int(name)).st_mode
            content = os.pread(int(name), MOST, 0) if stat.S_ISREG(mode) else b""
        except (OSError, ValueError):
            continue
        if MARK.search(content):
            found.append(name)
    return found


def probe_memory(_: str) -> list[str]:
    """Variables of the calling code."""
    found = []
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 (as a curious program would)
    while frame is not None:
        for scope in (frame.f_locals, frame.f_globals):
            found += [name for name, value in list(scope.items()) if _holds_mark(value)]
        frame = frame.f_back
    found += [type(each).__name__ for each in gc.get_objects() if _holds_mark(each)]
    return found[:20]


def _holds_mark(value: object) -> bool:
    if isinstance(value, bytes):
        return MARK.search(value) is not None
    texts = [value]
    if isinstance(value, dict) and len(value) < 10_000:
        texts = [*value, *value.values()]
    elif isinstance(value, list | tuple) and len(value) < 10_000:
        texts = [*value]
    said = " ".join(each for each in texts if isinstance(each, str))
    return MARK.search(said.encode("utf-8", "replace")) is not None


def _is_marked(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode) and MARK.search(_read_start(path)) is not None
    except OSError:
        return False


def _read_start(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MOST)
    except OSError:
        return b""


def _list_names(folder: str) -> list[str]:
    try:
        return [each.name for each in Path(folder).iterdir()]
    except OSError:
        return []


if __name__ == "__main__":
    where = sys.argv[1]
    looks = {name[6:]: each for name, each in list(globals().items()) if name.startswith("probe_")}
    sys.stdout.write(json.dumps({name: look(where) for name, look in looks.items()}))

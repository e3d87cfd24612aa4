"""The child of a guest: locks itself in, has the attempts of one call answered, and ends.

One attempt it answers itself. Of many, each is answered by a process forked from this one, which
then runs nothing of the plugin: so no attempt finds anything that another has left.
"""

from __future__ import annotations

import os
import random
import select
import signal
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from tallymark.sandbox import kernel_calls, rlimits, seccomp
from tallymark.sandbox.plugins import answer_frames
from tallymark.sandbox.plugins.attempt_scorer import load_scorer
from tallymark.sandbox.plugins.plain_data import decode, encode
from tallymark.sandbox.plugins.plugin_files import compile_files

if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable

    from tallymark.sandbox.plugins.answer_frames import Call

LINK = 3
"""The descriptor over which attempts come and answers go."""
NOT_LOCKED_IN, NO_MEMORY, BROKEN = 113, 114, 115
"""How it exits when it cannot say more."""
_HELD_S = 0.005
_HELD_BYTES = 2**16


@dataclass(frozen=True, slots=True)
class Walls:
    """What keeps a child in besides what it inherits, made ready ahead by its guest."""

    root: str
    """The plugin's files: what a child imports from once it is locked in, and nobody before."""
    scratch: str
    enforce: Callable[[], int] | None
    """Puts up Landlock's."""
    filter: seccomp.Filter | None
    open_files: int
    on_disk: bool
    """Whether the scratch folder is the host's, so that the host must see which files are open."""

    def fork(self) -> int:
        """In bubblewrap, a process that cannot tell by its number how many there were before."""
        return os.fork() if self.on_disk else kernel_calls.fork_numbered_apart()

    def put_up(self, link: int) -> None:
        """All but the last."""
        os.chdir(self.scratch)
        if (tempfile := sys.modules.get("tempfile")) is not None:
            vars(tempfile)["tempdir"] = self.scratch
        if self.enforce is not None:
            self.enforce()
        os.dup2(link, LINK)
        # The guest's descriptors, those of its other children among them, are not this child's.
        os.closerange(LINK + 1, 256)
        rlimits.apply_to_files(self.open_files)
        os.setsid()  # so that its guest can end those it starts

    def close(self) -> None:
        """The last: it takes away the calls by which the others were put up, and forking."""
        if self.on_disk:
            kernel_calls.show_memory()
        else:
            kernel_calls.drop_capabilities()  # without which no fork is numbered apart
        if self.filter is not None:
            self.filter.load()


def run_child(link: int, progress: mmap.mmap, walls: Walls, *, apart: bool) -> NoReturn:
    """All that a child does. It never returns to the guest's code, whatever happens.

    `apart` is for many attempts. `progress` says which one is being scored, counted from 1; 0 while
    the plugin is loaded.
    """
    # Taken now: the plugin can put something else in its place.
    leave, code = os._exit, NOT_LOCKED_IN
    try:
        walls.put_up(link)
        if not apart:
            _close_walls(walls)
        code = BROKEN
        call = answer_frames.Call.unpack(_read_exactly(answer_frames.CALL_BYTES) or b"")
        if apart:
            _Forks(call, progress, walls).serve()
        else:
            opening, attempt = _read_message() or b"", _read_message()
            _answer(call, opening, attempt, lambda: note_attempt(progress, 1))
        code = 0
    except MemoryError:
        code = NO_MEMORY
    except BaseException:  # noqa: BLE001, S110 (the exit code tells)
        pass
    finally:
        leave(code)


def note_attempt(progress: mmap.mmap, at: int) -> None:
    """Say for the host which attempt is being scored."""
    progress[:8] = at.to_bytes(8, sys.byteorder)


def read_attempt(progress: mmap.mmap) -> int:
    """The attempt that is being scored, counted from 1."""
    return int.from_bytes(progress[:8], sys.byteorder)


def _close_walls(walls: Walls) -> None:
    """What comes right before the first byte that somebody else wrote is looked at."""
    # The null device as opened by the guest keeps flags that a child sets, for those after it.
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.close(null)
    random.seed()  # with no handler of a fork left (`guest_handle`), nobody else does
    walls.close()
    sys.path.insert(0, walls.root)


def _answer(
    call: Call, opening: bytes, attempt: bytes | None, loaded: Callable[[], object]
) -> None:
    """Answer one attempt, or compile the plugin's files where there is none."""
    opened = decode(opening)
    if opened["module"] is None or attempt is None:
        answer = encode((answer_frames.GIVEN, compile_files(opened["root"])))
    else:
        score = load_scorer(opened)
        loaded()
        answer = score(*decode(attempt))
    if len(answer) > call.most:
        text = f"the answer has {len(answer):,} bytes, more than {call.most:,}"
        answer = encode((answer_frames.FAILED, "bad answer", text))
    _write(answer_frames.pack_frame(call.nonce, answer))


class _Forks:
    """A process for each attempt, one after the other.

    What this process holds each of them can read: so nothing here says how many there were, or
    what they answered.
    """

    def __init__(self, call: Call, progress: mmap.mmap, walls: Walls) -> None:
        self._call, self._progress, self._walls = call, progress, walls
        self._held = bytearray()
        """Answers on their way to the host: many at once, none for long."""
        self._sent = time.perf_counter()

    def serve(self) -> None:
        """Until there is no attempt left, one has no answer, or one has left files behind."""
        opening, attempt = _read_message() or b"", _read_message()
        # Without any attempt, the plugin's files are compiled.
        going_on = self._fork(opening, attempt)
        while going_on and (attempt := _read_message()) is not None:
            going_on = self._fork(opening, attempt)
        self._send()

    def _fork(self, opening: bytes, attempt: bytes | None) -> bool:
        """Whether the process of this attempt has answered and left the folder empty."""
        note_attempt(self._progress, read_attempt(self._progress) + 1)
        ours, theirs = os.pipe()
        pid = self._walls.fork()
        if pid == 0:
            self._run_fork(theirs, opening, attempt)
        os.close(theirs)
        try:
            if self._held and not _can_read(ours, _HELD_S):
                self._send()
            if not self._hold_frame(ours):
                return False
        finally:
            os.close(ours)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        if len(self._held) > _HELD_BYTES or time.perf_counter() - self._sent > _HELD_S:
            self._send()
        return not os.listdir(self._walls.scratch)  # noqa: PTH208 (for each attempt)

    def _run_fork(self, theirs: int, opening: bytes, attempt: bytes | None) -> NoReturn:
        leave = os._exit
        try:
            self._forget()
            # The way to the host and the page that it reads are not the plugin's.
            self._progress.close()
            os.dup2(theirs, LINK)
            os.closerange(LINK + 1, 256)
            _close_walls(self._walls)
            _answer(self._call, opening, attempt, lambda: None)
        finally:
            leave(0)

    def _hold_frame(self, ours: int) -> bool:
        """Hold what an attempt has answered; what is no answer is dropped."""
        begin = len(self._held)
        if self._hold(ours, answer_frames.FRAME_BYTES):
            nonce, size = answer_frames.read_header(bytes(self._held[begin:]))
            fits = nonce == self._call.nonce and size <= self._call.most
            if fits and self._hold(ours, size):
                return True
        self._held[begin:] = b""
        return False

    def _hold(self, ours: int, size: int) -> bool:
        """Hold so many more bytes, read to where they can be wiped out."""
        begin = len(self._held)
        self._held += bytes(size)
        with memoryview(self._held) as held, held[begin:] as left:
            return _fill(left, ours)

    def _send(self) -> None:
        with memoryview(self._held) as held:
            _write(held)
        self._forget()
        self._sent = time.perf_counter()

    def _forget(self) -> None:
        self._held[:] = bytes(len(self._held))
        self._held.clear()


def _fill(left: memoryview, descriptor: int) -> bool:
    """Read until it is full; False at an end before that."""
    done = 0
    while done < len(left):
        read = os.readv(descriptor, [left[done : done + 2**18]])
        if not read:
            return False
        done += read
    return True


def _can_read(descriptor: int, seconds: float) -> bool:
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(seconds * 1000))


def _write(data: bytes | memoryview) -> None:
    done = 0
    while done < len(data):
        with memoryview(data) as view, view[done:] as left:
            done += os.write(LINK, left)


def _read_message() -> bytes | None:
    """The next message from the host; None at the end."""
    prefix = _read_exactly(answer_frames.LENGTH_BYTES)
    return None if prefix is None else _read_exactly(answer_frames.read_length(prefix))


def _read_exactly(size: int) -> bytes | None:
    data = bytearray(size)
    return bytes(data) if _fill(memoryview(data), LINK) else None

"""The child of a guest: it confines itself, answers the attempts of one call, and ends.

One attempt it answers itself. Of many, each is answered by a process forked from this one, which
then runs nothing of the plugin: so no attempt finds anything that another has left. Once the plugin
is loaded, it can change anything in its process.
"""

from __future__ import annotations

import importlib
import os
import random
import select
import signal
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from tallymark.sandbox import kernel_calls, rlimits, seccomp
from tallymark.sandbox.limits import NOT_LOADED
from tallymark.sandbox.plugins import answer_frames
from tallymark.sandbox.plugins.plain_data import AnswerTooLarge, decode, encode, encode_within
from tallymark.sandbox.plugins.plugin_files import CompiledImporter, compile_files

if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable, Iterator

    from tallymark.sandbox.plugins.answer_frames import CallHeader

LINK = 3
"""The descriptor over which attempts come and answers go."""
NOT_LOCKED_IN, NO_MEMORY, BROKEN = 113, 114, 115
"""Exit codes where it cannot send a message."""
_HELD_S = 0.005
_HELD_BYTES = 2**16


@dataclass(frozen=True, slots=True)
class Walls:
    """The walls around a child besides those that it inherits, prepared by its guest."""

    root: str
    """The plugin's files, which only a confined child imports."""
    scratch: str
    enforce: Callable[[], int] | None
    """Puts up Landlock's."""
    filter: seccomp.Filter | None
    open_files: int
    on_disk: bool
    """True if the scratch folder is on the host, which must then see the open files."""

    def fork(self) -> int:
        """Fork; in bubblewrap, a process whose number does not count the earlier ones."""
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
    """The whole work of a child. It never returns to the guest's code.

    `apart` is for many attempts. `progress` has the number of the attempt being scored, counted
    from 1; 0 while the plugin is loaded.
    """
    # Taken now: the plugin can put something else in its place.
    leave, code = os._exit, NOT_LOCKED_IN
    try:
        walls.put_up(link)
        if not apart:
            _close_walls(walls)
        code = BROKEN
        call = answer_frames.CallHeader.unpack(_read_exactly(answer_frames.CALL_BYTES) or b"")
        if apart:
            _Forks(call, progress, walls).serve()
        else:
            opening, attempt = _read_message() or b"", _read_message()
            _answer(call, opening, attempt, lambda: note_attempt(progress, 1))
        code = 0
    except MemoryError:
        code = NO_MEMORY
    except BaseException:  # noqa: BLE001, S110 (the exit code reports it)
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
    """The last steps before the first untrusted byte is read."""
    # Flags that a child sets on the guest's null device would stay for later children.
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.close(null)
    random.seed()  # without the handler of a fork (`guest_handle`), nothing else does
    walls.close()
    sys.path.insert(0, walls.root)


def _answer(
    call: CallHeader, opening: bytes, attempt: bytes | None, loaded: Callable[[], object]
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

    Each of them can read the memory of this process: so nothing here counts them or has their
    answers.
    """

    def __init__(self, call: CallHeader, progress: mmap.mmap, walls: Walls) -> None:
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
        """True if the process of this attempt answered and left the folder empty."""
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
        """Hold an attempt's answer; drop anything else."""
        begin = len(self._held)
        if self._hold(ours, answer_frames.FRAME_BYTES):
            nonce, size = answer_frames.read_header(bytes(self._held[begin:]))
            fits = nonce == self._call.nonce and size <= self._call.most
            if fits and self._hold(ours, size):
                return True
        self._held[begin:] = b""
        return False

    def _hold(self, ours: int, size: int) -> bool:
        """Read this many more bytes into a buffer that can be wiped."""
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


_AFTER_BUILT_IN = 2
"""Place of the plugin's importer: after the finders of built-in modules."""
_TEXT_CHARS = 500


def load_scorer(opening: dict[str, Any]) -> Callable[[object, str | None], bytes]:
    """A function that scores an attempt by a new instance of the plugin, or returns why it
    cannot.
    """
    sys.meta_path.insert(_AFTER_BUILT_IN, CompiledImporter(opening["compiled"]))
    try:
        home = importlib.import_module(opening["module"])
        plugin = getattr(home, opening["attribute"])
    except BaseException as error:  # noqa: BLE001 (a plugin may raise anything)
        failure = _encode_failure(error, NOT_LOADED)
        return lambda *_: failure
    config, context, most = opening["config"], opening["ctx"], opening["most"]

    def score(metrics: object, user: str | None) -> bytes:
        try:
            ctx = decode(context)
            if user is not None:
                ctx["end_user_id"] = user
            given = plugin().score(metrics, decode(config), ctx)
            return answer_frames.mark_given(encode_within(given, most))
        except AnswerTooLarge as error:
            return encode((answer_frames.FAILED, "bad answer", f"the answer has {error}"))
        except BaseException as error:  # noqa: BLE001 (as above)
            return _encode_failure(error)

    return score


def _encode_failure(error: BaseException, kind: str = "raised") -> bytes:
    if isinstance(error, MemoryError):
        stopped = "memory" if kind == "raised" else kind
        return encode((answer_frames.FAILED, stopped, "the plugin used more memory than it may"))
    try:
        words = " ".join(str(error)[:_TEXT_CHARS].split())
    except BaseException:  # noqa: BLE001 (its own text may be code of the plugin)
        words = ""
    name = type(error).__name__
    message = f"{name}: {words}" if words else name
    return encode((answer_frames.FAILED, kind, f"the plugin raised {message}{_find_line(error)}"))


def _find_line(error: BaseException) -> str:
    """The last line of the traceback in the plugin's own files."""
    found = ""
    for path, line in _walk_traceback(error):
        if path.startswith(sys.path[0]):
            found = f" (line {line} of {path[len(sys.path[0]) :].lstrip('/')})"
    return found


def _walk_traceback(error: BaseException) -> Iterator[tuple[str, int]]:
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame.f_code.co_filename, trace.tb_lineno
        trace = trace.tb_next

"""The child of a guest: locks itself in, loads the plugin, answers one call's attempts, and ends.

Everything here is trusted until the plugin is imported. After that the plugin can change any of it,
which is why only its own process is at stake, and the host believes nothing but well-formed data.
"""

from __future__ import annotations

import importlib
import os
import random
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from tallymark.sandbox import rlimits, seccomp
from tallymark.sandbox.limits import NOT_LOADED
from tallymark.sandbox.plugins import answer_frames
from tallymark.sandbox.plugins.plain_data import TooLarge, decode, encode, encode_within
from tallymark.sandbox.plugins.plugin_files import CompiledImporter, compile_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LINK = 3
"""The descriptor over which attempts come and answers go."""
NOT_LOCKED_IN, NO_MEMORY, BROKEN = 113, 114, 115
"""How it exits when it cannot say more."""
_AFTER_BUILT_IN = 2
"""Where modules of the plugin's root are looked for: after what is part of Python itself."""
_FLUSH_S = 0.005
_FLUSH_BYTES = 2**16
_TEXT_CHARS = 500


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


def run_child(link: int, progress: memoryview, walls: Walls) -> NoReturn:
    """All that a child does. It never returns to the guest's code, whatever happens."""
    # Taken now: the plugin can put something else in its place.
    leave, code = os._exit, NOT_LOCKED_IN
    try:
        random.seed()  # with no handler of a fork left (`guest_handle`), nobody else does
        _lock_in(link, walls)
        sys.path.insert(0, walls.root)
        code = BROKEN
        serve_attempts(LINK, progress)
        code = 0
    except MemoryError:
        code = NO_MEMORY
    except BaseException:  # noqa: BLE001, S110 (the exit code tells)
        pass
    finally:
        leave(code)


def _lock_in(link: int, walls: Walls) -> None:
    os.chdir(walls.scratch)
    if (tempfile := sys.modules.get("tempfile")) is not None:
        vars(tempfile)["tempdir"] = walls.scratch
    if walls.enforce is not None:
        walls.enforce()
    os.dup2(link, LINK)
    # The guest's descriptors, those of its other children among them, are not this child's.
    os.closerange(LINK + 1, 256)
    rlimits.apply_to_files(walls.open_files)
    if walls.filter is None:
        os.setsid()  # so that its guest can end those it starts
    else:
        # Last, because it takes away the calls by which the other walls were put up.
        walls.filter.load()


def serve_attempts(link: int, progress: memoryview) -> None:
    """Answer every attempt; progress says which one is being scored, counted from 1."""
    opening = decode(_read_message(link) or b"")
    send = _Answers(link, opening["nonce"], opening["most"])
    if opening["module"] is None:
        send.add(encode((answer_frames.GIVEN, compile_files(opening["root"]))))
        return send.flush()
    score = _load_scorer(opening)
    at = 0
    while (attempts := _read_message(link)) is not None:
        for metrics, user in decode(attempts):
            progress[0] = at = at + 1
            send.add(score(metrics, user))
        send.flush()


def _read_message(link: int) -> bytes | None:
    """The next message from the host; None at the end."""
    prefix = _read_exactly(link, answer_frames.LENGTH_BYTES)
    return None if prefix is None else _read_exactly(link, answer_frames.read_length(prefix))


def _read_exactly(link: int, size: int) -> bytes | None:
    parts = []
    while size:
        part = os.read(link, min(size, 2**18))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


class _Answers:
    """Answers on their way to the host: many in one frame, none held back for long."""

    def __init__(self, link: int, nonce: bytes, most: int) -> None:
        self._link, self._nonce, self._most = link, nonce, most
        self._held: list[bytes] = []
        self._size = 0
        self._last = time.perf_counter()

    def add(self, answer: bytes) -> None:
        if len(answer) > self._most:
            text = f"the answer has {len(answer):,} bytes, more than {self._most:,}"
            answer = encode((answer_frames.FAILED, "bad answer", text))
        self._held.append(answer)
        self._size += len(answer)
        if self._size > _FLUSH_BYTES or time.perf_counter() - self._last > _FLUSH_S:
            self.flush()

    def flush(self) -> None:
        if not self._held:
            return
        data = memoryview(
            answer_frames.pack_frame(self._nonce, answer_frames.join_answers(self._held))
        )
        while data:
            data = data[os.write(self._link, data) :]
        self._held, self._size, self._last = [], 0, time.perf_counter()


def _load_scorer(opening: dict[str, Any]) -> Callable[[object, str | None], bytes]:
    """Scores one attempt by a new instance of the plugin; if there is none, says why each time."""
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
        except TooLarge as error:
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
    said = f"{name}: {words}" if words else name
    return encode((answer_frames.FAILED, kind, f"the plugin raised {said}{_find_line(error)}"))


def _find_line(error: BaseException) -> str:
    """Where in the plugin's own files it was raised: the last line that is not the library's."""
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

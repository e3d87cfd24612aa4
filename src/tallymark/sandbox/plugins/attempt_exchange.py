"""One child's work, seen from the host: attempts go in, answers come out, the clock runs."""

from __future__ import annotations

import math
import secrets
import select
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tallymark.sandbox import scratch_folder
from tallymark.sandbox.kernel_calls import name_signal
from tallymark.sandbox.plugins import answer_frames, guest_child
from tallymark.sandbox.plugins.guest import SCRATCH_FILES
from tallymark.sandbox.plugins.guest_handle import GuestGone
from tallymark.sandbox.plugins.plain_data import decode_answer, encode
from tallymark.sandbox.programs import process_usage
from tallymark.text import format_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tallymark.sandbox.limits import Limits
    from tallymark.sandbox.plugins.guest_handle import ChildHandle, GuestHandle
    from tallymark.sandbox.plugins.plugin_files import CompiledFiles, PluginCode

StoppedCall = Literal[
    "timeout", "memory", "crashed", "raised", "refused", "bad answer", "not loaded", "paused"
]

_EXITS: dict[int, tuple[StoppedCall, str]] = {
    guest_child.NO_MEMORY: ("memory", "the plugin used more memory than it may"),
    guest_child.NOT_LOCKED_IN: ("crashed", "the sandbox around the plugin could not be set up"),
    guest_child.BROKEN: ("bad answer", "the plugin broke the channel of its answer"),
}
_SIGNALS: dict[int, tuple[StoppedCall, str]] = {
    signal.SIGSYS: ("refused", "the plugin made a system call that is not allowed"),
    # The first process of a namespace is ended so when it aborts itself.
    signal.SIGSEGV: ("crashed", "the plugin crashed (SIGSEGV), or aborted itself"),
    signal.SIGABRT: ("crashed", "the plugin aborted itself (SIGABRT)"),
    signal.SIGKILL: ("crashed", "the plugin was killed twice (SIGKILL), or killed itself"),
}


@dataclass(frozen=True, slots=True)
class CallEnding:
    """The kind of failure, and a sentence about it."""

    stopped: StoppedCall
    text: str
    killed: bool = False
    """Ended by SIGKILL, but not by us: by the plugin itself, for example through its limit of
    processor time, or from outside, such as a kernel that is out of memory.
    """

    @classmethod
    def of(cls, code: int, *, began_answer: bool) -> CallEnding:
        """The ending for a child's exit code, negative for a signal, without a whole answer."""
        if code in _EXITS:
            return cls(*_EXITS[code])
        if -code in _SIGNALS:
            return cls(*_SIGNALS[-code], killed=code == -signal.SIGKILL)
        if code < 0:
            return cls("crashed", f"the plugin crashed with {name_signal(-code)}")
        if began_answer:
            return cls("bad answer", "the plugin ended in the middle of its answer")
        return cls("crashed", f"the plugin ended itself with exit code {code} and gave no answer")


class NoAnswer(Exception):
    """A call without an answer; `ending` has the reason."""

    at: int | None = None
    """The attempt that was being scored, counted from 1; 0 while the plugin was loaded.

    None when the whole guest has gone.
    """

    def __init__(self, ending: CallEnding) -> None:
        super().__init__(ending.text)
        self.ending = ending


_READ = 2**18
_LOOK_S = 0.05
"""Interval between checks of a scratch folder on disk, which nothing else limits."""
_GRACE_S = 0.01
"""In a batch, answers may be held back this long before the next attempt's clock starts."""
_CLOSING_S = 1.0
_MB = 2**20
MOST_ANSWER = 2**17
"""Largest answer of one attempt in bytes: the answers of a batch must fit into memory."""


class PluginJob:
    """The plugin, config and context of all attempts of one caller."""

    def __init__(
        self, code: PluginCode, limits: Limits, *, config: object, ctx: object, timeout_s: float
    ) -> None:
        self.code = code
        self.timeout_s = timeout_s
        self.most = int(limits.output_mb * _MB)
        self.most_of_one = min(self.most, MOST_ANSWER)
        self.disk = int(limits.disk_mb * _MB)
        self._opening = {
            "module": code.module,
            "attribute": code.attribute,
            "config": encode(config),
            "ctx": encode(ctx),
            "most": self.most_of_one,
        }

    def make_opening(self, nonce: bytes, compiled: CompiledFiles | None, root: Path) -> bytes:
        """The opening message for a child; without compiled code, the child compiles the files."""
        opening, most = self._opening | {"compiled": compiled}, self.most_of_one
        if compiled is None:
            opening, most = {"module": None, "root": str(root)}, self.most
        call = answer_frames.CallHeader(nonce, most)
        return call.pack() + answer_frames.pack_message(encode(opening))


def exchange_attempts(
    guest: GuestHandle, job: PluginJob, attempts: Iterable[list[Any]], expected: int
) -> Iterator[Any]:
    """The answers to the attempts, as they come; `NoAnswer` when the child stops before the last.

    `attempts` come in lists, each of which is encoded at once.
    """
    nonce = secrets.token_bytes(answer_frames.NONCE_BYTES)
    child = guest.take()
    try:
        talk = _AttemptTalk(guest, child, job, answer_frames.Frames(nonce, job.most))
        opening = job.make_opening(nonce, guest.compiled, guest.view.root)
        talk.outgoing = _join_messages(opening, attempts)
        yield from talk.answers(expected)
    except NoAnswer as ended:
        child.kill()
        ended.at = _find_attempt(guest, child)
        raise
    finally:
        child.close()


def _find_attempt(guest: GuestHandle, child: ChildHandle) -> int | None:
    """The attempt that it was at when it ended."""
    try:
        return guest.settle(child.number)[1]
    except GuestGone:
        return None


def _join_messages(opening: bytes, attempts: Iterable[list[Any]]) -> Iterator[bytes]:
    for some in attempts:
        yield opening + b"".join(answer_frames.pack_message(encode(each)) for each in some)
        opening = b""
    if opening:
        yield opening


class _AttemptTalk:
    """Sends and receives at once, so that neither side ever waits for the other for good."""

    outgoing: Iterator[bytes] = iter(())

    def __init__(
        self, guest: GuestHandle, child: ChildHandle, job: PluginJob, came: answer_frames.Frames
    ) -> None:
        self._guest, self._child, self._job, self._frames = guest, child, job, came
        # Compiled files are one answer, made by a child that ran none of them.
        self._most_of_one = job.most if guest.compiled is None else job.most_of_one
        self._link = child.link
        self._link.setblocking(False)
        self._rest = memoryview(b"")
        self._poll = select.poll()
        self._poll.register(self._link, select.POLLIN | select.POLLOUT)
        self._poll.register(child.pidfd, select.POLLIN)
        self._poll.register(guest.control, 0)  # only that it was hung up

    def answers(self, expected: int) -> Iterator[Any]:
        allowed = self._job.timeout_s + (_GRACE_S if expected > 1 else 0)
        deadline = time.monotonic() + allowed
        while expected > 0:
            whole = self._complete_frames(self._receive(deadline))
            # Bytes that make no whole answer win no time: else one drop at a time would never end.
            if not whole and time.monotonic() > deadline:
                raise NoAnswer(self._make_timeout())
            for data in whole:
                if expected == 0:
                    raise NoAnswer(
                        CallEnding("bad answer", "the plugin gave more answers than attempts")
                    )
                expected -= 1
                yield decode_answer(data, self._most_of_one)
                deadline = time.monotonic() + allowed

    def _complete_frames(self, data: bytes) -> list[bytes]:
        if not data:
            raise NoAnswer(self._find_ending())
        try:
            return self._frames.feed(data)
        except answer_frames.BadFrame as error:
            raise NoAnswer(CallEnding("bad answer", str(error))) from None

    def _make_timeout(self) -> CallEnding:
        return CallEnding(
            "timeout", f"the plugin took longer than {format_number(self._job.timeout_s)} s"
        )

    def _find_ending(self) -> CallEnding:
        """Why nothing more comes. A child that only closed its end may still be running."""
        over = select.poll()
        over.register(self._child.pidfd, select.POLLIN)
        over.register(self._guest.control, 0)
        if not over.poll(_CLOSING_S * 1000):
            return CallEnding("bad answer", "the plugin closed the channel of its answer")
        try:
            code, _ = self._guest.settle(self._child.number)
            return CallEnding.of(code, began_answer=self._frames.begun)
        except GuestGone:
            return CallEnding("crashed", "the sandbox around the plugin ended")

    def _receive(self, deadline: float) -> bytes:
        """The next bytes from the child, and none once it has ended."""
        while True:
            left = deadline - time.monotonic()
            ready = dict(self._poll.poll(math.ceil(self._patience(left) * 1000)))
            state = ready.pop(self._link.fileno(), 0)
            if state & select.POLLOUT:
                self._send()  # first, so that the child has work while we read
            if state & ~select.POLLOUT or ready:
                return self._read()
            if state & select.POLLOUT:
                continue
            if left <= 0:
                raise NoAnswer(self._make_timeout())
            if self._is_overfull():
                message = "the plugin wrote more to its scratch folder than it may"
                raise NoAnswer(CallEnding("refused", message))

    def _is_overfull(self) -> bool:
        folder, most = self._guest.folder, self._job.disk
        if folder is None:
            return False
        removed = 0
        for pid in self._child.list_pids():
            with suppress(PermissionError):  # it runs nothing of the plugin, or not yet
                removed += process_usage.count_removed_bytes(pid, folder, most)
        return scratch_folder.is_overfull(folder, most, SCRATCH_FILES, removed_bytes=removed)

    def _patience(self, left: float) -> float:
        return max(0.0, left if self._guest.folder is None else min(left, _LOOK_S))

    def _read(self) -> bytes:
        try:
            return self._link.recv(_READ)
        except (BlockingIOError, ConnectionResetError):
            return b""

    def _send(self) -> None:
        if not self._rest:
            following = next(self.outgoing, None)
            if following is None:
                return self._stop_sending()
            self._rest = memoryview(following)
        try:
            self._rest = self._rest[self._link.send(self._rest, socket.MSG_NOSIGNAL) :]
        except BlockingIOError:
            return None
        except OSError:
            return self._stop_sending()  # the child has gone; its output is still to be read

    def _stop_sending(self) -> None:
        self._poll.modify(self._link, select.POLLIN)
        with suppress(OSError):
            self._link.shutdown(socket.SHUT_WR)

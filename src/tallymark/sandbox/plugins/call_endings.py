"""How a call can end without an answer, in words for the plugin's author."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Literal

from tallymark.sandbox.kernel_calls import name_signal
from tallymark.sandbox.plugins import guest_child

StoppedCall = Literal[
    "timeout", "memory", "crashed", "raised", "refused", "bad answer", "not loaded", "paused"
]

_EXITS: dict[int, tuple[StoppedCall, str]] = {
    guest_child.NO_MEMORY: ("memory", "the plugin used more memory than it may"),
    guest_child.NOT_LOCKED_IN: ("crashed", "the sandbox around the plugin could not be set up"),
    guest_child.BROKEN: ("bad answer", "the plugin broke the channel of its answer"),
}
_SIGNALS: dict[int, tuple[StoppedCall, str]] = {
    signal.SIGSYS: ("refused", "the plugin asked the system for something that no plugin may do"),
    # The first process of a namespace is ended so when it aborts itself.
    signal.SIGSEGV: ("crashed", "the plugin crashed (SIGSEGV), or aborted itself"),
    signal.SIGABRT: ("crashed", "the plugin aborted itself (SIGABRT)"),
    signal.SIGKILL: ("crashed", "the plugin was killed twice (SIGKILL), or killed itself"),
}


@dataclass(frozen=True, slots=True)
class Ending:
    """Which kind of failure it was, and a sentence about it."""

    stopped: StoppedCall
    text: str
    killed: bool = False
    """By SIGKILL, and not by us: by the plugin itself, which can have its limit of processor time
    do that, or by somebody outside, such as a kernel that is out of memory."""

    @classmethod
    def of(cls, code: int, *, began_answer: bool) -> Ending:
        """What a child's exit code says, negative for a signal, given that no whole answer came."""
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
    """Raised where an answer was waited for; `ending` says why there is none."""

    at: int | None = None
    """The attempt that was being scored, counted from 1; 0 while the plugin was loaded.

    None when the whole guest has gone, and nobody can tell.
    """

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.text)
        self.ending = ending

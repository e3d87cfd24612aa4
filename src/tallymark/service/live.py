"""`LiveHub`: changes of boards and runs as server-sent events.

One for a process. One task polls subjects with listeners, at most twice a second each; a change is
encoded once for each view, and all listeners of a view get the same bytes. Event numbers are those
of the log, so that a client that reconnects continues where it was. See
docs/decisions/0035-live.md.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from tallymark.errors import InvalidInput, TallymarkError
from tallymark.service.callers import TEAM, Caller, check_role
from tallymark.service.fair_threads import FairThreads, name_share
from tallymark.service.visibility import find_visible, sees_live
from tallymark.store.contests.board_changes import BoardChange, Newest
from tallymark.store.run_results import RunCounts

if TYPE_CHECKING:
    from tallymark.service.tenant import TenantServices
    from tallymark.store import Store
    from tallymark.store.contests.board_changes import PlaceNow, ViewedChange
    from tallymark.store.run_results import RunProgress

View = Literal["public", "organiser"]
VIEWS: tuple[View, ...] = ("public", "organiser")
GATHERING_S = 0.5
"""Maximum time for collecting changes."""
CHECKING_S = 3.0
"""Time for which a listener with an expired key or session may still receive events."""
HEARTBEAT_S = 15.0
HEARTBEAT = b": still here\n\n"
RETRY = b"retry: 2000\n\n"
"""Start of every stream: the reconnection delay in milliseconds."""
MOST_WAITING = 32
"""Maximum messages waiting for a listener; a slower one starts again."""
MOST_KEPT = 64
"""Messages stored for clients that reconnect."""
SOMEBODY = Caller("default", "viewer", "somebody")
"""Default listener."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Message:
    """Message of one view for the changes after `before`, up to `seq`."""

    before: int
    seq: int
    data: bytes


Messages: TypeAlias = dict[View, Message]


class LiveHub:
    """Belongs to the event loop of its first listener; `notify` may be called from anywhere.

    `find_ended` returns which keys and sessions, by hash, have ended: their listeners receive
    nothing more. All `..._s` are seconds of `clock`, which is monotonic.
    """

    def __init__(
        self,
        *,
        find_ended: Callable[[Collection[str]], Collection[str]] = lambda _: (),
        threads: FairThreads | None = None,
        gathering_s: float = GATHERING_S,
        checking_s: float = CHECKING_S,
        heartbeat_s: float = HEARTBEAT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._find_ended = find_ended
        self._threads = threads or FairThreads()
        self._gathering_s = gathering_s
        self._checking_s = checking_s
        self._heartbeat_s = heartbeat_s
        self._clock = clock
        self._topics: dict[object, _Topic] = {}
        self._boards: dict[int, object] = {}
        """The topics of challenges, by their ids."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._woken: asyncio.Event | None = None
        self._closed = False

    @property
    def listeners(self) -> int:
        """Number of listeners."""
        return sum(len(each.listeners) for each in self._topics.values())

    def notify(self, challenge_id: int) -> None:
        """Notify of a commit to a challenge. Fast, and harmless without listeners."""
        if (key := self._boards.get(challenge_id)) is not None:
            self._mark_from_anywhere(key)

    def notify_run(self, tenant: str, run_id: str) -> None:
        """Something of a run was committed."""
        self._mark_from_anywhere(("run", tenant, run_id))

    def _mark_from_anywhere(self, key: object) -> None:
        if key in self._topics and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._mark_changed, key)

    async def listen_to_board(
        self, services: TenantServices, caller: Caller, challenge: str, last_event_id: str | None
    ) -> AsyncIterator[bytes]:
        """Listen to a board that the caller may see: organisers hear of what a freeze hides."""
        await self._threads.run(name_share(caller), find_visible, services, caller, challenge)
        view: View = "organiser" if sees_live(caller) else "public"
        return await self.listen(services.store, challenge, view, last_event_id, caller=caller)

    async def listen_to_run(
        self, services: TenantServices, caller: Caller, run: str, last_event_id: str | None
    ) -> AsyncIterator[bytes]:
        """Listen to a run: how far it is now, then what changes, until it has ended."""
        check_role(caller, TEAM)
        return await self.follow_run(services.store, run, last_event_id, caller=caller)

    async def listen(
        self,
        store: Store,
        challenge: str,
        view: View,
        last_event_id: str | None = None,
        *,
        caller: Caller = SOMEBODY,
    ) -> AsyncIterator[bytes]:
        """The events of a board from now on, or after the last one that was seen.

        An unknown challenge is refused before anything is sent. The stream ends when the hub is
        closed, and when the caller may not hear it any more.
        """
        after = _read_event_id(last_event_id)
        # Where others listen already, there is nothing to be read.
        topic = self._topics.get(("board", store.tenant, challenge))
        if topic is None:
            share = name_share(caller)
            topic = await self._threads.run(share, _BoardTopic.open, store, challenge)
        return self._stream(topic, _Listener(view, caller), after)

    async def follow_run(
        self,
        store: Store,
        run_id: str,
        last_event_id: str | None = None,
        *,
        caller: Caller = SOMEBODY,
    ) -> AsyncIterator[bytes]:
        topic = await self._threads.run(name_share(caller), _RunTopic.open, store, run_id)
        listener = _Listener("public", caller)
        return self._stream(topic, listener, _read_event_id(last_event_id))

    def end(self) -> None:
        """Ends all streams soon. It may be called from a signal's handler."""
        self._closed = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._end_topics)

    def _end_topics(self) -> None:
        for topic in self._topics.values():
            topic.end()

    async def close(self) -> None:
        """Ends all streams, and what was started for them."""
        self._closed = True
        self._end_topics()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _stream(
        self, fresh: _Topic, listener: _Listener, after: int | None
    ) -> AsyncIterator[bytes]:
        if self._closed:
            return
        # Only when it is read: a stream that never starts leaves nothing behind.
        topic = self._topics.setdefault(fresh.key, fresh)
        if not topic.listeners:
            topic.looked_at = self._clock()
            if isinstance(topic, _BoardTopic):
                self._boards[topic.newest.challenge_id] = topic.key
        topic.listeners.add(listener)
        self._start()
        try:
            yield RETRY
            for data in await self._catch_up(topic, listener, after):
                yield data
            listener.ended |= topic.ended or self._closed
            while (following := await listener.take()) is not None:
                yield following
        finally:
            topic.listeners.discard(listener)
            if not topic.listeners and self._topics.get(topic.key) is topic:
                del self._topics[topic.key]
                if isinstance(topic, _BoardTopic):
                    del self._boards[topic.newest.challenge_id]

    async def _catch_up(
        self, topic: _Topic, listener: _Listener, after: int | None
    ) -> Iterable[bytes]:
        view = listener.view
        if after is None:
            return [topic.greet(view)]
        kept = [each for each in topic.kept[view] if each.seq > after]
        if kept and kept[0].before <= after:
            return [each.data for each in kept]
        if after == topic.seq:
            return topic.welcome_back(view)
        share = name_share(listener.caller)
        return [await self._threads.run(share, topic.tell_since, view, after, patient=True)]

    def _start(self) -> None:
        if self._task is None:
            self._loop = asyncio.get_running_loop()
            self._woken = asyncio.Event()
            self._task = self._loop.create_task(self._work())
        elif self._woken is not None:
            self._woken.set()  # there may be something more to look at

    def _mark_changed(self, key: object) -> None:
        if (topic := self._topics.get(key)) is not None and self._woken is not None:
            topic.changed = True
            self._woken.set()

    async def _work(self) -> None:
        assert self._woken is not None  # noqa: S101 (for the type checker)
        heartbeat = self._clock() + self._heartbeat_s
        check = self._clock() + self._checking_s
        while not self._closed:
            now = self._clock()
            if now >= heartbeat:
                heartbeat = now + self._heartbeat_s
                for topic in self._topics.values():
                    topic.send_heartbeat()
            if now >= check:
                check = now + self._checking_s
                await self._send_away()
            due = [each for each in self._topics.values() if self._find_due(each) <= now]
            for topic in due:
                topic.changed, topic.looked_at = False, now
            found = await asyncio.to_thread(_look_at_all, due) if due else []
            for topic, messages in found:
                topic.told_at = now
                topic.publish(messages)
            # Without listeners, only a new one changes that, and it wakes this task.
            next_due = min([heartbeat, check, *map(self._find_due, self._topics.values())])
            self._woken.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, next_due - self._clock())):
                    await self._woken.wait()

    async def _send_away(self) -> None:
        """Listeners whose key or session has ended, in one query."""
        known = [
            each
            for topic in self._topics.values()
            for each in topic.listeners
            if each.caller.credential is not None
        ]
        if not known:
            return
        try:
            ended = await asyncio.to_thread(
                self._find_ended, {each.caller.credential or "" for each in known}
            )
        except TallymarkError as error:
            _log.warning("whether listeners may still hear could not be found out: %s", error)
            return
        for each in known:
            if each.caller.credential in ended:
                each.send_away()

    def _find_due(self, topic: _Topic) -> float:
        """Next time to look: at once after a change, unless a message was just sent."""
        last = topic.told_at if topic.changed else topic.looked_at
        return last + self._gathering_s


class _Listener:
    """One who listens: bytes that wait for it, shared with all others."""

    __slots__ = ("caller", "ended", "ready", "view", "waiting")

    def __init__(self, view: View, caller: Caller) -> None:
        self.view = view
        self.caller = caller
        self.waiting: deque[bytes] = deque()
        self.ready = asyncio.Event()
        self.ended = False

    def put(self, data: bytes, reset: bytes) -> None:
        """`reset` takes the place of all that waits, where that has become too much."""
        if len(self.waiting) >= MOST_WAITING:
            self.waiting.clear()
            data = reset
        self.waiting.append(data)
        self.ready.set()

    def end(self) -> None:
        """Close the stream; waiting messages are still read."""
        self.ended = True
        self.ready.set()

    def send_away(self) -> None:
        """Close the stream without waiting messages, which the listener may not read any more."""
        self.waiting.clear()
        self.end()

    async def take(self) -> bytes | None:
        """The next bytes; None at the end."""
        while not self.waiting:
            if self.ended:
                return None
            self.ready.clear()
            await self.ready.wait()
        return self.waiting.popleft()


@dataclass(eq=False, kw_only=True)
class _Topic(ABC):
    """A subject: the number of the last message, and its listeners."""

    store: Store
    seq: int = 0
    listeners: set[_Listener] = field(default_factory=set)
    kept: dict[View, deque[Message]] = field(
        default_factory=lambda: {view: deque(maxlen=MOST_KEPT) for view in VIEWS}
    )
    changed: bool = False
    looked_at: float = -math.inf
    told_at: float = -math.inf

    @property
    @abstractmethod
    def key(self) -> object:
        """By which the hub knows it."""

    @abstractmethod
    def look(self) -> Messages:
        """New messages of each view; runs in a thread."""

    @abstractmethod
    def greet(self, view: View) -> bytes:
        """For who comes without a number: from where on it hears."""

    def welcome_back(self, view: View) -> Iterable[bytes]:  # noqa: ARG002 (nothing is new to any)
        """For who comes back with the last number there is."""
        return ()

    @abstractmethod
    def tell_since(self, view: View, after: int) -> bytes:
        """For who comes back after a long time; in a thread."""

    @property
    def ended(self) -> bool:
        """True if no more messages follow."""
        return False

    def may_hear(self, caller: Caller) -> bool:  # noqa: ARG002 (more than who was let in)
        """True if the listener is still authorised."""
        return True

    def publish(self, messages: Messages) -> None:
        """Send every listener the message of its view."""
        for listener in self.listeners:
            if not self.may_hear(listener.caller):
                listener.send_away()
        reset = encode_event("reset", self.seq, {"seq": self.seq})
        for view, message in messages.items():
            self.kept[view].append(message)
        for listener in self.listeners:
            told = messages.get(listener.view)
            if told is not None and not listener.ended:
                listener.put(told.data, reset)
        if self.ended:
            self.end()

    def send_heartbeat(self) -> None:
        """To those who have nothing else to read: who is gone is noticed by it."""
        for listener in self.listeners:
            if not listener.waiting:
                listener.put(HEARTBEAT, HEARTBEAT)

    def end(self) -> None:
        """Ends the streams of all listeners once they have read what waits."""
        for listener in self.listeners:
            listener.end()


@dataclass(eq=False, kw_only=True)
class _BoardTopic(_Topic):
    """The board of a challenge."""

    name: str
    newest: Newest
    tops: dict[View, tuple[PlaceNow, ...]]

    @classmethod
    def open(cls, store: Store, name: str) -> _BoardTopic:
        newest = store.board_changes.newest(name)
        newest, *views = store.board_changes.after(name, newest.seq)
        tops = {view: each.top for view, each in zip(VIEWS, views, strict=True)}
        return cls(store=store, seq=newest.seq, name=name, newest=newest, tops=tops)

    @property
    def key(self) -> object:
        return ("board", self.store.tenant, self.name)

    def may_hear(self, caller: Caller) -> bool:
        return self.newest.public or caller.role != "anonymous"

    def greet(self, view: View) -> bytes:  # noqa: ARG002 (all hear from the same number on)
        return encode_event("ready", self.seq, {"seq": self.seq, "challenge": self.name})

    def look(self) -> Messages:
        newest = self.store.board_changes.newest(self.name)
        if newest == self.newest:
            return {}
        before, absent = self.newest.seq, self.newest.absent
        newest, *views = self.store.board_changes.after(
            self.name, before, absent_changed=newest.absent != absent
        )
        messages: Messages = {}
        encoded: dict[int, Message] = {}
        for view, change in zip(VIEWS, views, strict=True):
            if change.told is not None:
                # While nothing is frozen both views are one, and so are their bytes.
                known = encoded.get(id(change))
                messages[view] = known or self._encode(before, change, self.tops[view])
                encoded[id(change)] = messages[view]
        self.tops = {view: each.top for view, each in zip(VIEWS, views, strict=True)}
        self.newest, self.seq = newest, newest.seq
        return messages

    def tell_since(self, view: View, after: int) -> bytes:
        newest, *views = self.store.board_changes.after(self.name, after)
        change = dict(zip(VIEWS, views, strict=True))[view]
        if after > newest.seq or after < 0:
            return encode_event("reset", newest.seq, {"seq": newest.seq})
        if change.told is None:
            return encode_event("ready", newest.seq, {"seq": newest.seq, "challenge": self.name})
        # The changes that moved others into the top are unknown, so all of it is sent.
        told = msgspec.structs.replace(change.told, top=change.top)
        return encode_event("board", newest.seq, told)

    def _encode(self, before: int, change: ViewedChange, top: tuple[PlaceNow, ...]) -> Message:
        assert change.told is not None  # noqa: S101 (for the type checker)
        told = _add_moves(change.told, change.top, {each.agent: each.rank for each in top})
        return Message(before, told.seq, encode_event("board", told.seq, told))


def _add_moves(told: BoardChange, top: tuple[PlaceNow, ...], ranks: dict[str, int]) -> BoardChange:
    """With the ranks before, and with those whom others' moves brought into the top."""
    if told.top is not None:
        return told
    named = {each.agent for each in told.changed}
    moved_up = [each for each in top if each.agent not in ranks and each.agent not in named]
    changed = sorted([*told.changed, *moved_up], key=lambda each: each.rank)
    placed = (msgspec.structs.replace(each, was=ranks.get(each.agent)) for each in changed)
    return msgspec.structs.replace(told, changed=tuple(placed))


@dataclass(eq=False, kw_only=True)
class _RunTopic(_Topic):
    """A run."""

    counts: RunCounts
    progress: RunProgress

    @classmethod
    def open(cls, store: Store, run_id: str) -> _RunTopic:
        counts = RunCounts()
        progress = store.run_progress.read(run_id, counts)
        return cls(store=store, seq=progress.seq, counts=counts, progress=progress)

    @property
    def key(self) -> object:
        return ("run", self.store.tenant, self.progress.run)

    @property
    def ended(self) -> bool:
        return self.progress.ended

    def greet(self, view: View) -> bytes:  # noqa: ARG002 (a run looks alike to all who may see it)
        return encode_event("run", self.seq, self.progress)

    def welcome_back(self, view: View) -> Iterable[bytes]:
        # A run begins and ends without another number.
        return (self.greet(view),)

    def tell_since(self, view: View, after: int) -> bytes:  # noqa: ARG002 (all of it is told)
        return self.greet(view)

    def look(self) -> Messages:
        before = self.progress
        now = self.store.run_progress.read(before.run, self.counts)
        if (now.seq, now.status) == (before.seq, before.status):
            return {}
        self.progress, self.seq = now, now.seq
        return {"public": Message(before.seq, now.seq, encode_event("run", now.seq, now))}


def encode_event(kind: str, seq: int, content: Any) -> bytes:
    """One server-sent event; JSON never holds a line break."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (seq, kind.encode(), msgspec.json.encode(content))


def _look_at_all(topics: Iterable[_Topic]) -> list[tuple[_Topic, Messages]]:
    found = []
    for topic in topics:
        try:
            if messages := topic.look():
                found.append((topic, messages))
        except TallymarkError as error:
            # The database may be back at the next look; no message is lost.
            _log.warning("cannot see what changed: %s", error)
    return found


def _read_event_id(text: str | None) -> int | None:
    if text is None or not text.strip():
        return None
    if not (text.isascii() and text.strip().isdigit() and len(text) <= 19):
        raise InvalidInput(
            f"Last-Event-ID is the number of an event, not {text[:40]!r}", hint="leave it out"
        )
    return int(text)

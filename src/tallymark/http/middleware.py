"""Middleware of every request: request id, decompressed and bounded body, safe headers, log line.

Plain ASGI costs microseconds, where a middleware class of Starlette costs a task.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import sys
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol
from urllib.parse import quote, unquote

import msgspec
from anyio import CapacityLimiter, to_thread
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tallymark.documents.bounded_json import count_json_values
from tallymark.errors import Busy, Problem
from tallymark.http.problems import MEDIA_TYPE, RequestProblem, refuse
from tallymark.instrumentation import watch
from tallymark.service.limits import BODIES, SMALL_BODY, VALUES, MemoryBudget, name_owner
from tallymark.service.problems import describe_problem
from tallymark.service.server_logs import begin_request

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_VALUE_BYTES = 150
"""Memory that a value takes once it is read; `{}` is two bytes before that."""
_COPIES = 2
"""Copies of a body in memory while it is read."""
_MOST_UNPACKING = 4
"""Bodies decompressed at the same time: their memory is known, and charged, only afterwards."""
_AT_ONCE = 1_024
"""Packed bytes that are unpacked in the event loop; they may become ten thousand times as many."""
_UNCOUNTED = 200_000
"""Bytes of a body whose values cannot take much memory."""
_ZSTD: Mapping[int, int] = {zstd.DecompressionParameter.window_log_max: 23}
"""8 MB, as RFC 9659 sets for HTTP: with a larger window, a few bytes would claim much memory."""
_MOST_FRAMES = 256
"""Packed pieces of one body: each costs an unpacker, also one that is empty."""
_GIVEN_ID = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
]


_ENDING = Problem("the server is ending", None, "ask again in some seconds")
_SOON = [(b"retry-after", b"5")]
_OF_BODY = (b"content-type", b"content-encoding", b"content-length")
SLASH = "\ue000"
"""A private-use character that stands for a slash sent as %2F."""
_QUOTED_SLASH = quote(SLASH)


class Note(Protocol):
    """Callback that counts requests."""

    def __call__(self, scope: Scope, status: int, seconds: float) -> None: ...


class RequestMiddleware:
    """Wrap an application. `hosts` are the Host headers that are answered; None for all."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        memory: MemoryBudget,
        note: Note | None = None,
        hosts: frozenset[str] | None = None,
        is_ending: Callable[[], bool] = lambda: False,
    ) -> None:
        self._app = app
        self._memory = memory
        self._unpacking = CapacityLimiter(_MOST_UNPACKING)
        self._note = note
        self._hosts = hosts
        self._is_ending = is_ending

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()
        headers = dict(scope["headers"])
        request_id = _read_id(headers.get(b"x-request-id")) or secrets.token_hex(8)
        scope["tally.request_id"] = request_id
        begin_request(request_id)
        if (
            self._hosts is not None
            and headers.get(b"host", b"").decode("latin-1").lower() not in self._hosts
        ):
            message = "this address is not served under that name"
            said = Problem(message, None, "use the one it was given")
            await _refuse(send, request_id, 421, said)
            return
        if len(headers) < len(scope["headers"]) and (twice := _find_repeated(scope)):
            said = Problem(f"the header {twice} is sent twice", None, "send it once")
            await _refuse(send, request_id, 400, said)
            return
        scope = keep_slashes(scope)
        if scope["method"] == "HEAD":
            # HEAD is allowed wherever GET is.
            scope = {**scope, "method": "GET"}
            receive, send = _leave_out_body(receive, send)
        status, began_answer = 500, False

        async def answer(message: Message) -> None:
            nonlocal status, began_answer
            if message["type"] == "http.response.start":
                status, began_answer = message["status"], True
                told = dict(message["headers"])
                # Pages have stricter ones of their own.
                ours = [each for each in _HEADERS if each[0] not in told]
                message["headers"] = [
                    *message["headers"], *ours, (b"x-request-id", request_id.encode())
                ]  # fmt: skip
            await send(message)

        body = BoundedBody(receive, scope, headers, self._memory, self._unpacking)
        scope["tally.body"] = body
        try:
            with watch("request", scope=scope) as work:
                try:
                    await self._app(scope, body, answer)
                except asyncio.CancelledError:
                    # What is still served some seconds after SIGTERM is cancelled.
                    if not self._is_ending():
                        raise
                    if not began_answer:
                        status = 503
                        await _refuse(send, request_id, status, _ENDING, _SOON)
                work.outcomes[str(status)] += 1
        finally:
            body.release()
            if self._note is not None:
                self._note(scope, status, time.perf_counter() - began)


def _read_id(given: bytes | None) -> str | None:
    """Return the id that a proxy or a client sent, if it is safe in any log."""
    return given.decode() if given is not None and _GIVEN_ID.fullmatch(given) else None


def _find_repeated(scope: Scope) -> str | None:
    """Find a body header that is sent twice: the bound and the reader could use different ones."""
    names = [name for name, _ in scope["headers"]]
    return next((each.decode() for each in _OF_BODY if names.count(each) > 1), None)


def keep_slashes(scope: Scope) -> Scope:
    """Replace %2F in names by `SLASH` until the route is found."""
    raw = scope.get("raw_path") or b""
    if b"%2f" not in raw.lower() or not raw.startswith(b"/api/"):
        return scope
    kept = raw.decode("latin-1").replace("%2f", _QUOTED_SLASH).replace("%2F", _QUOTED_SLASH)
    return {**scope, "path": unquote(kept)}


def restore_slashes(scope: Scope) -> None:
    """Put slashes back into the names that a route found."""
    for name, value in scope.get("path_params", {}).items():
        scope["path_params"][name] = value.replace(SLASH, "/")


def find_bound(path: str) -> int:
    """Find the largest allowed body of an address, in bytes."""
    return BODIES.get(path.rstrip("/").rpartition("/")[2], BODIES["others"])


def find_most_values(path: str) -> int:
    """Find the largest allowed number of values in a body of an address."""
    return VALUES.get(path.rstrip("/").rpartition("/")[2], VALUES["others"])


class BoundedBody:
    """A `receive` that decompresses a body and refuses too many bytes, values or too much memory.

    JSON and protobuf are passed on whole, after their values were counted: no object is built of a
    body before. Everything else is passed on as it arrives. A large body holds its share of the
    memory budget until the request has ended.
    """

    def __init__(
        self,
        receive: Receive,
        scope: Scope,
        headers: Mapping[bytes, bytes],
        memory: MemoryBudget,
        unpacking: CapacityLimiter,
    ) -> None:
        self._unpacking = unpacking
        self._receive = receive
        self._scope = scope
        self._memory = memory
        self._bound = self._left = self._packed_left = find_bound(scope["path"])
        self._most_values = find_most_values(scope["path"])
        self._held: tuple[str, int] | None = None
        self._read = 0
        self._frames = 0
        packed = headers.get(b"content-encoding", b"identity").decode("latin-1").strip().lower()
        self._unpacker: Any = None
        self._packed = packed
        self._kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        length = headers.get(b"content-length", b"")
        # One of more digits is too long in any case, and Python would not read it.
        self._length = int(length) if length.isdigit() and len(length) <= 15 else 0
        self._too_long = length.isdigit() and len(length) > 15

    def narrow(self, most_bytes: int, most_values: int | None) -> None:
        """Lower the bounds before anything is read."""
        self._bound = self._left = self._packed_left = min(self._bound, most_bytes)
        if most_values is not None:
            self._most_values = min(self._most_values, most_values)

    def release(self) -> None:
        """Return the memory to the budget."""
        if self._held is not None:
            self._memory.release(*self._held)
            self._held = None

    async def __call__(self) -> Message:
        message = await self._receive_part()
        if message["type"] != "http.request":
            return message
        if self._kind and not self._kind.endswith((b"json", b"protobuf")):
            return message
        parts = [message["body"]]
        while message.get("more_body", False):
            message = await self._receive_part()
            if message["type"] != "http.request":
                return message
            parts.append(message["body"])
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        # No value takes less than two bytes.
        if len(body) > _UNCOUNTED or len(body) // 2 > self._most_values:
            await self._check_values(body)
        return {"type": "http.request", "body": body, "more_body": False}

    async def _check_values(self, body: bytes) -> None:
        most = self._most_values
        count: Callable[[bytes, int], int] = count_json_values
        if self._kind.endswith(b"protobuf"):
            from tallymark.traces.otlp_proto import count_messages  # noqa: PLC0415 (it is heavy)

            count = count_messages
        values = await to_thread.run_sync(count, body, most)
        if values > most:
            message = f"the body has more than {most:,} values"
            raise refuse(413, message, "send it in parts; GET /api/v1/limits lists what is taken")
        self._hold(len(body) * _COPIES + values * _VALUE_BYTES)

    async def _receive_part(self) -> Message:
        message = await self._receive()
        if message["type"] != "http.request":
            return message
        if self._too_long or self._length > self._bound:
            raise self._refuse_size()
        chunk = message.get("body", b"")
        # Compressed bytes count too: an endless body may decompress to nothing.
        self._packed_left -= len(chunk)
        if self._packed_left < 0:
            raise self._refuse_size()
        if self._packed != "identity":
            last = not message.get("more_body", False)
            if len(chunk) <= _AT_ONCE:
                chunk = self._unpack(chunk, last=last)
            else:
                unpack = partial(self._unpack, chunk, last=last)
                chunk = await to_thread.run_sync(unpack, limiter=self._unpacking)
        self._left -= len(chunk)
        if self._left < 0:
            raise self._refuse_size()
        self._read += len(chunk)
        # Announced bytes that are never sent take no memory.
        self._hold(self._read * _COPIES)
        return {**message, "body": chunk}

    def _hold(self, amount: int) -> None:
        """Raise the share of the memory budget to this amount; small bodies take none."""
        if amount <= SMALL_BODY:
            return
        owner, held = self._held or (name_owner(self._scope.get("tally.caller")), 0)
        if amount <= held:
            return
        try:
            self._memory.hold(owner, amount - held)
        except Busy as error:
            headers = {"Retry-After": str(max(1, round(error.retry_after)))}
            raise RequestProblem(503, *error.problems, headers=headers) from None
        self._held = (owner, amount)

    def _unpack(self, chunk: bytes, *, last: bool) -> bytes:
        if not chunk and self._unpacker is None:
            return chunk
        if self._unpacker is None:
            self._unpacker = self._choose()
        opened = b""
        try:
            while chunk and len(opened) <= self._left:
                if self._unpacker.eof:  # several frames may follow each other
                    self._unpacker = self._choose()
                # Stop at the bound: a few bytes can decompress to any size.
                opened += self._unpacker.decompress(chunk, self._left + 1 - len(opened))
                chunk = self._unpacker.unused_data if self._unpacker.eof else b""
        except (zlib.error, zstd.ZstdError, EOFError, ValueError) as error:
            raise refuse(400, f"the body is not {self._packed}: {error}") from None
        if last and not self._unpacker.eof and len(opened) <= self._left:
            raise refuse(400, f"the body ends before its {self._packed} does", "send all of it")
        return opened

    def _choose(self) -> Any:
        self._frames += 1
        if self._frames > _MOST_FRAMES:
            message = f"the body has more than {_MOST_FRAMES} {self._packed} frames"
            raise refuse(400, message, "pack it in one piece")
        if self._packed in ("gzip", "deflate"):
            return zlib.decompressobj(wbits=47 if self._packed == "gzip" else 15)
        if self._packed == "zstd":
            return zstd.ZstdDecompressor(options=_ZSTD)
        message = f"a body that is {self._packed!r} cannot be read"
        raise refuse(415, message, "send it as it is, or as gzip or zstd")

    def _refuse_size(self) -> Exception:
        return refuse(
            413,
            f"the body is larger than {self._bound:,} bytes",
            "send less; GET /api/v1/limits lists what is taken",
        )


def _leave_out_body(receive: Receive, send: Send) -> tuple[Receive, Send]:
    """Send the head of an answer alone; a stream behind it sees a disconnected client."""
    answered = asyncio.Event()

    async def answer(message: Message) -> None:
        if message["type"] != "http.response.start" or answered.is_set():
            return
        answered.set()
        await send(message)
        await send({"type": "http.response.body", "body": b""})

    async def listen() -> Message:
        if answered.is_set():
            return {"type": "http.disconnect"}
        heard, told = asyncio.ensure_future(receive()), asyncio.ensure_future(answered.wait())
        await asyncio.wait({heard, told}, return_when=asyncio.FIRST_COMPLETED)
        told.cancel()
        if heard.done():
            return heard.result()
        heard.cancel()
        return {"type": "http.disconnect"}

    return listen, answer


async def _refuse(
    send: Send,
    request_id: str,
    status: int,
    said: Problem,
    more: Sequence[tuple[bytes, bytes]] = (),
) -> None:
    body = msgspec.json.encode(describe_problem(status, [said], request_id))
    headers: list[Any] = [(b"content-type", MEDIA_TYPE.encode()), *_HEADERS, *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

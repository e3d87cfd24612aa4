"""Requests to a server, with retries, and its streams of rows and events.

Everything is written once, as coroutines over a `Transport`. Those of a `BlockingTransport` never
suspend, so `run` and `iterate` bring them to their end without an event loop.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import anyio
import httpx2
import msgspec

from tallymark.client.addresses import Address, is_loopback
from tallymark.client.exchange import (
    Answer,
    Call,
    CallOptions,
    EventReader,
    Status,
    describe_failure,
    describe_redirect,
    find_wait,
    is_being_served,
    read_refusal,
)
from tallymark.errors import WorkFailed
from tallymark.service.operations import IDEMPOTENCY_KEY, Event

if TYPE_CHECKING:
    from tallymark.service.operations import Operation

T = TypeVar("T")
QUIET_S = 60.0
"""A stream of events that is silent for this long has broken off."""
PACE = 10_000
"""Slowest accepted pace in bytes a second, once the time of a request has passed."""


class Deadline:
    """Time limit of one answer, which grows with every byte that arrives.

    httpx limits only each wait: a server that sends a byte now and then would never end.
    """

    def __init__(self, seconds: float, sent: int = 0) -> None:
        self._at = time.monotonic() + seconds + sent / PACE
        self.moved: Callable[[], None] = lambda: None
        """Called after every change."""

    @property
    def left(self) -> float:
        """Seconds."""
        return self._at - time.monotonic()

    def extend(self, received: int) -> None:
        """Add time for received bytes."""
        self._at += received / PACE
        self.moved()


async def await_within(deadline: Deadline, function: Callable[..., Awaitable[T]], *given: Any) -> T:
    """Await a function, which is cancelled at the deadline with a timeout error."""
    with anyio.CancelScope() as scope:

        def move() -> None:
            scope.deadline = anyio.current_time() + deadline.left

        deadline.moved = move
        move()
        return await function(*given)
    raise httpx2.ReadTimeout("the answer did not end")


def call_within(deadline: Deadline, function: Callable[..., T], *given: Any) -> T:
    """Call a function in a thread, which is abandoned at the deadline."""
    future: Future[T] = Future()
    context = copy_context()

    def call() -> None:
        try:
            future.set_result(context.run(function, *given))
        except BaseException as error:  # noqa: BLE001 (goes to whoever waits)
            future.set_exception(error)

    threading.Thread(target=call, name="tallymark-request", daemon=True).start()
    while not wait((future,), min(max(0.0, deadline.left), threading.TIMEOUT_MAX)).done:
        if deadline.left <= 0:
            raise httpx2.ReadTimeout("the answer did not end")
    return future.result()


def _find_deadline(request: Mapping[str, Any], timeout: httpx2.Timeout) -> Deadline:
    seconds = request.get("timeout", timeout.read)
    return Deadline(seconds or math.inf, len(request.get("content", b"")))


class Stream(Status, Protocol):
    """A response whose body is read as it arrives."""

    async def aread(self) -> bytes: ...

    def aiter_lines(self) -> AsyncIterator[str]: ...


class Transport(Protocol):
    """Sends one request, and waits between two."""

    async def receive(self, request: dict[str, Any]) -> Answer: ...

    def stream(self, request: dict[str, Any]) -> AbstractAsyncContextManager[Stream]: ...

    async def sleep(self, seconds: float) -> None: ...

    async def close(self) -> None: ...


class AwaitableTransport:
    """Requests of an event loop."""

    def __init__(self, address: Address, timeout: float, http: httpx2.AsyncClient | None) -> None:
        # Loading the certificates takes as long as many requests, and loopback needs none.
        verify = not is_loopback(address.url)
        self._http = http or httpx2.AsyncClient(
            timeout=timeout, verify=verify, follow_redirects=False
        )

    async def receive(self, request: dict[str, Any]) -> Answer:
        """Read a whole answer within the time for one request; httpx limits only each wait."""
        deadline = _find_deadline(request, self._http.timeout)

        async def read() -> Answer:
            async with self._http.stream(**request) as response:
                answer = Answer(response.status_code, response.headers)
                async for part in response.aiter_bytes():
                    answer.take(part)
                    deadline.extend(len(part))
            return answer

        return await await_within(deadline, read)

    def stream(self, request: dict[str, Any]) -> AbstractAsyncContextManager[Stream]:
        return self._http.stream(**request)

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)

    async def close(self) -> None:
        await self._http.aclose()


class BlockingTransport:
    """Requests without an event loop: its coroutines block instead of suspending."""

    def __init__(self, address: Address, timeout: float, http: httpx2.Client | None) -> None:
        verify = not is_loopback(address.url)
        self._http = http or httpx2.Client(timeout=timeout, verify=verify, follow_redirects=False)

    async def receive(self, request: dict[str, Any]) -> Answer:
        """Read a whole answer within the time for one request; httpx limits only each wait."""
        deadline = _find_deadline(request, self._http.timeout)

        def read() -> Answer:
            with self._http.stream(**request) as response:
                answer = Answer(response.status_code, response.headers)
                for part in response.iter_bytes():
                    answer.take(part)
                    deadline.extend(len(part))
            return answer

        return call_within(deadline, read)

    @asynccontextmanager
    async def stream(self, request: dict[str, Any]) -> AsyncIterator[Stream]:
        with self._http.stream(**request) as response:
            yield _BlockingStream(response)

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251 (no event loop runs this)

    async def close(self) -> None:
        self._http.close()


class _BlockingStream:
    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self.status_code = response.status_code
        self.headers: Mapping[str, str] = response.headers

    async def aread(self) -> bytes:
        return self._response.read()

    async def aiter_lines(self) -> AsyncIterator[str]:
        for line in self._response.iter_lines():
            yield line


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine over a `BlockingTransport` to its end."""
    try:
        work.send(None)
    except StopIteration as end:
        value: T = end.value
        return value
    work.close()
    raise RuntimeError("a coroutine of a blocking client may not suspend")


def iterate(items: AsyncIterator[T]) -> Iterator[T]:
    """Iterate over an asynchronous generator over a `BlockingTransport`."""

    async def load() -> T:
        return await anext(items)

    async def close() -> None:
        await items.aclose()  # type: ignore[attr-defined]  # it is a generator

    try:
        while True:
            try:
                item = run(load())
            except StopAsyncIteration:
                return
            yield item
    finally:
        run(close())


class AsyncConnection:
    """To one server, with one key."""

    def __init__(self, address: Address, transport: Transport) -> None:
        self.address = address
        self.transport = transport

    async def send(self, call: Call) -> Answer:
        """Send a call until it succeeds or is refused; a refusal is raised."""
        request, tries, looks = call.build(self.address), 0, 0
        while True:
            tries += 1
            answer: Answer | None = None
            failed: Exception | None = None
            try:
                answer = await self.transport.receive(request)
            except httpx2.RequestError as error:
                failed = error
            if answer is not None and answer.status_code < 400:
                if answer.status_code >= 300:
                    raise describe_redirect(self.address, answer.headers)
                return answer
            if is_being_served(answer):
                tries, looks = tries - 1, looks + 1
            wait = find_wait(answer, tries, looks)
            if wait is None:
                if answer is None:
                    assert failed is not None  # noqa: S101 (for the type checker)
                    raise describe_failure(self.address, failed, tries) from None
                raise read_refusal(answer.status_code, answer.headers, answer.content)
            await self.transport.sleep(wait)

    async def read_rows(self, call: Call) -> AsyncIterator[dict[str, Any]]:
        """Read rows as they are streamed; a broken stream is an error, as it cannot be resumed."""
        rows = 0
        try:
            async with self.transport.stream(call.build(self.address)) as answer:
                if answer.status_code >= 400:
                    body = await answer.aread()
                    raise read_refusal(answer.status_code, answer.headers, body)
                async for line in answer.aiter_lines():
                    rows += 1
                    yield msgspec.json.decode(line)
        except (httpx2.RequestError, msgspec.DecodeError):
            raise WorkFailed(
                f"{self.address} broke off after {rows:,} rows", hint="ask for all of them again"
            ) from None

    async def listen(
        self, call: Call, after: int | None, *, ends: bool = False
    ) -> AsyncIterator[Event]:
        """Follow events; a stream that broke off is resumed after the last one."""
        reader, tries = EventReader(), 0
        reader.last = None if after is None else str(after)
        while True:
            headers = {"Accept": "text/event-stream"}
            if reader.last is not None:
                headers["Last-Event-ID"] = reader.last
            asked = Call(method="GET", path=call.path, params=call.params, headers=headers)
            request = asked.build(self.address) | {
                "timeout": httpx2.Timeout(10.0, read=call.timeout or QUIET_S)
            }
            try:
                async with self.transport.stream(request) as answer:
                    if answer.status_code >= 400:
                        body = await answer.aread()
                        wait = find_wait(answer, tries + 1)
                        if wait is None:
                            raise read_refusal(answer.status_code, answer.headers, body)
                    elif answer.status_code >= 300:
                        raise describe_redirect(self.address, answer.headers)
                    else:
                        async for line in answer.aiter_lines():
                            event = reader.take(line)
                            if event is not None:
                                tries = 0
                                yield event
                        if ends:
                            return
                        wait = 1.0  # the server is stopping, and may be back
            except msgspec.DecodeError:
                raise WorkFailed(
                    f"{self.address} sent something that is no event",
                    hint="its version may differ from that of this client",
                ) from None
            except httpx2.RequestError as error:
                wait = find_wait(None, tries + 1)
                if wait is None:
                    raise describe_failure(self.address, error, tries + 1) from None
            tries += 1
            await self.transport.sleep(wait)


class Connection:
    """A connection that blocks."""

    def __init__(self, address: Address, transport: BlockingTransport) -> None:
        self.address = address
        self.awaitable = AsyncConnection(address, transport)

    def send(self, call: Call) -> Answer:
        """Send a call until it succeeds or is refused; a refusal is raised."""
        return run(self.awaitable.send(call))


class AsyncSender:
    """Operations sent over a connection, with the options of their calls."""

    def __init__(self, connection: AsyncConnection, options: CallOptions | None = None) -> None:
        self.connection = connection
        self.options = options or CallOptions()

    def listen(self, path: str, after: int | None, *, ends: bool) -> AsyncIterator[Event]:
        """Follow events; with `ends`, the stream is over when the server ends it."""
        return self.connection.listen(Call(method="GET", path=path), after, ends=ends)

    def read_rows(self, path: str) -> AsyncIterator[dict[str, Any]]:
        """Read rows as the server streams them."""
        call = Call(method="GET", path=path, timeout=self.options.get("timeout"))
        return self.connection.read_rows(call)

    async def send(self, operation: Operation, arguments: Mapping[str, Any]) -> Any:
        """Call an operation of the server; a refusal is raised as the service raises it."""
        arguments = operation.bring_secret(arguments)
        path, body = operation.write(arguments)
        options = dict(self.options)
        if (key := arguments.get(IDEMPOTENCY_KEY)) is not None:
            options["idempotency_key"] = key
        if operation.body is bytes:
            options["content_type"] = operation.media_type
        call = Call(method=operation.method, path=path, body=body, **options)  # type: ignore[arg-type]
        answer = await self.connection.send(call)
        try:
            return operation.unpack(answer.content, arguments)
        except msgspec.DecodeError as error:
            raise WorkFailed(
                f"{self.connection.address} returned an unexpected answer: {error}",
                hint="its version may differ from this client's",
            ) from None


class Sender:
    """Blocking calls of operations."""

    def __init__(self, connection: Connection, options: CallOptions | None = None) -> None:
        self._awaitable = AsyncSender(connection.awaitable, options)

    def listen(self, path: str, after: int | None, *, ends: bool) -> Iterator[Event]:
        return iterate(self._awaitable.listen(path, after, ends=ends))

    def read_rows(self, path: str) -> Iterator[dict[str, Any]]:
        return iterate(self._awaitable.read_rows(path))

    def send(self, operation: Operation, arguments: Mapping[str, Any]) -> Any:
        return run(self._awaitable.send(operation, arguments))

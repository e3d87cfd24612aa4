"""`AsyncConnection`: sends requests, again where that is safe, and reads what comes back."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2
import msgspec

from tallymark.client.addresses import Address, is_loopback
from tallymark.client.deadlines import Deadline, await_within
from tallymark.client.exchange import (
    Answer,
    Call,
    EventReader,
    describe_failure,
    describe_redirect,
    find_wait,
    is_being_served,
    read_refusal,
)
from tallymark.errors import WorkFailed
from tallymark.service.operations import Event

QUIET_S = 60.0
"""A stream of events that says nothing for so long has broken off."""


class AsyncConnection:
    """To one server, with one key."""

    def __init__(self, address: Address, timeout: float, http: httpx2.AsyncClient | None) -> None:
        self.address = address
        # Reading all certificates takes as long as many a request, and on loopback none is read.
        verify = not is_loopback(address.url)
        self._http = http or httpx2.AsyncClient(
            timeout=timeout, verify=verify, follow_redirects=False
        )

    async def aclose(self) -> None:
        """Lets go of connections."""
        await self._http.aclose()

    async def send(self, call: Call) -> Answer:
        """The answer, when it is one that was wished for; a refusal is raised."""
        built, tries, looks = call.build(self.address), 0, 0
        while True:
            tries += 1
            answer: Answer | None = None
            failed: Exception | None = None
            try:
                answer = await self._receive(built)
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
            await anyio.sleep(wait)

    async def _receive(self, built: dict[str, Any]) -> Answer:
        """What comes back, within the time for one request; httpx limits only each wait."""
        seconds = built.get("timeout", self._http.timeout.read)
        deadline = Deadline(seconds or math.inf, len(built.get("content", b"")))
        return await await_within(deadline, self._read_whole, built, deadline)

    async def _read_whole(self, built: dict[str, Any], deadline: Deadline) -> Answer:
        async with self._http.stream(**built) as response:
            answer = Answer(response.status_code, response.headers)
            async for part in response.aiter_bytes():
                answer.take(part)
                deadline.extend(len(part))
        return answer

    async def read_rows(self, call: Call) -> AsyncIterator[dict[str, Any]]:
        """Rows that a server streams; a stream that breaks off is an error, as it cannot go on."""
        rows = 0
        try:
            async with self._http.stream(**call.build(self.address)) as answer:
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
        """Events; a stream that broke off goes on where it was, and so does one without an end."""
        reader, tries = EventReader(), 0
        reader.last = None if after is None else str(after)
        while True:
            headers = {"Accept": "text/event-stream"}
            if reader.last is not None:
                headers["Last-Event-ID"] = reader.last
            asked = Call(method="GET", path=call.path, params=call.params, headers=headers)
            built = asked.build(self.address) | {
                "timeout": httpx2.Timeout(10.0, read=call.timeout or QUIET_S)
            }
            try:
                async with self._http.stream(**built) as answer:
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
                        wait = 1.0  # the server was told to stop, and may be back
            except msgspec.DecodeError:
                raise WorkFailed(
                    f"{self.address} told of something that is no event",
                    hint="its version may be another than this client's",
                ) from None
            except httpx2.RequestError as error:
                wait = find_wait(None, tries + 1)
                if wait is None:
                    raise describe_failure(self.address, error, tries + 1) from None
            tries += 1
            await anyio.sleep(wait)

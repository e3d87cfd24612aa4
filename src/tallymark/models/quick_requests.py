"""OpenAI's library with a short way to the server, for all providers that are reached through it.

Of all that a request takes of the processor, the library takes most, by looking at every value
again. So it makes the head of a request once, and aiohttp sends every body with that head. What is
no plain request, or no good answer, goes the library's own way: it knows what to make of it. Loads
OpenAI's library. See docs/decisions/0024-a-short-way-to-providers.md.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import aiohttp
import httpx2
import msgspec
from openai import APIStatusError, NotGiven, Omit
from openai.types.chat import ChatCompletion
from openai.types.responses import Response
from pydantic import ValidationError

from tallymark.models.http_sessions import HttpSessions, find_proxy, make_sendable
from tallymark.models.model_answers import drop_odd_usage, read_usage
from tallymark.models.provider_transport import (
    find_script,
    load_certificates,
    make_timeout,
    play,
    translate_error,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from openai import AsyncOpenAI
    from pydantic import BaseModel

    from tallymark.models.provider_transport import Script
    from tallymark.models.reach import Reach

_OPTIONS = {"extra_body", "extra_headers", "extra_query", "timeout"}
_MADE_BY_AIOHTTP = {"accept-encoding", "content-length", "host"}
_UNDONE = {"content-encoding", "content-length", "transfer-encoding"}
"""Headers that are not true any more of a body that was read."""
_OPENAI = "api.openai.com"
_NOT_THERE = {404, 405, 501}
_PROBE_SECONDS = 10.0


class _RequestHead(NamedTuple):
    """All of a request but its body."""

    request: httpx2.Request
    url: str
    headers: list[tuple[str, str]]
    timeout: aiohttp.ClientTimeout
    proxy: str | None


class _Said(NamedTuple):
    """A response that was read."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class QuickRequests:
    """The requests of one client of OpenAI's library, and the connections that they go through."""

    def __init__(self, client: AsyncOpenAI, reach: Reach | None = None) -> None:
        self._client = client
        self._reach = reach
        self._sessions = HttpSessions(trust=load_certificates(), reach=reach)
        self._heads: dict[tuple[type, str], _RequestHead] = {}
        chat, responses = client.chat.completions, client.responses
        chat.create = partial(self._create, chat.create, ChatCompletion)  # type: ignore[method-assign]
        responses.create = partial(self._create, responses.create, Response)  # type: ignore[method-assign]

    async def lack_responses(self) -> bool:
        """Has the server only chat completions? An empty request tells, and costs nothing.

        OpenAI itself is not asked.
        """
        if self._client.base_url.host == _OPENAI:
            return False
        try:
            await self._client.responses.create(timeout=_PROBE_SECONDS)
        except APIStatusError as error:
            return error.status_code in _NOT_THERE
        except Exception:  # noqa: BLE001 (whatever it is, the first real request says it better)
            return False
        return False

    async def close(self) -> None:
        """Closes the connections of the running loop."""
        await self._sessions.close()

    async def _create(
        self, create: Callable[..., Awaitable[Any]], kind: type[BaseModel], **given: Any
    ) -> Any:
        """What the library's own `create` gives."""
        if given.get("stream") or given.get("extra_query"):
            return await create(**given)
        try:
            body = msgspec.json.encode(_make_body(given))
        except (TypeError, UnicodeError):  # the library may know how
            return await create(**given)
        key = (kind, f"{given.get('extra_headers')} {given.get('timeout')}")
        head = self._heads.get(key)
        if head is None:
            head = self._heads[key] = await _learn_head(partial(create, **given), self._reach)
        repeat: Script
        try:
            said = await self._send(head, body)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            repeat = partial(_raise_again, error)
        else:
            if said.status == 200:
                said = _mend_usage(said)
                try:
                    return kind.model_validate_json(said.body)
                except ValidationError:  # the library takes more than its types say
                    said = _mend_usage(said, wholly=True)
            repeat = partial(_answer_again, said)
        with play(repeat):
            return await create(**given)

    async def _send(self, head: _RequestHead, body: bytes) -> _Said:
        script = find_script()
        if script is not None:
            played = script(head.request)
            return _Said(played.status_code, played.headers, played.content)
        async with self._sessions.get().post(
            head.url,
            data=make_sendable(body),
            headers=head.headers,
            timeout=head.timeout,
            proxy=head.proxy,
            allow_redirects=False,
        ) as response:
            return _Said(response.status, response.headers, await response.read())


def _make_body(given: dict[str, Any]) -> dict[str, Any]:
    body = {
        key: value
        for key, value in given.items()
        if key not in _OPTIONS and not isinstance(value, Omit | NotGiven)
    }
    return {**body, **(given.get("extra_body") or {})}


async def _learn_head(create: Callable[[], Awaitable[Any]], reach: Reach | None) -> _RequestHead:
    """What the library would send."""
    sent: list[httpx2.Request] = []

    def learn(request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        return httpx2.Response(200, json={}, request=request)

    with play(learn):
        await create()
    request = sent[0]
    return _RequestHead(
        request,
        str(request.url),
        [pair for pair in request.headers.multi_items() if pair[0] not in _MADE_BY_AIOHTTP],
        make_timeout(request),
        find_proxy(request.url.scheme, request.url.host, reach),
    )


def _mend_usage(said: _Said, *, wholly: bool = False) -> _Said:
    """An answer whose tokens cannot be believed is one without tokens, and not a broken one.

    Where they can, it is only left with nothing else in its usage when it must be `wholly` mended.
    """
    try:
        answer = msgspec.json.decode(said.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return said
    if not isinstance(answer, dict) or "usage" not in answer:
        return said
    kept = drop_odd_usage({"usage": answer["usage"]})
    sent, received, _ = read_usage(kept)
    if sent is None or received is None:
        answer["usage"] = None
    elif wholly:
        answer["usage"] = {"total_tokens": sent + received, **kept["usage"]}
    else:
        return said
    return said._replace(body=msgspec.json.encode(answer))


def _raise_again(error: Exception, request: httpx2.Request) -> httpx2.Response:
    raise translate_error(error, request) from error


def _answer_again(said: _Said, request: httpx2.Request) -> httpx2.Response:
    headers = [pair for pair in said.headers.items() if pair[0].lower() not in _UNDONE]
    return httpx2.Response(said.status, headers=headers, content=said.body, request=request)

"""`http(s)://…`: an OpenAI-compatible chat endpoint, or one that takes and gives plain JSON.

An address that ends in `/v1` or `/chat/completions` speaks OpenAI's protocol, and `#name` or
`?model=name` names the model. Any other gets `{"prompt": …, "messages": […]}` by POST, and answers
with what `model_answers` reads. `TALLY_HTTP_KEY`, where set, is sent as a bearer token.
"""

from __future__ import annotations

import os
from time import perf_counter
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import msgspec

from tallymark.errors import InvalidInput, ModelError
from tallymark.models.http_sessions import HttpSessions, find_proxy, load_http, make_sendable
from tallymark.models.model import Answer
from tallymark.models.model_answers import (
    WrongShape,
    draft_answer,
    drop_odd_usage,
    finish_answer,
    read_usage,
)
from tallymark.models.model_failures import http_failure, one_line
from tallymark.models.provider_setup import open_compatible_provider
from tallymark.models.token_count import load_tokenizer
from tallymark.models.token_prices import find_prices, load_prices

if TYPE_CHECKING:
    from collections.abc import Callable
    from io import BytesIO

    from aiohttp import ClientResponse, ClientSession

    from tallymark.models.model import Request
    from tallymark.models.model_kinds import ModelReference
    from tallymark.models.provider import ProviderModel
    from tallymark.models.reach import Reach
    from tallymark.models.token_prices import Pricing

KEY_VARIABLE = "TALLY_HTTP_KEY"
_UNNAMED = "default"
"""What a chat endpoint is asked for when no model was named: most that serve one ignore it."""
_MOST_BYTES = 16 * 2**20
"""Of an answer that is read for somebody else."""
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class EndpointAddress(msgspec.Struct, frozen=True):
    """Where to post, and which model to ask for."""

    url: str
    model: str | None
    speaks_chat: bool
    proxy: str | None = None


class EndpointModel:
    """Posts each request through one session, on connections that stay open."""

    def __init__(  # noqa: PLR0913 (a place to ask, and how, by keyword)
        self,
        name: str,
        address: EndpointAddress,
        pricing: Pricing | None = None,
        *,
        connections: int = 0,
        key: str | None = None,
        key_variable: str | None = None,
        reach: Reach | None = None,
    ) -> None:
        """`key_variable` is where a key was looked for."""
        self.name = name
        self._address = address
        self._pricing = pricing
        self._key = key
        self._reach = reach
        self._missing_key = None if key else key_variable
        self._tool_user: ProviderModel | None = None
        headers = {"Content-Type": "application/json"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        self._sessions = HttpSessions(connections=connections, headers=headers, reach=reach)

    def load(self) -> None:
        """Loads the client, the tokenizer and the price table."""
        load_http()
        load_tokenizer()
        if self._find_prices() is not None:
            load_prices()

    async def answer(self, request: Request) -> Answer:
        """The endpoint's answer."""
        if request.mcp_servers:
            return await self._open_tool_user().answer(request)
        body = make_sendable(msgspec.json.encode(_make_body(request, self._address)))
        session, prices = self._sessions.get(), self._find_prices()
        began = perf_counter()
        said = await self._post(session, body)
        draft = self._read(said, perf_counter() - began)
        answer = await finish_answer(request, draft, self._pricing)
        if prices is None or answer.cost is not None:
            return answer
        return self._add_price(answer, prices)

    async def close(self) -> None:
        """Closes the connections."""
        await self._sessions.close()
        if self._tool_user is not None:
            await self._tool_user.close()

    def _open_tool_user(self) -> ProviderModel:
        """The same endpoint through pydantic-ai, which brings MCP."""
        if not self._address.speaks_chat:
            raise ModelError(
                f"{self.name} cannot be given MCP servers",
                hint="only OpenAI-compatible endpoints and providers can; leave mcp_server out",
            )
        if self._tool_user is None:
            # It is one for all event loops, so two that make it at once may use either.
            self._tool_user = open_compatible_provider(
                self.name,
                self._address.url.removesuffix("/chat/completions"),
                self._address.model or _UNNAMED,
                key=self._key,
                pricing=self._pricing,
                reach=self._reach,
            )
        return self._tool_user

    def _find_prices(self) -> Callable[[str, int, int], float | None] | None:
        return None if self._pricing is not None else find_prices(self._address.url)

    def _add_price(self, answer: Answer, prices: Callable[[str, int, int], float | None]) -> Answer:
        model = answer.model or self._address.model or ""
        cost = prices(model, answer.input_tokens or 0, answer.output_tokens or 0)
        return msgspec.structs.replace(answer, cost=cost)

    async def _post(self, session: ClientSession, body: bytes | BytesIO) -> bytes:
        import aiohttp  # noqa: PLC0415 (heavy)

        try:
            async with session.post(
                self._address.url,
                data=body,
                allow_redirects=False,
                proxy=self._address.proxy,
            ) as response:
                said = await (response.read() if self._reach is None else _read_some(response))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ModelError(
                f"{self.name} could not be reached: {one_line(error)}",
                retryable=True,
                refused=isinstance(error, aiohttp.ClientConnectorError),
            ) from None
        if response.status // 100 != 2:
            raise http_failure(
                self.name,
                response.status,
                response.headers,
                _find_message(said),
                key=self._missing_key,
            )
        return said

    def _read(self, said: bytes, latency: float) -> Answer:
        try:
            if self._address.speaks_chat:
                return _draft_chat_answer(said, latency)
            data = drop_odd_usage(msgspec.json.decode(said, type=dict[str, Any]))
            return draft_answer(data, latency)
        except (*_UNREADABLE, WrongShape) as error:
            raise ModelError(
                f"{self.name} gave an answer that cannot be read: {one_line(error)}",
                retryable=True,
            ) from None


class _ContentPart(msgspec.Struct):
    text: str = ""


class _ChatMessage(msgspec.Struct):
    content: str | list[_ContentPart] | None = None
    refusal: str | None = None


class _CompletionChoice(msgspec.Struct):
    message: _ChatMessage


class _Completion(msgspec.Struct):
    """What we read of a chat completion."""

    choices: list[_CompletionChoice] = []
    model: str | None = None
    usage: Any = None


def open_endpoint(reference: ModelReference) -> EndpointModel:
    """The address is checked; nothing is sent yet."""
    reach = reference.reach
    known = os.environ if reach is None else reach.keys
    return EndpointModel(
        reference.text,
        _parse_address(reference.text, reach),
        reference.pricing,
        key=known.get(KEY_VARIABLE) if reference.key is None else reference.key,
        key_variable=KEY_VARIABLE if reference.key is None else None,
        reach=reach,
    )


async def _read_some(response: ClientResponse) -> bytes:
    """The body, unless somebody wants to fill the memory with it."""
    read = b""
    async for chunk in response.content.iter_chunked(2**16):
        read += chunk
        if len(read) > _MOST_BYTES:
            raise ModelError(f"it answered with more than {_MOST_BYTES >> 20} MB")
    return read


def _parse_address(text: str, reach: Reach | None = None) -> EndpointAddress:
    try:
        parts = urlsplit(text)
        port_is_right = parts.port is None or parts.port > 0
    except ValueError as error:
        raise InvalidInput(f"{text!r} is not an address: {error}") from None
    if not parts.hostname or not port_is_right:
        raise InvalidInput(f"{text!r} is not an address", hint="write http://host:port/path")
    if parts.username or parts.password:
        raise InvalidInput(
            "the model's address holds a user name or password, which would be stored with every "
            "result",
            hint=f"put the key into {KEY_VARIABLE}",
        )
    if reach is not None:
        reach.refuse_host(parts.hostname)
    path = parts.path.rstrip("/")
    speaks_chat = path.endswith(("/v1", "/chat/completions"))
    model = unquote(parts.fragment) or None
    query = parts.query
    if speaks_chat:
        pairs = parse_qsl(query, keep_blank_values=True)
        model = model or dict(pairs).get("model")
        query = urlencode([pair for pair in pairs if pair[0] != "model"])
        path += "" if path.endswith("/chat/completions") else "/chat/completions"
    url = parts._replace(path=path or "/", query=query, fragment="").geturl()
    return EndpointAddress(url, model, speaks_chat, find_proxy(parts.scheme, parts.hostname, reach))


def _make_body(request: Request, address: EndpointAddress) -> dict[str, Any]:
    body = {"messages": request.messages, **request.settings}
    if address.speaks_chat:
        return {"model": address.model or _UNNAMED, **body}
    named = {} if address.model is None else {"model": address.model}
    return {"prompt": request.prompt, **named, **body}


def _draft_chat_answer(said: bytes, latency: float) -> Answer:
    """The first choice's text; content in parts is joined, a refusal is an answer too."""
    completion = msgspec.json.decode(said, type=_Completion)
    if not completion.choices:
        raise WrongShape(f"it has no choices: {_find_message(said)}")
    message = completion.choices[0].message
    content = message.content or message.refusal or ""
    output = content if isinstance(content, str) else "".join(part.text for part in content)
    usage = {"usage": completion.usage}
    try:
        sent, received, cost = read_usage(usage)
    except WrongShape:
        sent, received, cost = read_usage(drop_odd_usage(usage))
    return Answer(
        output=output,
        latency=latency,
        input_tokens=sent or None,  # no prompt has none: such a server does not count
        output_tokens=received if sent else None,
        cost=cost,
        model=completion.model,
    )


def _find_message(said: bytes) -> str:
    """The sentence in an error's body, or the body itself."""
    try:
        body = msgspec.json.decode(said)
    except _UNREADABLE:
        return said[:1000].decode(errors="replace")
    while isinstance(body, dict):
        body = body.get("message") or body.get("error") or body.get("detail") or ""
    return str(body)

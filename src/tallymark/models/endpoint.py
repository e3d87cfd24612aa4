"""`http(s)://…`: an OpenAI-compatible chat endpoint, or one that takes and gives plain JSON.

An address that ends in `/v1` or `/chat/completions` speaks OpenAI's protocol, and `#name` or
`?model=name` names the model. Any other gets `{"prompt": …, "messages": […]}` by POST, and answers
with what `model_answers` reads. `TALLY_HTTP_KEY`, where set, is sent as a bearer token.
"""

from __future__ import annotations

import os
from functools import cache
from io import BytesIO
from time import perf_counter
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec

from tallymark.errors import InvalidInput, ModelError
from tallymark.event_loops import LoopLocal
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
    from ssl import SSLContext

    from aiohttp import ClientResponse, ClientSession

    from tallymark.models.egress_policy import EgressPolicy
    from tallymark.models.model import Request
    from tallymark.models.model_kinds import ModelReference
    from tallymark.models.provider import ProviderModel
    from tallymark.models.token_prices import Pricing

KEY_VARIABLE = "TALLY_HTTP_KEY"
_UNNAMED = "default"
"""The model name for a chat endpoint when none was given: most that serve one model ignore it."""
_MOST_BYTES = 16 * 2**20
"""Largest answer that is read under an egress policy."""
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class EndpointAddress(msgspec.Struct, frozen=True):
    """The URL to post to, and the model to ask for."""

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
        egress: EgressPolicy | None = None,
    ) -> None:
        """`key_variable` is the environment variable of the key, for messages."""
        self.name = name
        self._address = address
        self._pricing = pricing
        self._key = key
        self._egress = egress
        self._missing_key = None if key else key_variable
        self._tool_user: ProviderModel | None = None
        headers = {"Content-Type": "application/json"}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        self._sessions = HttpSessions(connections=connections, headers=headers, egress=egress)

    def load(self) -> None:
        """Load the client, the tokenizer and the price table."""
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
        """Close the connections."""
        await self._sessions.close()
        if self._tool_user is not None:
            await self._tool_user.close()

    def _open_tool_user(self) -> ProviderModel:
        """Open the same endpoint through pydantic-ai, which supports MCP."""
        if not self._address.speaks_chat:
            raise ModelError(
                f"{self.name} cannot be given MCP servers",
                hint="only OpenAI-compatible endpoints and providers can; leave mcp_server out",
            )
        if self._tool_user is None:
            # All event loops share one, so two that create it at the same time may use either.
            self._tool_user = open_compatible_provider(
                self.name,
                self._address.url.removesuffix("/chat/completions"),
                self._address.model or _UNNAMED,
                key=self._key,
                pricing=self._pricing,
                egress=self._egress,
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
                said = await (response.read() if self._egress is None else _read_some(response))
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
    """The parts of a chat completion that are used."""

    choices: list[_CompletionChoice] = []
    model: str | None = None
    usage: Any = None


def open_endpoint(reference: ModelReference) -> EndpointModel:
    """The address is checked; nothing is sent yet."""
    egress = reference.egress
    known = os.environ if egress is None else egress.keys
    return EndpointModel(
        reference.text,
        _parse_address(reference.text, egress),
        reference.pricing,
        key=known.get(KEY_VARIABLE) if reference.key is None else reference.key,
        key_variable=KEY_VARIABLE if reference.key is None else None,
        egress=egress,
    )


async def _read_some(response: ClientResponse) -> bytes:
    """Read the body up to a limit that protects the memory."""
    read = b""
    async for chunk in response.content.iter_chunked(2**16):
        read += chunk
        if len(read) > _MOST_BYTES:
            raise ModelError(f"it answered with more than {_MOST_BYTES >> 20} MB")
    return read


def _parse_address(text: str, egress: EgressPolicy | None = None) -> EndpointAddress:
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
    if egress is not None:
        egress.refuse_host(parts.hostname)
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
    return EndpointAddress(
        url, model, speaks_chat, find_proxy(parts.scheme, parts.hostname, egress)
    )


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


_CONNECT_SECONDS = 30.0
_LARGE = 2**20


def make_sendable(body: bytes) -> bytes | BytesIO:
    """A body for aiohttp: a large one as a stream, so that it does not block the event loop."""
    return BytesIO(body) if len(body) >= _LARGE else body


def find_proxy(scheme: str, host: str, egress: EgressPolicy | None = None) -> str | None:
    """The proxy that the environment names for a host.

    A proxy resolves names itself, so it is not used where addresses must be public. aiohttp's
    own `trust_env` asks in a thread for every request, which halves the rate.
    """
    return _find_proxy(scheme, host) if egress is None or egress.is_private else None


@cache
def _find_proxy(scheme: str, host: str) -> str | None:
    return None if proxy_bypass(host) else getproxies().get(scheme)


def load_http() -> None:
    """Load the client, and the modules that Python loads when it first looks up a name."""
    import concurrent.futures.thread  # noqa: F401, PLC0415 (names are looked up in threads)

    import aiohttp  # noqa: F401, PLC0415 (heavy)

    "".encode("idna")


class HttpSessions:
    """One aiohttp session per event loop, made at its first use."""

    def __init__(
        self,
        *,
        connections: int = 0,
        trust: SSLContext | None = None,
        egress: EgressPolicy | None = None,
        **options: Any,
    ) -> None:
        """`connections` limits open connections; 0 leaves the limit to the caller."""
        self._connections = connections
        self._trust = trust
        self._egress = egress
        self._options = options
        self._sessions: LoopLocal[ClientSession] = LoopLocal(self._make_session)

    def get(self) -> ClientSession:
        """The session of the running loop."""
        return self._sessions.get()

    async def close(self) -> None:
        """Close the running loop's connections; a later request opens new ones."""
        session = self._sessions.pop()
        if session is not None:
            await session.close()

    def _make_session(self) -> ClientSession:
        import aiohttp  # noqa: PLC0415 (heavy)

        connect = aiohttp.TCPConnector if self._egress is None else self._egress.make_connector
        return aiohttp.ClientSession(
            connector=connect(limit=self._connections, ssl=self._trust or True),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),  # one answer must not change the next
            **self._options,
        )

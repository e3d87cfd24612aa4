from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from tests.models.model_conformance import request
from tests.models.provider_server import BrokenJson, Drop, Fail, ProviderServer, Reply

from tallymark.errors import InvalidInput, ModelError
from tallymark.models import Answer, McpServer, Message, Request, endpoint, open_model
from tallymark.models.endpoint import (
    EndpointAddress,
    EndpointModel,
    _draft_chat_answer,
    _parse_address,
)

CONVERSATION = Request(
    messages=(Message("system", "be brief"), Message("user", "hi")), settings={"temperature": 0.5}
)


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with ProviderServer() as server:
        yield server


def ask(reference: str, asked: Request | str = "hi", **options: Any) -> Answer:
    async def asking() -> Answer:
        model = open_model(reference, **options)
        try:
            return await model.answer(request(asked) if isinstance(asked, str) else asked)
        finally:
            await model.close()

    return asyncio.run(asking())


@pytest.mark.parametrize(
    ("text", "url", "model", "chat"),
    [
        ("http://h:1/v1", "http://h:1/v1/chat/completions", None, True),
        ("http://h/v1/#a/b:c", "http://h/v1/chat/completions", "a/b:c", True),
        ("https://h/x/v1?model=a&k=v", "https://h/x/v1/chat/completions?k=v", "a", True),
        ("http://h/api/chat/completions#m", "http://h/api/chat/completions", "m", True),
        ("http://h/v1#b?model=a", "http://h/v1/chat/completions", "b?model=a", True),
        ("http://h/v1?model=a#b", "http://h/v1/chat/completions", "b", True),
        ("http://h/v1#my%20model", "http://h/v1/chat/completions", "my model", True),
        ("http://h", "http://h/", None, False),
        ("http://h/agent?model=a#b", "http://h/agent?model=a", "b", False),
        ("http://h/v1/agent", "http://h/v1/agent", None, False),
    ],
)
def test_addresses(text: str, url: str, model: str | None, chat: bool) -> None:
    assert _parse_address(text) == EndpointAddress(url, model, chat)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("http:///v1", "is not an address"),
        ("http://h:99999/v1", "is not an address"),
        ("http://[::1/v1", "is not an address"),
        ("http://me:secret@h/v1", "holds a user name or password"),
    ],
)
def test_what_is_no_address_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as caught:
        open_model(text)
    assert "secret" not in str(caught.value)


def test_a_chat_endpoint_gets_openais_body(server: ProviderServer) -> None:
    answer = ask(f"{server.url}/v1#some/model", CONVERSATION)
    assert server.bodies == [
        {
            "model": "some/model",
            "messages": [
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": "hi"},
            ],
            "temperature": 0.5,
        }
    ]
    assert (answer.output, answer.model) == ("hi", "some/model")
    assert (answer.input_tokens, answer.output_tokens) == (11, 7)
    assert answer.tokens_counted_by == "provider"


def test_a_plain_endpoint_gets_prompt_and_messages(server: ProviderServer) -> None:
    assert ask(f"{server.url}/plain", CONVERSATION).output == "hi"
    assert server.bodies[0]["prompt"] == "hi"
    assert server.bodies[0]["messages"][0] == {"role": "system", "content": "be brief"}
    assert server.bodies[0]["temperature"] == 0.5


@pytest.mark.parametrize("path", ["v1", "plain"])
def test_tokens_that_are_not_reported_are_counted_here(server: ProviderServer, path: str) -> None:
    server.on("hi", Reply("hello", usage=False))
    answer = ask(f"{server.url}/{path}")
    assert (answer.input_tokens, answer.output_tokens) == (1, 1)
    assert answer.tokens_counted_by == "local"


def test_the_price_is_the_users_or_unknown(server: ProviderServer) -> None:
    address = f"{server.url}/v1#gpt-4o-mini"
    assert ask(address).cost is None
    assert ask(address, pricing={"input": 100, "output": 0}).cost == pytest.approx(0.0011)


def test_the_key_is_sent_only_where_it_is_set(
    server: ProviderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "not for you")
    ask(f"{server.url}/v1")
    monkeypatch.setenv("TALLY_HTTP_KEY", "for you")
    ask(f"{server.url}/v1")
    assert [headers.get("Authorization") for headers in server.headers] == [None, "Bearer for you"]


FAILURES = [
    (Fail(400), "answered 400 Bad Request: scripted 400", (False, False, None)),
    (Fail(401), "answered 401 Unauthorized", (False, False, None)),
    (Fail(404), "answered 404 Not Found", (False, False, None)),
    (Fail(429, {"Retry-After": "2"}), "answered 429", (True, True, 2.0)),
    (Fail(500), "answered 500", (True, False, None)),
    (Fail(503, {"Retry-After": "0.5"}), "answered 503", (True, True, 0.5)),
    (Fail(529), "answered 529 Overloaded", (True, True, None)),
    (Fail(307), "answered 307 Temporary Redirect", (False, False, None)),
    (BrokenJson(), "gave an answer that cannot be read", (True, False, None)),
    (Drop(), "could not be reached", (True, False, None)),
]


@pytest.mark.parametrize("path", ["v1", "plain"])
@pytest.mark.parametrize(
    ("action", "message", "flags"),
    FAILURES,
    ids=[str(row[0]) for row in FAILURES],
)
def test_failures_say_whether_to_ask_again(
    server: ProviderServer,
    path: str,
    action: Any,
    message: str,
    flags: tuple[bool, bool, float | None],
) -> None:
    server.on("hi", action)
    with pytest.raises(ModelError, match=message) as caught:
        ask(f"{server.url}/{path}")
    error = caught.value
    assert (error.retryable, error.throttled, error.retry_after) == flags
    assert server.count["hi"] == 1


def test_retry_after_may_be_a_date(server: ProviderServer) -> None:
    moment = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    server.on("hi", Fail(429, {"Retry-After": moment}))
    with pytest.raises(ModelError) as caught:
        ask(f"{server.url}/v1")
    assert caught.value.retry_after is not None
    assert 90 < caught.value.retry_after <= 100


def test_nobody_at_the_address_is_worth_another_try() -> None:
    with pytest.raises(ModelError, match="could not be reached") as caught:
        ask("http://127.0.0.1:9/v1")
    assert caught.value.retryable


def test_connections_are_kept_and_limited(server: ProviderServer) -> None:
    async def many() -> None:
        model = EndpointModel("x", _parse_address(f"{server.url}/v1"), connections=3)
        await asyncio.gather(*(model.answer(request(str(n))) for n in range(30)))
        await model.close()

    server.latency = 0.01
    asyncio.run(many())
    assert server.most_active == 3


def test_one_model_may_serve_several_event_loops(server: ProviderServer) -> None:
    model = open_model(f"{server.url}/v1")

    async def once() -> str:
        answer = await model.answer(request("hi"))
        await model.close()
        return answer.output

    assert [asyncio.run(once()), asyncio.run(once())] == ["hi", "hi"]


def test_a_server_that_wants_a_key_says_where_it_goes(
    server: ProviderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.on("hi", Fail(401))
    monkeypatch.delenv("TALLY_HTTP_KEY", raising=False)
    with pytest.raises(ModelError, match=r"answered 401 .*; put its key into TALLY_HTTP_KEY$"):
        ask(f"{server.url}/v1#m")
    monkeypatch.setenv("TALLY_HTTP_KEY", "wrong")
    with pytest.raises(ModelError, match=r"answered 401 .*; check the API key$"):
        ask(f"{server.url}/v1#m")


def test_a_plain_endpoint_cannot_be_given_mcp_servers(server: ProviderServer) -> None:
    asked = Request(messages=(Message("user", "x"),), mcp_servers=(McpServer(url="http://x"),))
    with pytest.raises(ModelError, match="cannot be given MCP servers"):
        ask(f"{server.url}/plain", asked)


@pytest.mark.parametrize(
    ("body", "output"),
    [
        ({"message": {"content": [{"type": "text", "text": "a"}, {"text": "b"}]}}, "ab"),
        ({"message": {"content": None, "refusal": "no"}}, "no"),
        ({"message": {"content": None}}, ""),
    ],
)
def test_other_shapes_of_content(body: dict[str, Any], output: str) -> None:
    assert _draft_chat_answer(json.dumps({"choices": [body]}).encode(), 0).output == output


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"error": {"message": "no credit"}}, "it has no choices: no credit"),
        ('{"usage": {"a": ' + "[" * 100_000, "recursion"),
        ({"choices": [1]}, "Expected `object`, got `int`"),
        ({"choices": [{"message": {"content": 4}}]}, "got `int`"),
    ],
)
def test_a_completion_of_the_wrong_shape_is_worth_another_try(
    body: dict[str, Any] | str, message: str
) -> None:
    text = body if isinstance(body, str) else json.dumps(body)
    model = EndpointModel("m", _parse_address("http://h/v1"))
    with pytest.raises(ModelError, match=f"m gave an answer that cannot be read: .*{message}") as e:
        model._read(text.encode(), 0)
    assert e.value.retryable


def test_an_address_that_the_price_table_knows_is_priced(
    server: ProviderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        endpoint, "find_prices", lambda url: lambda model, sent, got: sent + got / 10
    )
    assert ask(f"{server.url}/v1#m").cost == pytest.approx(11.7)

"""Models that a server asks for somebody else: with their keys, in the open network, no more."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET
from threading import Thread
from typing import Any, ClassVar

import pytest

from tallymark.errors import InvalidInput, ModelError
from tallymark.judging.judge_model import open_judge
from tallymark.models import Request
from tallymark.models.model import Message
from tallymark.models.model_kinds import open_model
from tallymark.models.public_addresses import make_pinned_resolver
from tallymark.models.reach import Reach

ASKED = Request(messages=(Message("user", "hello"),))
ANYWHERE = frozenset({"private-addresses"})


@pytest.mark.parametrize(
    ("model", "allowance"),
    [("python/os:getcwd", "python"), ("cmd/id", "cmd"), ("replay/answers.jsonl", "files")],
)
def test_what_reaches_into_the_machine_must_be_allowed(model: str, allowance: str) -> None:
    said = f"are not run here; the operator of this server may allow it: TALLY_ALLOW={allowance}"
    for opened in (open_model, open_judge):
        with pytest.raises(InvalidInput, match=said):
            opened(model, reach=Reach())
    Reach(may=frozenset({allowance})).refuse_kind(model.partition("/")[0])


@pytest.mark.parametrize(
    "address",
    ["http://127.0.0.1:1/v1#m", "http://[::1]/ask", "https://localhost/v1", "http://10.0.0.1/ask"],
)
def test_private_addresses_must_be_allowed(address: str) -> None:
    with pytest.raises(InvalidInput, match="is a private address"):
        open_model(address, reach=Reach())
    open_model(address, reach=Reach(may=ANYWHERE))


class Listener(BaseHTTPRequestHandler):
    """Answers any request, and remembers its key."""

    keys: ClassVar[list[str | None]] = []

    def do_POST(self) -> None:
        self.keys.append(self.headers.get("Authorization"))
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b'{"output": "hi"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    Listener.keys = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Listener) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/ask"
        server.shutdown()
        thread.join()


def ask(model: Any) -> str:
    async def once() -> str:
        try:
            return str((await model.answer(ASKED)).output)
        finally:
            await model.close()

    return asyncio.run(once())


def test_the_servers_own_key_is_never_sent(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALLY_HTTP_KEY", "the operator's")
    assert ask(open_model(address, reach=Reach(may=ANYWHERE))) == "hi"
    theirs = Reach({"TALLY_HTTP_KEY": "alice's"}, ANYWHERE)
    assert ask(open_model(address, reach=theirs)) == "hi"
    assert Listener.keys == [None, "Bearer alice's"]


def test_a_name_that_leads_here_is_not_asked(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its writing the name is public; only looking it up tells."""

    async def look_up(*_: object) -> list[tuple[int, str]]:
        return [(AF_INET, "127.0.0.1")]

    resolver = partial(make_pinned_resolver, look_up)
    monkeypatch.setattr("tallymark.models.reach.make_pinned_resolver", resolver)
    with pytest.raises(ModelError, match="has no public address"):
        ask(open_model(address.replace("127.0.0.1", "evil.example"), reach=Reach()))
    assert Listener.keys == []


def test_an_address_that_nobody_looked_at_is_not_asked(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address is not looked up, so the socket is the last to know."""
    monkeypatch.setattr(Reach, "refuse_host", lambda *_: None)
    with pytest.raises(ModelError, match=r"127\.0\.0\.1 is no public address"):
        ask(open_model(address, reach=Reach()))
    assert Listener.keys == []


def test_a_proxy_of_the_server_is_not_used(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """It would look the name up where nobody checks what comes of it."""
    monkeypatch.setenv("http_proxy", address)
    with pytest.raises(ModelError, match="could not be reached"):
        ask(open_model("http://name.invalid/ask", reach=Reach()))
    assert Listener.keys == []


def test_a_provider_needs_a_key_of_whoever_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the operator's")
    said = "openai/gpt-5-mini needs an API key of yours; store it as the secret OPENAI_API_KEY"
    with pytest.raises(InvalidInput, match=said):
        open_model("openai/gpt-5-mini", reach=Reach())


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_provider_gets_nothing_of_the_environment(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(provider)
    for name in ("API_KEY", "BASE_URL", "ORG_ID", "PROJECT_ID", "AUTH_TOKEN"):
        monkeypatch.setenv(f"{provider.upper()}_{name}", "http://operators.example")
    key = f"{provider.upper()}_API_KEY"
    model: Any = open_model(f"{provider}/some-model", reach=Reach({key: "alice's"}))
    client = model._lines._first.connection.model.client
    assert client.api_key == "alice's"
    assert "operators" not in f"{client.base_url} {dict(client.default_headers)}"


def test_providers_that_live_at_an_address_of_the_server_are_refused() -> None:
    with pytest.raises(InvalidInput, match="ollama/ models are not asked for others; this server"):
        open_model("ollama/llama", reach=Reach())


def test_the_key_of_a_judge_is_a_secret_of_whoever_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME_KEY", "the operator's")
    with pytest.raises(InvalidInput, match="the secret HOME_KEY is not set"):
        open_judge("https://judge.example/v1", api_key_env="HOME_KEY", reach=Reach())
    open_judge(
        "https://judge.example/v1", api_key_env="HOME_KEY", reach=Reach({"HOME_KEY": "alice's"})
    )

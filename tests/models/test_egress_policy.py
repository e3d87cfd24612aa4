"""Models under an egress policy use the tenant's keys and public addresses only."""

from __future__ import annotations

import asyncio
import contextlib
import socket
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
from tallymark.models.egress_policy import (
    EgressPolicy,
    is_public,
    look_up,
    make_pinned_resolver,
    open_public_socket,
    refuse_private_host,
)
from tallymark.models.model import Message
from tallymark.models.model_kinds import open_model

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
            opened(model, egress=EgressPolicy())
    EgressPolicy(may=frozenset({allowance})).refuse_kind(model.partition("/")[0])


@pytest.mark.parametrize(
    "address",
    ["http://127.0.0.1:1/v1#m", "http://[::1]/ask", "https://localhost/v1", "http://10.0.0.1/ask"],
)
def test_private_addresses_must_be_allowed(address: str) -> None:
    with pytest.raises(InvalidInput, match="is a private address"):
        open_model(address, egress=EgressPolicy())
    open_model(address, egress=EgressPolicy(may=ANYWHERE))


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
    assert ask(open_model(address, egress=EgressPolicy(may=ANYWHERE))) == "hi"
    theirs = EgressPolicy({"TALLY_HTTP_KEY": "alice's"}, ANYWHERE)
    assert ask(open_model(address, egress=theirs)) == "hi"
    assert Listener.keys == [None, "Bearer alice's"]


def test_a_name_that_leads_here_is_not_asked(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its writing the name is public; only looking it up tells."""

    async def look_up(*_: object) -> list[tuple[int, str]]:
        return [(AF_INET, "127.0.0.1")]

    resolver = partial(make_pinned_resolver, look_up)
    monkeypatch.setattr("tallymark.models.egress_policy.make_pinned_resolver", resolver)
    with pytest.raises(ModelError, match="has no public address"):
        ask(open_model(address.replace("127.0.0.1", "evil.example"), egress=EgressPolicy()))
    assert Listener.keys == []


def test_an_address_that_nobody_looked_at_is_not_asked(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address is not looked up, so the socket is the last to know."""
    monkeypatch.setattr(EgressPolicy, "refuse_host", lambda *_: None)
    with pytest.raises(ModelError, match=r"127\.0\.0\.1 is not a public address"):
        ask(open_model(address, egress=EgressPolicy()))
    assert Listener.keys == []


def test_a_proxy_of_the_server_is_not_used(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """It would look the name up where nobody checks what comes of it."""
    monkeypatch.setenv("http_proxy", address)
    with pytest.raises(ModelError, match="could not be reached"):
        ask(open_model("http://name.invalid/ask", egress=EgressPolicy()))
    assert Listener.keys == []


def test_a_provider_needs_a_key_of_whoever_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the operator's")
    said = "openai/gpt-5-mini needs an API key of yours; store it as the secret OPENAI_API_KEY"
    with pytest.raises(InvalidInput, match=said):
        open_model("openai/gpt-5-mini", egress=EgressPolicy())


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_provider_gets_nothing_of_the_environment(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(provider)
    for name in ("API_KEY", "BASE_URL", "ORG_ID", "PROJECT_ID", "AUTH_TOKEN"):
        monkeypatch.setenv(f"{provider.upper()}_{name}", "http://operators.example")
    key = f"{provider.upper()}_API_KEY"
    model: Any = open_model(f"{provider}/some-model", egress=EgressPolicy({key: "alice's"}))
    client = model._lines._first.connection.model.client
    assert client.api_key == "alice's"
    assert "operators" not in f"{client.base_url} {dict(client.default_headers)}"


def test_providers_that_live_at_an_address_of_the_server_are_refused() -> None:
    with pytest.raises(
        InvalidInput, match="ollama/ models are not available to tenants; this server"
    ):
        open_model("ollama/llama", egress=EgressPolicy())


def test_the_key_of_a_judge_is_a_secret_of_whoever_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME_KEY", "the operator's")
    with pytest.raises(InvalidInput, match="the secret HOME_KEY is not set"):
        open_judge("https://judge.example/v1", api_key_env="HOME_KEY", egress=EgressPolicy())
    open_judge(
        "https://judge.example/v1",
        api_key_env="HOME_KEY",
        egress=EgressPolicy({"HOME_KEY": "alice's"}),
    )


PRIVATE = [
    "127.0.0.1",
    "127.255.0.1",
    "0.0.0.0",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",  # what clouds tell machines about themselves
    "100.64.0.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a00:1",
    "64:ff9b:1::1",
    "2002:7f00:1::",
    "2002:a00:1::",
    "2001:db8::1",
]
PUBLIC = ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize(
    "host",
    [
        *PRIVATE,
        *("localhost", "LOCALHOST.", "a.localhost", "db.internal", "printer.local"),
        *("\uff11\uff12\uff17.0.0.1", "127\u30020\u30020\u30021", "\u2460\u2461\u2466.0.0.1"),
        *("\u24dbocalhost", "169.254.169\uff0e254"),
    ],
)
def test_private_hosts_are_refused_before_they_are_asked(host: str) -> None:
    with pytest.raises(InvalidInput, match=r"is a private address.*TALLY_ALLOW=private-addresses"):
        refuse_private_host(host)


@pytest.mark.parametrize(
    "host", [*PUBLIC, "example.com", "localhost.example.com", "m\u00fcnchen.example"]
)
def test_other_hosts_are_looked_up_when_asked(host: str) -> None:
    refuse_private_host(host)


class Names:
    """A name service that says something else every time."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)

    async def __call__(self, host: str, port: int, family: int) -> list[tuple[int, str]]:
        return [(socket.AF_INET, address) for address in self.answers.pop(0)]


def test_a_name_keeps_the_addresses_that_it_had() -> None:
    """Rebinding: the second answer would be private."""
    resolver = make_pinned_resolver(Names(["8.8.8.8", "8.8.4.4"], ["127.0.0.1"]))

    async def ask() -> list[str]:
        first = await resolver.resolve("evil.example", 443)
        again = await resolver.resolve("evil.example", 80)
        await resolver.close()
        assert [each["port"] for each in again] == [80, 80]
        return [each["host"] for each in (*first, *again)]

    assert asyncio.run(ask()) == ["8.8.8.8", "8.8.4.4"] * 2


@pytest.mark.parametrize("answer", [["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], []])
def test_a_name_with_a_private_address_is_not_asked(answer: list[str]) -> None:
    resolver = make_pinned_resolver(Names(answer))
    with pytest.raises(OSError, match=r"evil\.example has no public address"):
        asyncio.run(resolver.resolve("evil.example", 443))


@pytest.mark.parametrize("host", ["127.1", "0x7f000001", "2130706433", "localhost"])
def test_other_ways_to_write_this_machine(host: str) -> None:
    """The system takes these for addresses, and what it makes of them is checked."""
    with pytest.raises(OSError, match=r"no public address|not known"):
        asyncio.run(make_pinned_resolver().resolve(host, 80))


@pytest.mark.parametrize(("address", "opened"), [("127.0.0.1", False), ("8.8.8.8", True)])
def test_a_socket_is_opened_only_to_public_addresses(address: str, *, opened: bool) -> None:
    found = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, 80))
    with (
        contextlib.nullcontext()
        if opened
        else pytest.raises(OSError, match="is not a public address")
    ):
        open_public_socket(found).close()


def test_the_system_is_asked() -> None:
    found = asyncio.run(look_up("127.0.0.1", 80, socket.AF_INET))
    assert found == [(socket.AF_INET, "127.0.0.1")]

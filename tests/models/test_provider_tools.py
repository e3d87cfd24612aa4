from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.models.model_conformance import processes, until
from tests.models.provider_server import ProviderServer, Reply

from tallymark.errors import ModelError
from tallymark.models import Answer, McpServer, Message, Request, open_model

PROGRAM = str(Path(__file__).with_name("sums_server.py"))
CHAT = "openai-chat/gpt-5-mini"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProviderServer]:
    with ProviderServer() as server:
        server.pose_as_providers(monkeypatch)
        yield server


@pytest.fixture(scope="module")
def sums() -> Iterator[McpServer]:
    """The server by HTTP, started once for all tests."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, PROGRAM, "http", str(port)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while "running on" not in process.stderr.readline():
            assert process.poll() is None
        yield McpServer(url=f"http://127.0.0.1:{port}/mcp")
        process.kill()


def started(**environment: str) -> McpServer:
    """The server as a program of its own."""
    return McpServer(command=sys.executable, arguments=(PROGRAM,), environment=environment)


def asked(prompt: str, *servers: McpServer) -> Request:
    return Request(messages=(Message("user", prompt),), mcp_servers=servers)


def ask(reference: str, *requests: Request, **options: Any) -> list[Answer]:
    async def asking() -> list[Answer]:
        model = open_model(reference, **options)
        try:
            return list(await asyncio.gather(*(model.answer(each) for each in requests)))
        finally:
            await model.close()

    return asyncio.run(asking())


@pytest.mark.parametrize(
    "reference", ["openai/gpt-5-mini", CHAT, "anthropic/claude-opus-5", "{url}/v1#gpt-5-mini"]
)
def test_the_model_calls_real_tools(
    server: ProviderServer, sums: McpServer, reference: str
) -> None:
    server.on("sum", Reply("", tools=(("add", {"a": 2, "b": 40}),)), Reply("It is 42."))
    (answer,) = ask(reference.format(url=server.url), asked("sum", sums))
    assert answer.output == "It is 42."
    assert (answer.input_tokens, answer.output_tokens) == (22, 14)
    call, tool, last = answer.spans
    assert (call.span_type, call.input) == ("generation", "sum")
    assert (tool.span_type, tool.tool_name, tool.tool_input) == ("tool", "add", '{"a":2,"b":40}')
    assert (tool.tool_output, tool.failed) == ("42", False)
    assert tool.duration_ms > 0
    assert (last.span_type, last.input, last.output) == ("generation", "42", "It is 42.")
    assert "Add two numbers." in str(server.bodies[0])
    assert "42" in str(server.bodies[1])


def test_the_latency_has_the_tools_in_it(server: ProviderServer, sums: McpServer) -> None:
    server.on("sum", Reply("", tools=(("add", {"a": 2, "b": 40}),)), Reply("It is 42."))
    (answer,) = ask(CHAT, asked("sum", sums))
    assert answer.latency is not None
    assert answer.latency * 1000 >= sum(span.duration_ms for span in answer.spans) - 1e-6


def test_the_cost_is_that_of_all_model_calls(server: ProviderServer, sums: McpServer) -> None:
    server.on("sum", Reply("", tools=(("add", {"a": 2, "b": 40}),)), Reply("It is 42."))
    (answer,) = ask(CHAT, asked("sum", sums), pricing={"input": 1000, "output": 0})
    assert answer.cost == pytest.approx(0.022)


def test_a_price_unknown_for_one_call_is_unknown_for_all(
    server: ProviderServer, sums: McpServer
) -> None:
    server.on("sum", Reply("", tools=(("secret", {}),), usage=False), Reply("done"))
    (answer,) = ask(CHAT, asked("sum", sums))
    assert (answer.cost, answer.tokens_counted_by) == (None, "local")


def test_several_tools_are_called_in_one_round(server: ProviderServer) -> None:
    calls: tuple[tuple[str, dict[str, Any]], ...] = (("add", {"a": 1, "b": 1}), ("secret", {}))
    server.on("both", Reply("", tools=calls), Reply("done"))
    by_command = McpServer(command=f"{sys.executable} {PROGRAM}", environment={"SECRET": "xyz"})
    (answer,) = ask(CHAT, asked("both", by_command))
    tools = {s.tool_name: s.tool_output for s in answer.spans if s.span_type == "tool"}
    assert tools == {"add": "2", "secret": "xyz"}


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("fail", {}, "Error executing tool fail"),
        ("add", {"a": "x"}, "validation error"),
        ("no_such_tool", {}, "there is no tool 'no_such_tool'"),
    ],
)
def test_a_tool_that_fails_is_for_the_model_to_deal_with(
    server: ProviderServer, sums: McpServer, name: str, arguments: dict[str, Any], error: str
) -> None:
    server.on("try", Reply("", tools=((name, arguments),)), Reply("I could not."))
    (answer,) = ask(CHAT, asked("try", sums))
    assert answer.output == "I could not."
    tool = answer.spans[1]
    assert tool.failed
    assert error in (tool.error or "")
    assert error.split(maxsplit=1)[0] in str(server.bodies[1])


def test_a_server_that_dies_is_started_again_for_the_next_try(server: ProviderServer) -> None:
    server.on("die", Reply("", tools=(("die", {}),)))
    server.on("sum", Reply("", tools=(("add", {"a": 2, "b": 40}),)), Reply("It is 42."))

    async def asking() -> str:
        model = open_model(CHAT)
        with pytest.raises(ModelError, match="the MCP server of the tool 'die' failed") as caught:
            await model.answer(asked("die", started()))
        assert caught.value.retryable
        answer = await model.answer(asked("sum", started()))
        await model.close()
        return answer.output

    assert asyncio.run(asking()) == "It is 42."


def test_requests_share_one_server_and_closing_stops_it(
    server: ProviderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = uuid.uuid4().hex

    async def asking() -> None:
        model = open_model(CHAT)
        requests = [asked(f"hi {number}", started(MARK=mark)) for number in range(10)]
        await asyncio.gather(*map(model.answer, requests))
        assert len(processes(mark)) == 1
        await model.close()
        await until(lambda: processes(mark) == [])

    asyncio.run(asking())


def test_tools_of_several_servers_carry_their_servers_names(
    server: ProviderServer, sums: McpServer
) -> None:
    one = msgspec.structs.replace(sums, name="one")
    two = msgspec.structs.replace(started(SECRET="of two"), name="two")
    server.on("tell", Reply("", tools=(("two_secret", {}),)), Reply("done"))
    (answer,) = ask(CHAT, asked("tell", one, two))
    assert answer.spans[1].tool_output == "of two"


def test_two_tools_of_one_name_are_refused(server: ProviderServer, sums: McpServer) -> None:
    with pytest.raises(ModelError, match="two MCP servers have a tool 'add'; give each"):
        ask(CHAT, asked("x", sums, sums))


def test_a_model_that_goes_in_circles_is_stopped(server: ProviderServer, sums: McpServer) -> None:
    server.on("circle", Reply("", tools=(("add", {"a": 1, "b": 1}),)))
    with pytest.raises(ModelError, match="still calls tools after 50 rounds"):
        ask(CHAT, asked("circle", sums))
    assert server.count["circle"] == 50


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (McpServer(command="./no-such-program"), "No such file or directory"),
        (McpServer(url="http://127.0.0.1:9/mcp"), "http://127.0.0.1:9/mcp cannot be used"),
        (
            McpServer(command=sys.executable, arguments=("-c", "import sys; sys.exit('no luck')")),
            "cannot be used: no luck; check its address or command",
        ),
    ],
    ids=["missing", "unreachable", "failing"],
)
def test_a_server_that_cannot_be_used_is_one_sentence(
    server: ProviderServer, broken: McpServer, message: str
) -> None:
    with pytest.raises(ModelError) as caught:
        ask(CHAT, asked("hi", broken))
    assert message in str(caught.value)
    assert not server.bodies


def test_a_server_without_address_or_command_is_refused(server: ProviderServer) -> None:
    with pytest.raises(ModelError, match="needs a url or a command"):
        ask(CHAT, asked("hi", McpServer()))

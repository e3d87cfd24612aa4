"""A local server that speaks the OpenAI and Anthropic protocols, and misbehaves when told to.

In tests, `ProviderServer` runs it in a thread. As a program it serves benches from a process of its
own: `python tests/models/provider_server.py --latency 0.05` prints its address and serves until
its standard input closes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Self

from aiohttp import web

if TYPE_CHECKING:
    import pytest


@dataclass(frozen=True, slots=True)
class Reply:
    """A good answer. `output` of None echoes the prompt; `usage` of False leaves the tokens out.

    A `usage` that is neither True nor False stands there as it is.
    """

    output: str | None = None
    latency: float | None = None
    tools: tuple[tuple[str, dict[str, Any]], ...] = ()
    usage: Any = True
    tokens: tuple[int, int] = (11, 7)
    """Sent and answered, as the usage says."""


@dataclass(frozen=True, slots=True)
class Fail:
    """An HTTP error with an error body of the protocol."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    code: str = "scripted"


@dataclass(frozen=True, slots=True)
class BrokenJson:
    """A 200 whose body stops in the middle."""


@dataclass(frozen=True, slots=True)
class BrokenOff:
    """A stream of events that ends in good order after the first. Only for Anthropic's protocol."""


@dataclass(frozen=True, slots=True)
class Drop:
    """The connection is closed without an answer."""


@dataclass(frozen=True, slots=True)
class Hang:
    """No answer until the client goes away."""


Action = Reply | Fail | BrokenJson | BrokenOff | Drop | Hang


class ProviderServer:
    """The server in a thread: `on(prompt, ...)` scripts answers, what is not scripted is echoed."""

    def __init__(self, latency: float = 0.0) -> None:
        self.latency = latency
        self.count: Counter[str] = Counter()
        """Requests by prompt."""
        self.paths: Counter[str] = Counter()
        self.responses_status: int | None = None
        """What a server without the responses API answers there."""
        self.bodies: list[dict[str, Any]] = []
        """Every request's body, in order."""
        self.headers: list[dict[str, str]] = []
        self.active = 0
        """Requests being answered now."""
        self.most_active = 0
        self.url = ""
        self._scripts: dict[str, list[Action]] = {}
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._started = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def on(self, prompt: str, *actions: Action) -> None:
        """What happens at a prompt, in turn; the last one repeats."""
        self._scripts[prompt] = list(actions)

    def pose_as_providers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the providers' libraries come here, by the variables they read."""
        for name, base in (("OPENAI", f"{self.url}/v1"), ("ANTHROPIC", self.url)):
            monkeypatch.setenv(f"{name}_API_KEY", "none")
            monkeypatch.setenv(f"{name}_BASE_URL", base)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    def _run(self) -> None:
        # A runner also ends the handlers that hang: a task that the collector finds pending logs
        # an error in whatever test comes later.
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self.serve())

    async def serve(self, ready: Callable[[], None] | None = None) -> None:
        """Serve until stopped."""
        runner = web.AppRunner(self._app(), access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
        await site.start()
        assert site._server is not None
        port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
        self.url = f"http://127.0.0.1:{port}"
        self._started.set()
        if ready is not None:
            ready()
        await self._stop.wait()
        await runner.cleanup()

    def _app(self) -> web.Application:
        # Cancelling a handler when its client leaves is what lets a test see that it left.
        leaving = {"handler_cancellation": True}
        app = web.Application(client_max_size=64 * 2**20, handler_args=leaving)
        app.router.add_post("/v1/chat/completions", self._handler(_chat_prompt, _chat))
        app.router.add_post("/v1/messages", self._handler(_chat_prompt, _anthropic))
        app.router.add_post("/v1/responses", self._handler(_responses_prompt, _responses))
        app.router.add_post("/v1/embeddings", self._embeddings)
        app.router.add_post("/plain", self._handler(_plain_prompt, _plain))
        return app

    def _handler(
        self,
        prompt_of: Callable[[dict[str, Any]], str],
        body_of: Callable[[str, Reply, dict[str, Any]], dict[str, Any]],
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            self.active += 1
            self.most_active = max(self.most_active, self.active)
            try:
                body = json.loads(await request.read())
                self.paths[request.path] += 1
                if request.path == "/v1/responses" and self.responses_status is not None:
                    return web.Response(status=self.responses_status, text="nothing here")
                try:
                    prompt = prompt_of(body)
                except KeyError as missing:
                    error = {"message": f"{missing} is missing"}
                    return web.json_response({"error": error}, status=400)
                self.count[prompt] += 1
                self.bodies.append(body)
                self.headers.append(dict(request.headers))
                return await self._act(request, prompt, body, body_of)
            finally:
                self.active -= 1

        return handle

    async def _act(
        self,
        request: web.Request,
        prompt: str,
        body: dict[str, Any],
        body_of: Callable[[str, Reply, dict[str, Any]], dict[str, Any]],
    ) -> web.StreamResponse:
        match self._action(prompt):
            case Reply() as reply:
                await asyncio.sleep(self.latency if reply.latency is None else reply.latency)
                answer = body_of(prompt if reply.output is None else reply.output, reply, body)
                return _events(answer) if body.get("stream") else web.json_response(answer)
            case Fail(status, headers, code):
                error = {"message": f"scripted {status}", "type": code, "code": code}
                return web.json_response(
                    {"type": "error", "error": error}, status=status, headers=headers
                )
            case BrokenJson() if body.get("stream"):
                return web.Response(text='event: message_start\ndata: {"ty\n\n', headers=_SSE)
            case BrokenJson():
                return web.Response(text='{"id": "x", "choi', content_type="application/json")
            case BrokenOff():
                head = body_of("", Reply(), body)
                return web.Response(text=_event("message_start", message=head), headers=_SSE)
            case Drop():
                assert request.transport is not None
                request.transport.abort()
                return web.Response()
            case Hang():
                await asyncio.sleep(3600)
                return web.Response()

    def _action(self, prompt: str) -> Action:
        script = self._scripts.get(prompt)
        if not script:
            return Reply()
        return script.pop(0) if len(script) > 1 else script[0]

    async def _embeddings(self, request: web.Request) -> web.StreamResponse:
        """Vectors of letter counts: alike texts are near each other."""
        body = await request.json()
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        data = [
            {
                "object": "embedding",
                "index": index,
                "embedding": [float(text.lower().count(chr(97 + i))) for i in range(26)],
            }
            for index, text in enumerate(texts)
        ]
        usage = {"prompt_tokens": len(texts), "total_tokens": len(texts)}
        return web.json_response(
            {"object": "list", "model": body.get("model"), "data": data, "usage": usage}
        )


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content if isinstance(part, dict))


def _last_user(messages: list[dict[str, Any]]) -> str:
    """The last user message that holds text: tool results of Anthropic have the role user too."""
    for message in reversed(messages):
        if message.get("role") == "user" and _text(message["content"]):
            return _text(message["content"])
    return ""


def _chat_prompt(body: dict[str, Any]) -> str:
    return _last_user(body["messages"])


def _responses_prompt(body: dict[str, Any]) -> str:
    return body["input"] if isinstance(body["input"], str) else _last_user(body["input"])


def _plain_prompt(body: dict[str, Any]) -> str:
    prompt: str = body["prompt"]
    return prompt


def _chat(output: str, reply: Reply, body: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": output}
    if reply.tools:
        message["tool_calls"] = [
            {
                "id": f"call_{i}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for i, (name, arguments) in enumerate(reply.tools)
        ]
    finish = "tool_calls" if reply.tools else "stop"
    answer = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": body.get("model"),
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    }
    sent, said = reply.tokens
    usage = {"prompt_tokens": sent, "completion_tokens": said, "total_tokens": sent + said}
    return answer | _usage(reply, usage)


def _usage(reply: Reply, usual: dict[str, Any]) -> dict[str, Any]:
    if reply.usage is False:
        return {}
    return {"usage": usual if reply.usage is True else reply.usage}


def _anthropic(output: str, reply: Reply, body: dict[str, Any]) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": output}] if output else []
    content += [
        {"type": "tool_use", "id": f"toolu_{i}", "name": name, "input": arguments}
        for i, (name, arguments) in enumerate(reply.tools)
    ]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": content,
        "stop_reason": "tool_use" if reply.tools else "end_turn",
        "stop_sequence": None,
        **_usage(reply, {"input_tokens": reply.tokens[0], "output_tokens": reply.tokens[1]}),
    }


_SSE = {"Content-Type": "text/event-stream"}


def _event(kind: str, **data: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n"


def _events(message: dict[str, Any]) -> web.Response:
    """Anthropic's message as the stream of events in which the library may ask for it."""
    head = {**message, "content": [], "stop_reason": None}
    text = _event("message_start", message=head)
    for index, block in enumerate(message["content"]):
        if block["type"] == "text":
            start: dict[str, Any] = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        else:
            start = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        text += _event("content_block_start", index=index, content_block=start)
        text += _event("content_block_delta", index=index, delta=delta)
        text += _event("content_block_stop", index=index)
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    text += _event("message_delta", delta=end, usage=message.get("usage"))
    return web.Response(text=text + _event("message_stop"), headers=_SSE)


def _responses(output: str, reply: Reply, body: dict[str, Any]) -> dict[str, Any]:
    text = {"type": "output_text", "text": output, "annotations": []}
    items: list[dict[str, Any]] = [
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [text],
        }
    ]
    items += [
        {
            "type": "function_call",
            "id": f"fc_{i}",
            "call_id": f"call_{i}",
            "name": name,
            "arguments": json.dumps(arguments),
            "status": "completed",
        }
        for i, (name, arguments) in enumerate(reply.tools)
    ]
    usage = {
        "input_tokens": 11,
        "output_tokens": 7,
        "total_tokens": 18,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed",
        "model": body.get("model"),
        "output": items,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        **_usage(reply, usage),
    }


def _plain(output: str, reply: Reply, body: dict[str, Any]) -> dict[str, Any]:
    return {"output": output, **_usage(reply, {"input_tokens": 11, "output_tokens": 7})}


async def _main(latency: float) -> None:
    server = ProviderServer(latency)

    async def until_stdin_closes() -> None:
        await asyncio.to_thread(sys.stdin.read)
        server._stop.set()

    closing = asyncio.create_task(until_stdin_closes())
    await server.serve(ready=lambda: print(server.url, flush=True))  # noqa: T201 (its output)
    await closing


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--latency", type=float, default=0.0)
    asyncio.run(_main(parser.parse_args().latency))

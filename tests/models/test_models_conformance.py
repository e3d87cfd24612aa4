from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.models import model_conformance
from tests.models.model_conformance import CHECKS, EMPTY, FAIL, HANG, Kind, processes
from tests.models.provider_server import Fail, Hang, ProviderServer, Reply

from tallymark.models import Model, open_model

Setup = Callable[[Path, pytest.MonkeyPatch], AbstractContextManager[Kind]]

AGENT = f"""
busy = 0

def quick(prompt):
    if prompt == {FAIL!r}:
        raise ValueError("no\\nsuch luck")
    return "" if prompt == {EMPTY!r} else prompt

async def slow(prompt):
    import asyncio
    global busy
    busy += 1
    try:
        if prompt == {HANG!r}:
            await asyncio.sleep(3600)
        return quick(prompt)
    finally:
        busy -= 1
"""

PROGRAM = f"""
cat > prompt.$$
case "$(head -c 40 prompt.$$)" in
  "{EMPTY}") ;;
  "{FAIL}") printf 'first line\\nit broke\\n' >&2; exit 3 ;;
  "{HANG}") sleep 3600 & sleep 3600 ;;
  *) cat prompt.$$ ;;
esac
"""


@contextmanager
def echo(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kind]:
    yield Kind(lambda: open_model("echo/x"))


@contextmanager
def replay(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kind]:
    lines: list[dict[str, Any]] = [
        {"prompt": prompt, "output": prompt} for prompt in model_conformance.ANSWERED
    ]
    lines += [{"prompt": EMPTY, "output": ""}, {"prompt": FAIL, "error": "it\nbroke"}]
    text = "\n".join(json.dumps(line) for line in lines)
    (folder / "answers.jsonl").write_text(text, encoding="utf-8")
    yield Kind(lambda: open_model("replay/answers", folder=folder))


@contextmanager
def function(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kind]:
    (folder / "agent.py").write_text(AGENT, encoding="utf-8")
    yield Kind(lambda: open_model("python/agent.py:quick", folder=folder))


@contextmanager
def async_function(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kind]:
    name = f"agent_{uuid.uuid4().hex}"
    (folder / f"{name}.py").write_text(AGENT, encoding="utf-8")

    def busy() -> int:
        number: int = __import__(name).busy
        return number

    yield Kind(lambda: open_model(f"python/{name}:slow", folder=folder), busy)


@contextmanager
def wrapped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kind]:
    with async_function(folder, monkeypatch) as kind:

        def open_wrapped() -> Model:
            record, cache = folder / "record.jsonl", folder / "cache.db"
            return open_model(kind.open().name, folder=folder, record=record, cache=cache)

        yield Kind(open_wrapped, kind.busy)


@contextmanager
def program(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kind]:
    (folder / "agent.sh").write_text(PROGRAM, encoding="utf-8")
    mark = uuid.uuid4().hex
    monkeypatch.setenv("MARK", mark)

    def busy() -> int:
        """1 when both of its children run, 0 when nothing of it is left."""
        names = processes(mark)
        return len(names) if len(names) == 0 else names.count("sleep") - 1

    yield Kind(lambda: open_model("cmd/sh agent.sh", folder=folder), busy)


@contextmanager
def served(reference: Callable[[ProviderServer], str]) -> Iterator[Kind]:
    """A kind that reaches the local server."""
    with ProviderServer() as server:
        server.on(EMPTY, Reply(""))
        server.on(FAIL, Fail(500))
        server.on(HANG, Hang())

        def open_here() -> Model:
            with pytest.MonkeyPatch.context() as monkeypatch:
                server.pose_as_providers(monkeypatch)
                return open_model(reference(server))

        yield Kind(open_here, lambda: server.active)


KINDS: dict[str, Setup] = {
    "echo": echo,
    "replay": replay,
    "python": function,
    "python-async": async_function,
    "recorded-and-cached": wrapped,
    "cmd": program,
    "http-chat": lambda *_: served(lambda server: f"{server.url}/v1#some-model"),
    "http-plain": lambda *_: served(lambda server: f"{server.url}/plain"),
    "openai": lambda *_: served(lambda _: "openai/gpt-5-mini"),
    "openai-chat": lambda *_: served(lambda _: "openai-chat/gpt-5-mini"),
    "anthropic": lambda *_: served(lambda _: "anthropic/claude-opus-5"),
}
ALL = frozenset({EMPTY, FAIL, HANG})
CANNOT = {"echo": ALL, "replay": frozenset({HANG}), "python": frozenset({HANG})}
"""An echo only echoes, a file does not hang, and a thread that does cannot be stopped."""


@pytest.mark.parametrize(
    ("name", "check"),
    [
        pytest.param(name, check, id=f"{name}-{check.__name__}")
        for name in KINDS
        for check, needs in CHECKS
        if not needs & CANNOT.get(name, frozenset())
    ],
)
def test_every_kind_conforms(
    name: str,
    check: Callable[[Kind], Awaitable[None]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with KINDS[name](tmp_path, monkeypatch) as kind:
        asyncio.run(_checked(check, kind))


async def _checked(check: Callable[[Kind], Awaitable[None]], kind: Kind) -> None:
    await check(kind)

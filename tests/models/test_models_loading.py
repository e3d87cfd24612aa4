"""Latency is the answer's alone: what a model needs is loaded before it is timed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.models.provider_server import ProviderServer, Reply

from tallymark.models.model_kinds import KINDS

COLD = str(Path(__file__).with_name("cold_answer.py"))
PROMPT = "What is 2 + 2?"
AGENT = """
def quick(prompt):
    return prompt
"""
LOCAL = ["echo/x", "replay/answers", "python/agent.py:quick", "cmd/cat"]
SERVED = ["{}/v1#m", "{}/plain"]
PROVIDERS = ["openai-chat/gpt-5-mini", "openai/gpt-5-mini", "anthropic/claude-opus-5"]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProviderServer]:
    with ProviderServer() as server:
        server.pose_as_providers(monkeypatch)
        yield server


def answer_cold(server: ProviderServer, folder: Path, reference: str, *words: str) -> Any:
    """The first answer of a process, and what was loaded meanwhile."""
    (folder / "agent.py").write_text(AGENT, encoding="utf-8")
    (folder / "answers.jsonl").write_text(json.dumps({"prompt": PROMPT, "output": PROMPT}))
    # By its name, since Python loads something to look one up.
    reference = reference.format(server.url.replace("127.0.0.1", "localhost"))
    done = subprocess.run(
        [sys.executable, COLD, reference, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "reference",
    [
        *LOCAL,
        SERVED[0],
        *(pytest.param(each, marks=pytest.mark.proof) for each in (SERVED[1], "given")),
    ],
)
def test_nothing_is_loaded_while_a_loaded_model_answers(
    server: ProviderServer, tmp_path: Path, reference: str
) -> None:
    server.on(PROMPT, Reply(usage=False))
    found = answer_cold(server, tmp_path, reference, "load")
    assert found["between"] == ([] if reference.startswith("replay") else [[]])
    assert found["imported"] == []


@pytest.mark.parametrize(
    "reference",
    [PROVIDERS[0], *(pytest.param(each, marks=pytest.mark.proof) for each in PROVIDERS[1:])],
)
def test_what_a_providers_library_loads_is_not_measured(
    server: ProviderServer, tmp_path: Path, reference: str
) -> None:
    found = answer_cold(server, tmp_path, reference)
    assert found["imported"]
    _, exchanged = found["between"]
    assert exchanged == []


@pytest.mark.proof
def test_nothing_is_loaded_while_tools_are_called(server: ProviderServer, tmp_path: Path) -> None:
    server.on(PROMPT, Reply(tools=(("add", {"a": 2, "b": 2}),)), Reply("4"))
    found = answer_cold(server, tmp_path, PROVIDERS[0], "mcp")
    assert found["output"] == "4"
    # Between them the model was asked twice, each time with three looks at the clock.
    assert len(found["between"]) == 9
    assert found["between"][3:6] == [[], [], []]


def test_a_model_that_was_not_loaded_is_caught(server: ProviderServer, tmp_path: Path) -> None:
    found = answer_cold(server, tmp_path, SERVED[0])
    assert "import aiohttp" in found["imported"]
    assert found["between"] != [[]]


def test_every_kind_is_watched() -> None:
    watched = {reference.partition("/")[0] for reference in LOCAL}
    assert watched | {"http", "https"} == set(KINDS)

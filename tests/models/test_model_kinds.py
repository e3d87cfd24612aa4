from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from tests.models.model_conformance import request

from tallymark.errors import InvalidInput
from tallymark.models import open_model
from tallymark.models.model_kinds import KINDS, ModelReference


@pytest.mark.parametrize(
    ("text", "kind", "rest"),
    [
        ("openai/gpt-5-mini", "openai", "gpt-5-mini"),
        ("openai:gpt-5-mini", "openai", "gpt-5-mini"),
        ("openrouter/anthropic/claude:free", "openrouter", "anthropic/claude:free"),
        ("ollama:llama3:8b", "ollama", "llama3:8b"),
        ("  Replay/Careful ", "replay", "Careful"),
        ("python//home/agent.py:answer", "python", "/home/agent.py:answer"),
        ("https://host/v1#m", "https", "//host/v1#m"),
        ("cmd/echo 'a b'\n", "cmd", "echo 'a b'"),
        ("google-cloud/gemini", "google-cloud", "gemini"),
    ],
)
def test_a_reference_is_taken_apart(text: str, kind: str, rest: str) -> None:
    reference = ModelReference.parse(text)
    assert (reference.kind, reference.rest) == (kind, rest)


@pytest.mark.parametrize("text", ["", "gpt-5", "openai/", "/gpt-5", "openai", "1/2", ":x"])
def test_what_names_no_model_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="does not name a model; write provider/name"):
        open_model(text)


@pytest.mark.parametrize("text", ["echo/x", "cmd/cat", "http://127.0.0.1:9/v1"])
def test_a_model_is_known_by_what_the_user_wrote(text: str, tmp_path: Path) -> None:
    assert open_model(text).name == text
    wrapped = open_model(text, record=tmp_path / "r.jsonl", cache=tmp_path / "c.db")
    assert wrapped.name == text
    asyncio.run(wrapped.close())


def test_cached_answers_are_recorded_too(tmp_path: Path) -> None:
    async def twice() -> list[bool]:
        model = open_model("echo/x", cache=tmp_path / "c.db", record=tmp_path / "r.jsonl")
        answers = [await model.answer(request("hi")) for _ in range(2)]
        await model.close()
        return [answer.cached for answer in answers]

    assert asyncio.run(twice()) == [False, True]
    assert len((tmp_path / "r.jsonl").read_text().splitlines()) == 2


def test_a_priced_echo_counts_its_tokens() -> None:
    priced = open_model("echo/x", pricing={"input": 1_000_000, "output": 0})
    assert asyncio.run(priced.answer(request("hello"))).cost == 1.0
    assert asyncio.run(open_model("echo/x").answer(request("hello"))).cost is None


def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    program = """
import sys
from tallymark.models import open_model
open_model("echo/x"); open_model("http://127.0.0.1:9/v1"); open_model("cmd/cat")
heavy = {"aiohttp", "genai_prices", "httpx2", "numpy", "pydantic", "pydantic_ai", "regex"}
print(sorted(heavy & set(sys.modules)))
"""
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert said == "[]\n"


def test_every_kind_is_in_the_docs() -> None:
    page = Path(__file__).parents[2] / "docs" / "models.md"
    text = page.read_text(encoding="utf-8")
    for kind in KINDS:
        assert f"`{kind}/" in text or kind in ("http", "https")
    assert "`http(s)://" in text

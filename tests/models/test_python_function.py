from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.models.model_conformance import request

from tallymark.errors import InvalidInput, ModelError
from tallymark.models import Answer, McpServer, Message, Request, open_model
from tallymark.models.python_function import PythonFunctionModel
from tallymark.traces import Span, Trace

CONVERSATION = Request(
    messages=(Message("system", "be brief"), Message("user", "hi")),
    settings={"temperature": 0.5},
    mcp_servers=(McpServer(url="http://tools"),),
    epoch=3,
)


def ask(function: Callable[..., Any], asked: Request | None = None) -> Answer:
    async def asking() -> Answer:
        model = PythonFunctionModel("python/f", function)
        try:
            return await model.answer(asked or request("hi"))
        finally:
            await model.close()

    return asyncio.run(asking())


async def shout(prompt: str) -> str:
    await asyncio.sleep(0)
    return prompt.upper()


class Shouter:
    async def __call__(self, prompt: str) -> str:
        return prompt.upper()

    def method(self, prompt: str) -> str:
        return prompt.upper()


@pytest.mark.parametrize(
    "function",
    [
        str.upper,
        shout,
        lambda prompt: shout(prompt + ""),
        Shouter(),
        Shouter().method,
        lambda anything, /: anything.upper(),
        lambda prompt, extra="": prompt.upper() + extra,
        lambda messages: messages[-1]["content"].upper(),
        lambda prompt, *, messages, **rest: messages[-1]["content"].upper(),
        lambda messages, prompt: prompt.upper(),
        lambda *arguments: arguments[0].upper(),
        lambda prompt: {"output": prompt.upper()},
        lambda prompt: Trace(spans=[Span(span_type="generation", output=prompt.upper())]),
    ],
    ids=[
        *("sync", "async", "awaitable", "async object", "method", "positional", "default"),
        *("messages", "keyword only", "other order", "any number", "mapping", "trace"),
    ],
)
def test_many_shapes_of_function_answer(function: Callable[..., Any]) -> None:
    assert ask(function).output == "HI"


def test_parameters_are_filled_by_their_names() -> None:
    seen: list[Any] = []

    def agent(prompt: str, messages: Any, settings: Any, mcp_servers: Any, epoch: Any) -> str:
        seen.extend([prompt, messages, settings, mcp_servers, epoch])
        return ""

    ask(agent, CONVERSATION)
    assert seen == [
        "hi",
        [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}],
        {"temperature": 0.5},
        [McpServer(url="http://tools")],
        3,
    ]


def test_a_mapping_may_say_what_it_took() -> None:
    result = {"output": "x", "usage": {"input_tokens": 5, "output_tokens": 6}, "cost": 0.5}
    answer = ask(lambda prompt: result | {"tool_calls": ["look"], "model": "mine"})
    assert (answer.input_tokens, answer.output_tokens, answer.cost) == (5, 6, 0.5)
    assert (answer.tokens_counted_by, answer.model) == ("provider", "mine")
    assert [span.tool_name for span in answer.spans] == ["look"]


def test_without_usage_tokens_are_counted_here() -> None:
    answer = ask(str.upper)
    assert (answer.input_tokens, answer.output_tokens) == (1, 1)
    assert answer.tokens_counted_by == "local"


def fail(prompt: str) -> str:
    raise ValueError("two\nlines")


async def fail_later(prompt: str) -> str:
    await asyncio.sleep(0)
    return fail(prompt)


def stop(prompt: str) -> str:
    raise StopIteration("enough")


def leave(prompt: str) -> str:
    sys.exit(4)


def model_error(prompt: str) -> str:
    raise ModelError("mine", retryable=True)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (fail, "python/f raised ValueError: two lines"),
        (fail_later, "python/f raised ValueError: two lines"),
        (stop, "python/f raised RuntimeError: coroutine raised StopIteration"),
        (leave, "python/f raised SystemExit: 4"),
        (lambda prompt: 4, "returned a value of type int; return text, a mapping"),
        (lambda prompt: None, "returned a value of type NoneType"),
        (lambda prompt: {"text": 4}, "python/f returned a wrong value: output must be text"),
        (lambda prompt: {"output": "x", "cost": -1}, "wrong value: cost must be a number"),
    ],
)
def test_what_goes_wrong_is_one_sentence(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(ModelError) as caught:
        ask(function)
    assert message in str(caught.value)
    assert not caught.value.retryable


def test_a_function_may_raise_a_model_error_of_its_own() -> None:
    with pytest.raises(ModelError, match="mine") as caught:
        ask(model_error)
    assert caught.value.retryable


def test_a_function_that_knows_no_mcp_servers_is_not_given_any() -> None:
    with pytest.raises(ModelError, match="cannot be given MCP servers; add a parameter"):
        ask(str.upper, CONVERSATION)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda: "x", "takes no prompt"),
        (lambda *, settings: "x", "takes no prompt"),
        (lambda prompt, other: "x", "a parameter 'other' that nothing fills"),
        (lambda prompt, *, other: "x", "a parameter 'other' that nothing fills"),
    ],
)
def test_a_function_that_cannot_be_called_is_refused(
    function: Callable[..., Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        PythonFunctionModel("python/f", function)


def test_functions_that_block_do_so_at_the_same_time() -> None:
    barrier = threading.Barrier(50, timeout=20)

    async def asking() -> None:
        model = PythonFunctionModel("python/f", lambda prompt: (barrier.wait() and "") or "")
        await asyncio.gather(*(model.answer(request("hi")) for _ in range(50)))
        await model.close()

    asyncio.run(asking())


def test_a_thread_sees_the_context_of_its_caller() -> None:
    variable = contextvars.ContextVar("variable", default="outside")

    async def asking() -> str:
        variable.set("inside")
        model = PythonFunctionModel("python/f", lambda prompt: variable.get())
        answer = await model.answer(request("hi"))
        await model.close()
        return answer.output

    assert asyncio.run(asking()) == "inside"


def test_a_function_that_hangs_does_not_keep_the_program_from_ending(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("import time\ndef hang(prompt): time.sleep(3600)\n")
    program = f"""
import asyncio
from tallymark.errors import ModelError
from tallymark.models import Message, Pace, Request, answer_with_retries, open_model
model = open_model("python/agent.py:hang", folder={str(tmp_path)!r})
asked = Request(messages=(Message("user", "hi"),))
async def main():
    try:
        await answer_with_retries(model, asked, Pace(1), tries=1, timeout=0.05)
    except ModelError as error:
        print(error)
    await model.close()
asyncio.run(main())
"""
    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30
    )
    assert "did not answer in 0.05 s" in finished.stdout


FILES: Mapping[str, str] = {
    "agent.py": "from agents_neighbour import WORD\ndef answer(prompt): return WORD\nnumber = 4\n",
    "agents_neighbour.py": "WORD = 'found'\n",
    "broken.py": "def f(prompt):\n    return 1\nprint(nothing)\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_a_file_and_a_module_are_found_in_the_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def asking(reference: str) -> str:
        model = open_model(reference, folder=folder)
        answer = await model.answer(request("hi"))
        await model.close()
        return answer.output

    before = list(sys.path)
    for reference in ("python/agent.py:answer", f"python/{folder}/agent.py:answer"):
        assert asyncio.run(asking(reference)) == "found"
    (folder / "only_here.py").write_text("def answer(prompt): return 'module'\n")
    assert asyncio.run(asking("python/only_here:answer")) == "module"
    assert sys.path == before


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("python/agent.py", "names no function; write python/module:function"),
        ("python/agent.py:", "names no function"),
        ("python/agent.py:anwser", "has no function 'anwser'; did you mean 'answer'?"),
        ("python/agent.py:number", "'number' in agent.py is not a function"),
        ("python/missing.py:f", "there is no file"),
        ("python/no_such_module:f", "no_such_module cannot be imported: ModuleNotFoundError"),
        ("python/broken.py:f", "broken.py cannot be imported: NameError"),
    ],
)
def test_what_cannot_be_imported_is_refused(folder: Path, reference: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        open_model(reference, folder=folder)
    assert message in str(caught.value)


def test_an_import_error_names_its_line(folder: Path) -> None:
    with pytest.raises(InvalidInput, match=r"\(at broken\.py:3\)"):
        open_model("python/broken.py:f", folder=folder)

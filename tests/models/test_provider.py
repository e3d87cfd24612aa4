from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelTimeoutError
from tests.models.model_conformance import request
from tests.models.provider_server import (
    Action,
    BrokenJson,
    BrokenOff,
    Drop,
    Fail,
    ProviderServer,
    Reply,
)

from tallymark.errors import InvalidInput, ModelError
from tallymark.installation import explain_install
from tallymark.models import Answer, Message, Request, open_model
from tallymark.models.provider import _WITH_OUR_CLIENT
from tallymark.models.provider_setup import PROVIDERS, _make_package_error
from tallymark.models.provider_translation import translate_failure

OPENAI, CHAT, ANTHROPIC = "openai/gpt-5-mini", "openai-chat:gpt-5-mini", "anthropic/claude-opus-5"
USAGE = {"prompt_tokens": 12, "completion_tokens": 3, "input_tokens": 12, "output_tokens": 3}
ALL = pytest.mark.parametrize("reference", [OPENAI, CHAT, ANTHROPIC])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProviderServer]:
    with ProviderServer() as server:
        server.pose_as_providers(monkeypatch)
        yield server


def ask(reference: str, asked: Request | str = "hi", **options: Any) -> Answer:
    async def asking() -> Answer:
        model = open_model(reference, **options)
        try:
            return await model.answer(request(asked) if isinstance(asked, str) else asked)
        finally:
            await model.close()

    return asyncio.run(asking())


@ALL
def test_an_answer_has_its_numbers_and_a_span(server: ProviderServer, reference: str) -> None:
    answer = ask(reference)
    name = reference.replace(":", "/").partition("/")[2]
    assert (answer.output, answer.model, answer.tokens_counted_by) == ("hi", name, "provider")
    assert (answer.input_tokens, answer.output_tokens) == (11, 7)
    assert answer.cost is not None
    assert 0 < answer.cost < 0.01
    (span,) = answer.spans
    assert (span.span_type, span.input, span.output, span.model) == (
        *("generation", "hi", "hi"),
        name,
    )
    assert (span.input_tokens, span.output_tokens, span.cost) == (11, 7, answer.cost)
    assert answer.latency is not None
    assert 0 < span.duration_ms <= answer.latency * 1000


@ALL
def test_the_whole_conversation_is_sent(server: ProviderServer, reference: str) -> None:
    roles = ("system", "user", "assistant", "user")
    contents = ("be brief", "hi", "hello", "and now?")
    messages = tuple(Message(r, c) for r, c in zip(roles, contents, strict=True))  # type: ignore[arg-type]
    assert ask(reference, Request(messages=messages)).output == "and now?"
    sent = str(server.bodies[0])
    places = [sent.find(repr(content)) for content in contents]
    assert -1 not in places
    assert places[1:] == sorted(places[1:])


@ALL
def test_settings_are_sent(server: ProviderServer, reference: str) -> None:
    asked = Request(messages=(Message("user", "hi"),), settings={"max_tokens": 77})
    ask(reference, asked)
    assert 77 in server.bodies[0].values()


VARIED = ("content-length", "traceparent", "x-stainless-")
"""`traceparent`: where an earlier test has set up tracing, requests tell of their spans."""


@ALL
def test_the_answers_after_the_first_are_like_it(server: ProviderServer, reference: str) -> None:
    """Only for the first one does the library make the head of the request."""
    questions = ["hi", "and now?", "Grüße, 日本語"]

    async def asking() -> list[Answer]:
        model = open_model(reference)
        answers = [await model.answer(request(question)) for question in questions]
        await model.close()
        return answers

    answers = asyncio.run(asking())
    assert [answer.output for answer in answers] == questions
    assert len({answer.cost for answer in answers}) == 1
    # A busy machine may make the library try again, which it tells in heads of its own.
    first, *others = [
        {name: value for name, value in headers.items() if not name.lower().startswith(VARIED)}
        for headers in server.headers
    ]
    assert others == [first] * len(others)
    assert first.get("Authorization", first.get("X-Api-Key")) in ("Bearer none", "none")
    first, *others = [{**body, "input": "", "messages": ""} for body in server.bodies]
    assert all(each == first for each in others)


@pytest.mark.parametrize("status", [404, 405, 501])
def test_a_server_with_chat_completions_only_is_asked_for_those(
    server: ProviderServer, status: int
) -> None:
    server.responses_status = status

    async def asking() -> list[Answer]:
        model = open_model(OPENAI)
        answers = await asyncio.gather(*(model.answer(request(f"{n}")) for n in range(5)))
        await model.close()
        return answers

    assert [answer.output for answer in asyncio.run(asking())] == ["0", "1", "2", "3", "4"]
    assert server.paths == {"/v1/responses": 1, "/v1/chat/completions": 5}


def test_a_server_with_the_responses_api_is_asked_for_responses(server: ProviderServer) -> None:
    assert ask(OPENAI).output == "hi"
    assert server.paths == {"/v1/responses": 2}  # the first was empty, and was refused
    assert server.count == {"hi": 1}


def test_a_refusal_of_the_request_itself_is_no_reason_to_ask_elsewhere(
    server: ProviderServer,
) -> None:
    server.on("hi", Fail(404, code="model_not_found"))
    with pytest.raises(ModelError, match="answered 404 Not Found: scripted 404"):
        ask(OPENAI)
    assert "/v1/chat/completions" not in server.paths


def test_openai_itself_is_not_tried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from openai import AsyncOpenAI

    from tallymark.models.provider import _lacks_responses

    client = AsyncOpenAI(api_key="none", base_url="https://api.openai.com/v1")
    monkeypatch.setattr(client.responses, "create", None)
    assert asyncio.run(_lacks_responses(client)) is False


ODD_USAGES: list[Any] = [
    False,
    None,
    "12",
    [1],
    7,
    {},
    {**USAGE, "prompt_tokens": -1, "input_tokens": -1},
    dict.fromkeys(USAGE, 2.5),
    {**USAGE, "prompt_tokens": 10**30, "input_tokens": 10**30},
    {"completion_tokens": 3, "output_tokens": 3},
    dict.fromkeys(USAGE, 0),
]
NUMBERS_TO_SOME = [dict.fromkeys(USAGE, "12"), dict.fromkeys(USAGE, True)]


@pytest.mark.parametrize("usage", [*ODD_USAGES, *NUMBERS_TO_SOME], ids=str)
def test_an_answer_with_an_odd_usage_is_kept_and_its_tokens_counted_here(
    server: ProviderServer, usage: Any
) -> None:
    server.on("hi", Reply("hello there", usage=usage))
    answer = ask(f"{server.url}/v1#m")
    assert answer.output == "hello there"
    assert (answer.input_tokens, answer.output_tokens) == (1, 2)
    assert (answer.tokens_counted_by, answer.cost) == ("local", None)


@pytest.mark.filterwarnings("ignore")  # the libraries', about such a usage
@pytest.mark.parametrize("usage", ODD_USAGES, ids=str)
@ALL
def test_an_odd_usage_is_refused_by_a_providers_library_or_not_believed(
    server: ProviderServer, reference: str, usage: Any
) -> None:
    server.on("hi", Reply("hello there", usage=usage))
    try:
        answer = ask(reference)
    except ModelError as error:
        assert "gave an answer that cannot be read" in str(error)
        return
    assert answer.output == "hello there"
    assert (answer.input_tokens, answer.output_tokens) == (1, 2)
    assert (answer.tokens_counted_by, answer.cost) == ("local", None)


@pytest.mark.parametrize("reference", ["{}/v1#m", "{}/plain"])
def test_what_can_be_believed_of_an_odd_usage_is(server: ProviderServer, reference: str) -> None:
    odd = {"prompt_tokens_details": "none", "output_tokens_details": {"reasoning_tokens": "x"}}
    server.on("hi", Reply("hello", usage={**USAGE, **odd, "total_tokens": None, "more": {"a": []}}))
    answer = ask(reference.format(server.url))
    assert (answer.input_tokens, answer.output_tokens) == (12, 3)
    assert answer.tokens_counted_by == "provider"


def test_pricing_overrides_the_table(server: ProviderServer) -> None:
    answer = ask(OPENAI, pricing={"input": 1000, "output": 0})
    assert answer.cost == pytest.approx(0.011)
    assert answer.spans[0].cost == pytest.approx(0.011)


def test_an_unknown_price_stays_unknown(server: ProviderServer) -> None:
    assert ask("openai/my-own-finetune").cost is None


def test_tokens_that_are_not_reported_are_counted_here(server: ProviderServer) -> None:
    server.on("hi", Reply("hello", usage=False))
    answer = ask(CHAT)
    assert (answer.input_tokens, answer.output_tokens) == (1, 1)
    assert (answer.tokens_counted_by, answer.cost) == ("local", None)


FAILURES: list[tuple[Action, str, tuple[bool, bool, float | None]]] = [
    (Fail(400), "answered 400 Bad Request: scripted 400", (False, False, None)),
    (Fail(401), "answered 401 Unauthorized.*check the API key", (False, False, None)),
    (Fail(403), "answered 403 Forbidden", (False, False, None)),
    (Fail(404), "answered 404 Not Found.*check the address", (False, False, None)),
    (Fail(408), "answered 408", (True, False, None)),
    (Fail(429, {"Retry-After": "2"}), "answered 429 Too Many", (True, True, 2.0)),
    (Fail(429, {"Retry-After": "0.5"}), "answered 429 Too Many", (True, True, 0.5)),
    (Fail(500), "answered 500", (True, False, None)),
    (Fail(503, {"Retry-After": "3"}), "answered 503", (True, True, 3.0)),
    (Fail(529, code="overloaded_error"), "answered 529 Overloaded", (True, True, None)),
    (BrokenJson(), "gave an answer that cannot be read", (True, False, None)),
    (Drop(), "could not be reached", (True, False, None)),
]


@ALL
@pytest.mark.parametrize(
    ("action", "message", "flags"),
    FAILURES,
    ids=[str(row[0]) for row in FAILURES],
)
def test_failures_say_whether_to_ask_again_and_are_not_retried_in_secret(
    server: ProviderServer,
    reference: str,
    action: Action,
    message: str,
    flags: tuple[bool, bool, float | None],
) -> None:
    server.on("hi", action)
    with pytest.raises(ModelError, match=message) as caught:
        ask(reference)
    error = caught.value
    assert (error.retryable, error.throttled, error.retry_after) == flags
    assert server.count["hi"] == 1


def test_a_stream_that_ends_before_the_first_word_is_no_empty_answer(
    server: ProviderServer,
) -> None:
    server.on("hi", BrokenOff())
    with pytest.raises(ModelError, match="broke off before its first word") as caught:
        ask(ANTHROPIC)
    assert caught.value.retryable


def test_an_empty_account_is_not_asked_again(server: ProviderServer) -> None:
    server.on("hi", Fail(429, {"Retry-After": "1"}, code="insufficient_quota"))
    with pytest.raises(ModelError, match="the account has no credit left") as caught:
        ask(CHAT)
    assert not caught.value.retryable
    assert not caught.value.throttled


@pytest.mark.parametrize("reference", [OPENAI, CHAT, ANTHROPIC, "ollama/x", "google/gemini-3"])
def test_a_server_that_is_not_there_was_sent_nothing(
    monkeypatch: pytest.MonkeyPatch, reference: str
) -> None:
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OLLAMA_BASE_URL"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/v1")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "http://127.0.0.1:9")
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(name, "none")
    with pytest.raises(ModelError, match=f"^{reference} could not be reached: .*failed") as caught:
        ask(reference)
    assert (caught.value.retryable, caught.value.refused) == (True, True)


@pytest.mark.parametrize(
    ("phase", "said", "refused"),
    [
        ("connect", "m could not be reached: connecting took too long", True),
        ("read", "m did not answer in time: slow", False),
    ],
)
def test_a_timeout_says_whether_anything_was_sent(phase: Any, said: str, refused: bool) -> None:
    error = translate_failure("m", ModelTimeoutError("m", "slow", phase=phase))
    assert (str(error), error.retryable, error.refused) == (said, True, refused)


def test_a_library_that_waits_too_long_is_worth_another_try(server: ProviderServer) -> None:
    server.on("hi", Reply(latency=30))
    asked = Request(messages=(Message("user", "hi"),), settings={"timeout": 0.05})
    with pytest.raises(ModelError, match="did not answer in time") as caught:
        ask(CHAT, asked)
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("reference", "variable"),
    [
        (OPENAI, "OPENAI_API_KEY"),
        (ANTHROPIC, "ANTHROPIC_API_KEY"),
        ("openrouter/a/b", "OPENROUTER_API_KEY"),
        ("deepseek/deepseek-chat", "DEEPSEEK_API_KEY"),
        ("google/gemini-3-flash", "GOOGLE_API_KEY"),
    ],
)
def test_a_missing_key_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch, reference: str, variable: str
) -> None:
    monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ModelError, match=f"{reference} needs an API key; set .*{variable}"):
        open_model(reference)


@pytest.mark.parametrize(
    ("reference", "variables", "said"),
    [
        (
            "ollama/x",
            {},
            "the address of its server; set OLLAMA_BASE_URL, such as http://localhost:11434/v1",
        ),
        (
            "vllm/x",
            {},
            "the address of its server; set VLLM_BASE_URL, such as http://localhost:8000/v1",
        ),
        ("azure/x", {}, "the address of its server; set AZURE_OPENAI_ENDPOINT"),
        (
            "azure/x",
            {"AZURE_OPENAI_ENDPOINT": "http://x"},
            "an API key; set AZURE_OPENAI_API_KEY",
        ),
        (
            "azure/x",
            {"AZURE_OPENAI_ENDPOINT": "http://x", "AZURE_OPENAI_API_KEY": "k"},
            "an API version; set OPENAI_API_VERSION",
        ),
        ("bedrock/x", {}, "a region; set AWS_DEFAULT_REGION"),
    ],
)
def test_what_is_missing_is_called_by_its_name(
    monkeypatch: pytest.MonkeyPatch, reference: str, variables: dict[str, str], said: str
) -> None:
    for name in list(os.environ):
        if name.startswith(("OLLAMA", "VLLM", "AZURE", "AWS", "OPENAI")):
            monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ModelError) as caught:
        open_model(reference)
    assert str(caught.value) == f"{reference} needs {said}"


@pytest.mark.parametrize("kind", sorted(_WITH_OUR_CLIENT))
def test_providers_that_speak_as_openai_does_need_no_more_than_a_key(
    monkeypatch: pytest.MonkeyPatch, server: ProviderServer, kind: str
) -> None:
    name = {"openai-chat": "OPENAI", "openai-responses": "OPENAI", "vercel": "VERCEL_AI_GATEWAY"}
    monkeypatch.setenv(f"{name.get(kind, kind.upper())}_API_KEY", "none")
    monkeypatch.setenv(f"{name.get(kind, kind.upper())}_BASE_URL", f"{server.url}/v1")
    asyncio.run(open_model(f"{kind}/some/model").close())


@pytest.mark.parametrize("reference", ["ollama/x", "vllm/x"])
def test_a_server_of_ones_own_needs_its_address_only(
    monkeypatch: pytest.MonkeyPatch, server: ProviderServer, reference: str
) -> None:
    kind = reference.partition("/")[0].upper()
    monkeypatch.delenv(f"{kind}_API_KEY", raising=False)
    monkeypatch.setenv(f"{kind}_BASE_URL", f"{server.url}/v1")
    answer = ask(reference)
    assert (answer.output, answer.input_tokens, answer.cost) == ("hi", 11, None)


def test_a_missing_package_says_what_to_install() -> None:
    with pytest.raises(ModelError) as caught:
        open_model("groq/x")
    assert str(caught.value) == (
        f"groq/x needs the package of groq; {explain_install('pydantic-ai-slim[groq]')}"
    )


def test_a_missing_package_that_comes_with_ours_names_our_extra() -> None:
    said = 'Please install `openai`, you can use `pip install "pydantic-ai-slim[openai]"`'
    error = _make_package_error("openai/x", ImportError(said))
    assert str(error).endswith(explain_install("tallymark[models]"))


def test_without_pydantic_ai_it_says_what_to_install() -> None:
    program = """
import sys
sys.modules["pydantic_ai"] = None
from tallymark.errors import TallymarkError
from tallymark.models import open_model
for reference in ("openai/gpt-5-mini", "opneai/gpt-5-mini"):
    try:
        open_model(reference)
    except TallymarkError as error:
        print(error)
"""
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    ).stdout.splitlines()
    assert said[0] == (
        f"openai/gpt-5-mini needs pydantic-ai; {explain_install('tallymark[models]')}"
    )
    assert "'opneai' is not a kind of model or a provider; did you mean 'openai'?" in said[1]


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_provider_that_we_name_is_one_that_pydantic_ai_knows(name: str) -> None:
    from pydantic_ai.providers import infer_provider_class
    from pydantic_ai.providers.gateway import normalize_gateway_provider

    if name == "gateway":
        assert normalize_gateway_provider("gateway/openai") == "openai"
        return
    with suppress(ImportError):  # known, but its package is not installed here
        assert infer_provider_class(name)


@pytest.mark.parametrize(
    ("reference", "hint"),
    [
        ("opneai/gpt-5", "did you mean 'openai'? known are cmd, echo, http"),
        ("ecko/x", "did you mean 'echo'? known are"),
        ("nothing-like-it/x", "known are cmd, echo"),
    ],
)
def test_an_unknown_kind_is_refused_with_the_list(reference: str, hint: str) -> None:
    with pytest.raises(InvalidInput, match="is not a kind of model or a provider") as caught:
        open_model(reference)
    assert hint in str(caught.value.problems[0].hint)
    assert "anthropic" in str(caught.value)

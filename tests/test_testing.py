"""`tallymark.testing`: contexts, traces and agents made by hand."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tallymark.errors import InvalidInput
from tallymark.scoring import EvalContext, load_scorer
from tallymark.testing import HANG, AsyncFakeAgent, FakeAgent, Slow, TraceBuilder, mock_context
from tallymark.traces import Trace


def test_the_mock_context_is_the_documents() -> None:
    given = mock_context("Hello world")
    document = EvalContext.from_dict(
        {
            "trace": {
                "trace": {
                    "traceId": "test-trace",
                    "name": "test",
                    "status": "ok",
                    "durationMs": 1000,
                    "metadata": {},
                },
                "spans": [
                    {
                        "spanId": "test-span",
                        "name": "generation",
                        "spanType": "generation",
                        "input": "test input",
                        "output": "Hello world",
                        "durationMs": 1000,
                        "startMs": 0,
                    }
                ],
            },
            "expected": {},
            "metadata": {},
        }
    )
    assert given == document


def test_a_scorers_own_test_is_three_lines() -> None:
    score = load_scorer("word_count").score(mock_context("Hello world"))
    assert score.value == 0.1
    assert score.reason == "Response has 2 words"


def test_a_mock_context_has_what_is_asked_for() -> None:
    ctx = mock_context(
        "done",
        input={"query": "Hello"},
        tools=["search", {"name": "refund", "arguments": {"id": 1}, "error": "denied"}],
        expected={"toolCalls": ["search"]},
        metadata={"user": "alice"},
        config={"threshold": 0.9},
        model="m-1",
        cost=0.5,
    )
    assert (ctx.input, ctx.output) == ({"query": "Hello"}, "done")
    assert ctx.trace.tool_names == ["search", "refund"]
    assert [span.error for span in ctx.trace.errors] == ["denied"]
    assert (ctx.expected.tool_calls, ctx.metadata) == (["search"], {"user": "alice"})
    assert (ctx.config.threshold, ctx.trace.cost, ctx.spans[-1].model) == (0.9, 0.5, "m-1")


def test_a_mock_context_takes_a_trace() -> None:
    trace = TraceBuilder().generation("from the trace").build()
    assert mock_context(trace=trace).output == "from the trace"


def test_a_trace_is_built_step_by_step() -> None:
    trace = (
        TraceBuilder("refund", trace_id="t-1")
        .begin("agent")
        .retrieval("refund rules", ["rule 1"])
        .tool("refund", {"order": 17}, {"ok": True}, duration_ms=50)
        .end()
        .event("retry")
        .generation("Refunded.", input="Refund order 17", model="m-1", input_tokens=30)
        .build(metadata={"user": "alice"})
    )
    assert [(depth, span.name) for depth, span in trace.walk()] == [
        (0, "agent"),
        (1, "retrieval"),
        (1, "refund"),
        (0, "retry"),
        (0, "generation"),
    ]
    assert (trace.duration_ms, trace.status, trace.metadata) == (250.0, "ok", {"user": "alice"})
    assert trace.tool_calls[0].tool_input == '{"order":17}'
    assert trace.tool_calls[0].tool_output == '{"ok":true}'
    assert [span.start_ms for span in trace.spans] == [0.0, 0.0, 100.0, 150.0, 150.0]
    assert len({span.span_id for span in trace.spans}) == 5


def test_an_error_fails_the_trace() -> None:
    trace = TraceBuilder().generation("so far").error("rate limited").build()
    assert (trace.failed, trace.errors[0].error) == (True, "rate limited")


def test_ending_what_was_not_begun_is_refused() -> None:
    with pytest.raises(InvalidInput, match="there is no part to end; call begin"):
        TraceBuilder().end()


def test_an_unknown_field_of_a_span_is_refused() -> None:
    with pytest.raises(TypeError, match="colour"):
        TraceBuilder().generation("x", colour="red")


def call(agent: FakeAgent, given: Any) -> Any:
    answer = agent(given)
    return asyncio.run(_waited(answer)) if asyncio.iscoroutine(answer) else answer


async def _waited(answer: Any) -> Any:
    return await answer


KINDS = pytest.mark.parametrize("kind", [FakeAgent, AsyncFakeAgent])


@KINDS
@pytest.mark.parametrize(
    ("replies", "inputs", "answers"),
    [
        ("always", ["a", "b"], ["always", "always"]),
        (["first", "second"], ["a", "a"], ["first", "second"]),
        ({"a": "A", "b": "B"}, ["b", "a"], ["B", "A"]),
        ({"Hello": "Hi"}, [{"query": "Hello"}], ["Hi"]),
        (str.upper, ["a"], ["A"]),
        (Slow(0.0, "late"), ["a"], ["late"]),
        (Trace(name="t"), ["a"], [Trace(name="t")]),
    ],
)
def test_a_fake_agent_answers(
    kind: type[FakeAgent], replies: Any, inputs: list[Any], answers: list[Any]
) -> None:
    agent = kind(replies)
    assert [call(agent, given) for given in inputs] == answers
    assert agent.calls == inputs


@KINDS
@pytest.mark.parametrize("reply", [ValueError("boom"), ValueError, Slow(0.0, ValueError("boom"))])
def test_a_fake_agent_raises(kind: type[FakeAgent], reply: Any) -> None:
    with pytest.raises(ValueError, match=r"boom|^$"):
        call(kind([reply]), "a")


@KINDS
@pytest.mark.parametrize(
    ("replies", "said"),
    [({"a": "A"}, "the fake agent has no reply to 'b'"), ([], "has 0 replies, not 1")],
)
def test_a_fake_agent_without_a_reply_says_so(
    kind: type[FakeAgent], replies: Any, said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        call(kind(replies), "b")


def test_a_fake_agent_hangs_until_it_is_released() -> None:
    agent = FakeAgent(HANG)
    thread = threading.Thread(target=agent, args=("a",))
    thread.start()
    assert thread.is_alive()
    agent.release()
    thread.join(30)
    assert not thread.is_alive()
    assert repr(HANG) == "HANG"


def test_an_async_fake_agent_hangs_until_it_is_cancelled() -> None:
    async def main() -> bool:
        task = asyncio.create_task(AsyncFakeAgent(HANG)("a"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(main())

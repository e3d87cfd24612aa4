"""Spans that an agent emits through OpenTelemetry reach the scorers of its own test."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from opentelemetry import context, trace
from opentelemetry.sdk.trace import TracerProvider
from tests.suites.python_suites.yes_suite import trace_of

from tallymark.runs.run import Run
from tallymark.scoring import EvalContext, scorer
from tallymark.suites import Suite, Test, run
from tallymark.traces import Span


@pytest.fixture(scope="module")
def tracer() -> trace.Tracer:
    """From a provider of the user's own, which is global; it can be set only once."""
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        trace.set_tracer_provider(TracerProvider())
    return trace.get_tracer("agent")


@scorer(blocking=False)
def anything(ctx: EvalContext) -> bool:
    return True


def answers(inputs: list[str], agent: Any, **facts: Any) -> Run:
    tests = [Test(given, given, scorer=anything) for given in inputs]
    return run(Suite("s", tests, **facts), agent)


def spans(report: Run) -> dict[str, list[str]]:
    return {
        result.case: [span.name for span in trace_of(result).spans] for result in report.results
    }


def call_tool(tracer: trace.Tracer, name: str) -> None:
    with tracer.start_as_current_span(f"execute_tool {name}") as span:
        span.set_attribute("gen_ai.operation.name", "execute_tool")
        span.set_attribute("gen_ai.tool.name", name)


def call_model(tracer: trace.Tracer, output: str) -> None:
    with tracer.start_as_current_span("chat") as span:
        span.set_attribute("gen_ai.operation.name", "chat")
        span.set_attribute("gen_ai.usage.input_tokens", 10)
        span.set_attribute("output.value", output)


def test_spans_of_a_call_are_the_trace(tracer: trace.Tracer) -> None:
    def agent(given: str) -> str:
        with tracer.start_as_current_span("agent"):
            call_tool(tracer, "search")
            call_model(tracer, "found")
        return "found"

    (result,) = answers(["a"], agent).results
    assert [span.name for span in trace_of(result).spans] == [
        "question",
        "agent",
        "execute_tool search",
        "chat",
    ]
    assert trace_of(result).tool_names == ["search"]
    assert (result.output, result.tokens) == ("found", 10)
    assert (trace_of(result).trace_id, trace_of(result).first_input) == ("s/a#1", "a")


def test_the_return_is_the_last_generation_when_it_differs(tracer: trace.Tracer) -> None:
    def agent(given: str) -> str:
        call_model(tracer, '{"city": "Paris"}')
        return "Paris"

    (result,) = answers(["a"], agent).results
    assert result.output == "Paris"
    assert [span.output for span in trace_of(result).generations] == ['{"city": "Paris"}', "Paris"]


NAMES = [f"case-{number}" for number in range(20)]


def test_threads_do_not_mix_up_their_spans(tracer: trace.Tracer) -> None:
    together = threading.Barrier(4)

    def agent(given: str) -> str:
        with tracer.start_as_current_span(given):
            together.wait(30)
        return "done"

    report = answers(NAMES, agent, parallelism=4)
    assert spans(report) == {name: [name, "agent"] for name in NAMES}


def test_tasks_do_not_mix_up_their_spans(tracer: trace.Tracer) -> None:
    async def part(name: str) -> None:
        with tracer.start_as_current_span(name):
            await asyncio.sleep(0)

    async def agent(given: str) -> str:
        with tracer.start_as_current_span(given):
            await asyncio.gather(part(f"{given}/1"), part(f"{given}/2"))
            await asyncio.to_thread(call_tool, tracer, given)
        return "done"

    report = answers(NAMES, agent, parallelism=4)
    assert spans(report) == {
        name: [name, f"{name}/1", f"{name}/2", f"execute_tool {name}", "agent"] for name in NAMES
    }


def test_a_thread_with_the_context_of_a_span_belongs_to_it(tracer: trace.Tracer) -> None:
    def in_thread(given: str, carried: Any) -> None:
        token = context.attach(carried)
        call_tool(tracer, given)
        context.detach(token)

    def agent(given: str) -> str:
        with tracer.start_as_current_span(given):
            pool.submit(in_thread, given, context.get_current()).result()
        return "done"

    with ThreadPoolExecutor(2) as pool:
        report = answers(NAMES[:6], agent, parallelism=2)
    assert spans(report) == {name: [name, f"execute_tool {name}", "agent"] for name in NAMES[:6]}


def test_an_outer_span_does_not_join_the_tests(tracer: trace.Tracer) -> None:
    def agent(given: str) -> str:
        call_tool(tracer, given)
        return "done"

    with tracer.start_as_current_span("outer"):
        report = answers(["a", "b"], agent)
    assert spans(report) == {name: [f"execute_tool {name}", "agent"] for name in ("a", "b")}


def test_spans_without_a_common_parent_are_one_trace(tracer: trace.Tracer) -> None:
    def agent(given: str) -> str:
        call_tool(tracer, "first")
        call_tool(tracer, "second")
        return "done"

    (result,) = answers(["a"], agent).results
    assert trace_of(result).tool_names == ["first", "second"]


def test_spans_of_scorers_do_not_belong_to_the_agent(tracer: trace.Tracer) -> None:
    seen: list[list[Span]] = []

    @scorer(blocking=False)
    def judge(ctx: EvalContext) -> bool:
        call_model(tracer, "fine")
        seen.append(ctx.spans)
        return True

    async def agent(_: str) -> str:
        return "done"

    run(Suite("s", [Test("t", "a", scorers=[judge, anything])]), agent)
    assert [[span.name for span in each] for each in seen] == [["agent"]]


@pytest.mark.parametrize("ending", ["raises", "hangs"])
def test_what_a_failed_call_emitted_is_kept(tracer: trace.Tracer, ending: str) -> None:
    release = threading.Event()

    def agent(given: str) -> str:
        call_tool(tracer, "search")
        if ending == "hangs":
            release.wait()
        raise ValueError("boom")

    (result,) = answers(["a"], agent, timeout=1.0).results
    release.set()
    assert result.status == "error"
    assert trace_of(result).tool_names == ["search"]


def run_alone(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


_ALONE = """
from opentelemetry import trace
from tallymark import Suite, Test, run, scorer

@scorer(blocking=False)
def tools(ctx):
    return ctx.trace.tool_names == ["search"]

tracer = trace.get_tracer("agent")

def agent(_):
    with tracer.start_as_current_span("search") as span:
        span.set_attribute("gen_ai.tool.name", "search")
    return "done"

{before}
report = run(Suite("s", [Test("t", "a", scorer=tools)]), agent)
print(report.passed, type(trace.get_tracer_provider()).__name__)
"""


@pytest.mark.parametrize(
    ("before", "printed"),
    [
        ("", "True TracerProvider"),
        ("trace.set_tracer_provider(trace.NoOpTracerProvider())", "False NoOpTracerProvider"),
    ],
    ids=["no provider is set", "a provider that cannot be listened to is left alone"],
)
def test_providers(before: str, printed: str) -> None:
    assert run_alone(_ALONE.format(before=before)).strip() == printed


def test_without_the_sdk_everything_else_works() -> None:
    code = (
        "import sys; sys.modules['opentelemetry.sdk'] = None\n"
        "from tallymark import Suite, Test, run, scorer\n"
        "yes = scorer(name='yes')(lambda ctx: 'yes' in ctx.output)\n"
        "print(run(Suite('s', [Test('t', scorer=yes)]), lambda _: 'yes').passed)"
    )
    assert run_alone(code).strip() == "True"


@pytest.fixture(autouse=True)
def _no_span_left_open() -> Iterator[None]:
    yield
    assert trace.get_current_span() is trace.INVALID_SPAN

"""From traces to a suite: which question becomes which case, and what gives none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml  # type: ignore[import-untyped]
from tests.service.rule_samples import Clock, make_trace

from tallymark.service.callers import Caller
from tallymark.service.resources import Resources
from tallymark.service.trace_intake import TraceIntake
from tallymark.service.traces import LeftOutTrace, TracedSuite, Traces
from tallymark.store import Store, open_store
from tallymark.suites.suite_file import load_suite
from tallymark.traces import Trace

CLOCK = Clock()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(str(tmp_path / "tally.db")) as store:
        store.prepare()
        yield store


def make_asked(number: int, asked: str, **more: Any) -> Trace:
    """A trace whose agent was asked this."""
    trace = make_trace(number)
    span = msgspec.structs.replace(trace.spans[0], input=asked, **more)
    return msgspec.structs.replace(trace, spans=[span])


def make_suite(store: Store, *traces: Trace, **options: Any) -> TracedSuite:
    TraceIntake(store, clock=CLOCK).load(traces)
    store.traces.finalise(CLOCK() + 1)
    ids = [each.trace_id for each in traces]
    return ask(store).make_suite(traces=ids, name="made", **options)


def ask(store: Store) -> Traces:
    caller = Caller("default", "reporter", "ann")
    return Resources.over(store, clock=CLOCK, caller=caller).traces


def list_cases(made: TracedSuite) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(made.suite)["evals"]
    return found


def test_a_question_becomes_a_case_once(store: Store, tmp_path: Path) -> None:
    made = make_suite(store, make_asked(1, "Why?"), make_asked(2, "How?"), make_asked(3, "Why?"))
    assert [each["prompt"] for each in list_cases(made)] == ["Why?", "How?"]
    same = f"it asks the same as {1:032x}"
    assert made.left_out == [LeftOutTrace(trace=f"{3:032x}", reason=same)]
    path = tmp_path / "made.yaml"
    path.write_text(made.suite, encoding="utf-8")
    assert [case.key for case in load_suite(path).cases] == ["agent", "agent-00000000"]


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ("", "it does not record its input"),
        ("   ", "it does not record its input"),
        ("Hello {{var('name')}}", "its question has {{ in it, which suites fill in"),
    ],
)
def test_what_gives_no_case_is_told(store: Store, asked: str, reason: str) -> None:
    made = make_suite(store, make_asked(1, asked))
    assert made.cases == 0
    assert made.left_out == [LeftOutTrace(trace=f"{1:032x}", reason=reason)]


def test_a_conversation_becomes_turns(store: Store) -> None:
    messages = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hello!"},
        {"role": "user", "content": "And now?"},
    ]
    made = make_suite(store, make_asked(1, "And now?", metadata={"messages": messages}))
    (case,) = list_cases(made)
    assert case["turns"] == [{"user": "Hello", "assistant": "Hello!"}, "And now?"]
    assert case["system_prompt"] == "Be kind."


def test_what_is_expected_is_the_newest_that_somebody_said(store: Store) -> None:
    trace = make_asked(1, "Why?", metadata={"expected": "Because."})
    (case,) = list_cases(make_suite(store, trace))
    assert (case["scorers"], case["expected"]["output"]) == (["contains"], "Because.")
    ask(store).score(trace.trace_id, "right", 0.0, expected="No reason.")
    (case,) = list_cases(make_suite(store, trace, scorers=["exact_match"]))
    assert (case["scorers"], case["expected"]["output"]) == (["exact_match"], "No reason.")
    (bare,) = list_cases(make_suite(store, make_asked(2, "How?")))
    assert bare["checks"] == []


def test_a_session_is_found_by_its_name_and_not_as_a_glob(store: Store) -> None:
    for number, session in ((1, "a*"), (2, "ab"), (3, 'say "a"')):
        trace = msgspec.structs.replace(
            make_asked(number, "Why?"), metadata={"session.id": session}
        )
        TraceIntake(store, clock=CLOCK).load([trace])
    traces = ask(store)
    for number, session in ((1, "a*"), (3, 'say "a"')):
        assert [int(each.id, 16) for each in traces.session(session).traces] == [number]
    assert len(traces.list("session:a*").items) == 2
    assert len(traces.list("session=a*").items) == 1

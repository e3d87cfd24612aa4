"""Verified attempts: what is believed, and what is not."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallymark.challenges import trajectory
from tallymark.challenges.challenge import Constraints
from tallymark.challenges.constraints import is_same_model, read_claims
from tallymark.challenges.trajectory import (
    CLOCK_TOLERANCE_S,
    Verification,
    read_trajectory,
    verify_sent,
)
from tallymark.errors import TraceError
from tallymark.traces import Span, Trace

ENTERED, SUBMITTED = 1_700_000_000.0, 1_700_000_060.0


def call(at: float = 10.0, **changes: Any) -> dict[str, Any]:
    """A model call, `at` seconds after entry."""
    given = {
        "span_type": "generation",
        "model": "openai/sample-1",
        "start_ms": (ENTERED + at) * 1000,
        "duration_ms": 1000.0,
        "input_tokens": 100,
        "output_tokens": 20,
        "cost": 0.01,
    }
    return {key: value for key, value in {**given, **changes}.items() if value is not None}


def tool(at: float = 12.0, name: str = "grep") -> dict[str, Any]:
    return {"span_type": "tool", "tool_name": name, "start_ms": (ENTERED + at) * 1000}


def verified(
    *spans: dict[str, Any], claims: Any = None, metadata: Any = None, **bounds: Any
) -> Verification:
    return verify_sent(
        Trace(metadata=metadata or {}, spans=[Span(**span) for span in spans]),
        entered_at=ENTERED,
        submitted_at=SUBMITTED,
        claims={} if claims is None else claims,
        constraints=Constraints(**bounds),
    )


def sent(data: Any, claims: Any = None, **bounds: Any) -> Verification:
    return verify_sent(
        data,
        entered_at=ENTERED,
        submitted_at=SUBMITTED,
        claims=claims or {},
        constraints=Constraints(**bounds),
    )


def test_a_trajectory_in_time_whose_counts_agree_is_verified() -> None:
    claims = {"tokens_total": 240, "calls": 3, "cost": 0.02, "model": "sample-1"}
    found = verified(call(5), call(8), tool(), claims=claims)
    assert found == Verification(level="consistent", tokens=240, calls=3, cost=0.02)


def test_nothing_claimed_is_nothing_contradicted() -> None:
    assert verified(call()).verified


@pytest.mark.parametrize(
    ("spans", "claims", "problem"),
    [
        pytest.param([], {}, "the trajectory has no model call", id="no steps"),
        pytest.param([{"span_type": "event"}], {}, "has no model call", id="no calls"),
        pytest.param([tool()], {}, "has no model call", id="tool calls alone"),
        pytest.param(
            [call(input_tokens=0, output_tokens=0), call()],
            {},
            "1 model call of the trajectory used no tokens",
            id="a call for nothing",
        ),
        pytest.param(
            [call(input_tokens=0, output_tokens=0, status="error")],
            {},
            "no model call of the trajectory used tokens",
            id="only calls that failed",
        ),
        pytest.param(
            [call(span_id="a"), call(span_id="a"), call(span_id="b")],
            {},
            "1 step of the trajectory had the id of another",
            id="one step twice",
        ),
        pytest.param(
            [call(20, span_id="a"), call(10, parent_id="a")],
            {},
            "1 step began before the one that holds it",
            id="upside down",
        ),
        pytest.param(
            [call(input_tokens=None, output_tokens=None), call()],
            {},
            "does not record the tokens of every model call",
            id="a call that is not counted",
        ),
        pytest.param(
            [call(start_ms=None)], {}, "1 step of the trajectory came without a time", id="no time"
        ),
        pytest.param([call(-60)], {}, "1 step lay up to 60 s before the entry", id="too early"),
        pytest.param([call(90)], {}, "31.00 s after the submission", id="too late"),
        pytest.param([call(50, duration_ms=40e3)], {}, "30.00 s after the", id="ends too late"),
        pytest.param([call(start_ms=math.nan)], {}, "impossible numbers", id="time is NaN"),
        pytest.param([call(start_ms=math.inf)], {}, "impossible numbers", id="time is infinite"),
        pytest.param([call(start_ms=1e300)], {}, "after the submission", id="time is enormous"),
        pytest.param([call(duration_ms=-5.0)], {}, "impossible numbers", id="negative duration"),
        pytest.param([call(input_tokens=-5)], {}, "impossible numbers", id="negative tokens"),
        pytest.param([call(cost=math.nan)], {}, "impossible numbers", id="cost is NaN"),
        pytest.param([call()], {"tokens": 119}, "claims 119 tokens, and the", id="fewer tokens"),
        pytest.param([call()], {"calls": 2}, "claims 2 calls", id="other calls"),
        pytest.param([call()], {"cost": 0.005}, "a cost of $0.005", id="cheaper"),
        pytest.param([call()], {"tokens": "few"}, "must be a whole number", id="claim in words"),
        pytest.param([call()], {"tokens": -1}, "must be a whole number", id="negative claim"),
        pytest.param([call()], {"tokens": 1.5}, "must be a whole number", id="half a token"),
        pytest.param([call()], {"calls": True}, "must be a whole number", id="true is no count"),
        pytest.param([call()], {"cost": math.nan}, "must be a number", id="NaN claim"),
        pytest.param([call()], {"cost": 10**400}, "must be a number", id="enormous claim"),
        pytest.param([call()], [], "must be an object", id="claims are a list"),
        pytest.param(
            [call(input_tokens=None, output_tokens=None)],
            {"tokens": 120},
            "does not record the tokens of every model call",
            id="claims what cannot be checked",
        ),
    ],
)
def test_what_is_not_verified_says_why(
    spans: list[dict[str, Any]], claims: Any, problem: str
) -> None:
    found = verified(*spans, claims=claims)
    assert not found.verified
    assert problem in "; ".join(found.problems)


@pytest.mark.parametrize("at", [-CLOCK_TOLERANCE_S, 59 + CLOCK_TOLERANCE_S], ids=["early", "late"])
def test_a_small_difference_of_clocks_is_forgiven_and_told(at: float) -> None:
    found = verified(call(at))
    assert found.verified
    assert found.harness_warning is not None
    assert "clock seems 5.00 s" in found.harness_warning


def test_costs_may_differ_by_rounding() -> None:
    assert verified(call(cost=0.01), claims={"cost": 0.01005}).verified


def test_a_call_that_failed_may_have_used_nothing() -> None:
    assert verified(call(), call(input_tokens=0, output_tokens=0, status="error")).verified


def test_tokens_may_be_counted_above_the_calls() -> None:
    whole = {"span_id": "a", "start_ms": (ENTERED + 5) * 1000, "input_tokens": 7}
    inner = call(parent_id="a", input_tokens=None, output_tokens=None)
    assert verified(whole, inner).level == "consistent"
    assert verified(whole | {"input_tokens": 0}, inner).level == "claimed"


def test_what_is_sent_is_claimed_and_what_is_not_is_none() -> None:
    made = ({"trace_id": "t", "spans": [call(at)]} for at in (-60, 10))
    levels = [sent(data).level for data in (None, "nonsense", *made)]
    assert levels == ["none", "none", "claimed", "consistent"]


def test_steps_of_several_traces_may_have_the_same_ids() -> None:
    steps = [call(span_id="a", input_tokens=None, output_tokens=None, parent_id="b")]
    whole = {"span_id": "b", "start_ms": (ENTERED + 5) * 1000, "input_tokens": 7}
    one, other = {"trace_id": "1", "spans": [call(span_id="a")]}, {"trace_id": "2", "spans": steps}
    # The second's call is counted by nobody, whatever the first trace has under that id.
    assert sent(f"{json.dumps(one | {'spans': [whole]})}\n{json.dumps(other)}").level == "claimed"
    assert sent(f"{json.dumps(one)}\n{json.dumps(one | {'trace_id': '2'})}").level == "consistent"


@pytest.mark.parametrize("bound", [{"tokens": 1000}, {"cost": 1.0}], ids=["tokens", "cost"])
def test_a_bound_that_cannot_be_checked_is_not_verified(bound: dict[str, Any]) -> None:
    unknown = call(input_tokens=None, output_tokens=None, cost=None)
    assert not verified(unknown, **bound).verified


def test_violations_do_not_make_it_unverified() -> None:
    found = verified(call(), tool(name="browser"), tokens=100, calls=1, tools=("grep",))
    assert found.verified
    assert found.violations == (
        "it used 120 tokens, and 100 are allowed",
        "it used 2 calls, and 1 are allowed",
        "the tool 'browser' is not allowed",
    )


@pytest.mark.parametrize(
    ("spans", "claims", "metadata", "warning"),
    [
        pytest.param([call()], {"model": "other-2"}, {}, "the model 'other-2'", id="model"),
        pytest.param(
            [call()], {"harness": "mine"}, {"harness": "yours"}, "the harness 'mine'", id="harness"
        ),
        pytest.param(
            [call()], {"harness": "mine"}, {"agent": {"name": "yours"}}, "'yours'", id="agent"
        ),
        pytest.param(
            [call()],
            {"harness": "mine"},
            {"resource": {"service.name": "yours"}},
            "'yours'",
            id="service",
        ),
        pytest.param([call(3600)], {}, {}, "3,541 s ahead of the server's", id="clock ahead"),
        pytest.param([call(-3600)], {}, {}, "3,600 s behind the server's", id="clock behind"),
    ],
)
def test_the_harness_is_warned_of(
    spans: list[dict[str, Any]], claims: Any, metadata: Any, warning: str
) -> None:
    found = verified(*spans, claims=claims, metadata=metadata)
    assert warning in (found.harness_warning or "")


@pytest.mark.parametrize(
    ("claims", "metadata"),
    [
        pytest.param({"model": "sample-1", "harness": "Mine"}, {"harness": "mine"}, id="the same"),
        pytest.param({"model": "sample-1"}, {"harness": 7, "agent": None}, id="nothing to compare"),
    ],
)
def test_a_harness_that_fits_is_not_warned_of(claims: Any, metadata: Any) -> None:
    assert verified(call(), claims=claims, metadata=metadata).harness_warning is None


def test_steps_all_over_the_place_are_no_question_of_clocks() -> None:
    assert verified(call(-3600), call(3600)).harness_warning is None


def test_without_a_trajectory_nothing_is_verified_and_claims_can_still_break_bounds() -> None:
    found = sent(None, {"tokens": 500}, tokens=100)
    assert (found.verified, found.tokens) == (False, None)
    assert found.problems == ("no trajectory was sent",)
    assert found.violations == ("it used 500 tokens, and 100 are allowed",)
    assert "without a trajectory" in (found.harness_warning or "")


def test_without_a_trajectory_and_without_constraints_there_is_no_warning() -> None:
    assert sent(None).harness_warning is None


def _iso(at: float) -> str:
    return datetime.fromtimestamp(ENTERED + at, UTC).isoformat()


def _atif() -> dict[str, Any]:
    step = {
        "step_id": 1,
        "source": "agent",
        "timestamp": _iso(20),
        "message": "found it",
        "metrics": {"prompt_tokens": 100, "completion_tokens": 20, "cost_usd": 0.01},
        "tool_calls": [{"tool_call_id": "c", "function_name": "grep", "arguments": {}}],
    }
    agent = {"name": "terminal-agent", "version": "1", "model_name": "sample-1"}
    return {"schema_version": "ATIF-v1.4", "session_id": "s", "agent": agent, "steps": [step]}


def _otlp() -> dict[str, Any]:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "sample-1",
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
    }
    span = {
        "traceId": "0" * 31 + "1",
        "spanId": "0" * 15 + "1",
        "name": "chat",
        "startTimeUnixNano": str(int((ENTERED + 20) * 1e9)),
        "endTimeUnixNano": str(int((ENTERED + 21) * 1e9)),
        "attributes": [
            {
                "key": key,
                "value": {"intValue": str(v)} if isinstance(v, int) else {"stringValue": v},
            }
            for key, v in attributes.items()
        ],
    }
    return {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}


def _own() -> dict[str, Any]:
    return {"trace_id": "t", "spans": [call()]}


@pytest.mark.parametrize("made", [_own, _atif, _otlp], ids=["jsonl", "atif", "otlp"])
@pytest.mark.parametrize(
    "encode",
    [lambda data: data, json.dumps, lambda data: json.dumps(data, indent=2).encode()],
    ids=["data", "text", "bytes"],
)
def test_every_shape_is_read(
    made: Callable[[], dict[str, Any]], encode: Callable[[Any], Any]
) -> None:
    found = sent(encode(made()), {"tokens_total": 120})
    assert (found.verified, found.tokens, found.problems) == (True, 120, ())


def test_several_traces_are_one_trajectory() -> None:
    lines = "\n".join(json.dumps({"trace_id": str(i), "spans": [call(i)]}) for i in range(3))
    assert sent(lines, {"calls": 3}).verified


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"   \n", id="spaces"),
        pytest.param(b"hello", id="words"),
        pytest.param(b"\xff\xfe\x00", id="bytes"),
        pytest.param(gzip.compress(b'{"trace_id": "x"}'), id="an archive"),
        pytest.param("{", id="broken"),
        pytest.param("{}", id="an empty object"),
        pytest.param("[]", id="an empty list"),
        pytest.param("[1, 2]", id="numbers"),
        pytest.param('{"trace_id": "x", "spans": 7}', id="spans are a number"),
        pytest.param('{"trace_id": "x", "spans": [{"start_ms": NaN}]}', id="NaN"),
        pytest.param('{"trace_id": "x", "spans": [{"start_ms": 1e999}]}', id="infinite"),
        pytest.param('{"spans": [{"input_tokens": -4}]}', id="negative tokens"),
        pytest.param('{"spans": [{"input_tokens": 1' + "0" * 400 + "}]}", id="enormous tokens"),
        pytest.param('{"agent": {}, "steps": {}}', id="steps are no list"),
        pytest.param('{"resourceSpans": [{"scopeSpans": 5}]}', id="scopes are a number"),
        pytest.param("[" * 100_000, id="deep"),
        pytest.param('{"spans":' * 50_000 + "1" + "}" * 50_000, id="deep and closed"),
        pytest.param("\ud800", id="half a character"),
        pytest.param({"spans": [object()]}, id="not JSON at all"),
    ],
)
def test_what_cannot_be_read_is_unverified_with_one_reason(data: Any) -> None:
    found = sent(data, tokens=10)
    assert not found.verified
    assert len(found.problems) == 1
    assert "trajectory" in found.problems[0]
    assert "\n" not in found.problems[0]


def test_a_huge_trajectory_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trajectory, "MAX_BYTES", 100)
    assert "at most 100 are read" in sent(json.dumps(_own())).problems[0]


def test_millions_of_empty_objects_are_not_read() -> None:
    many = b'{"trace_id": "t", "spans": [' + b"{}," * trajectory.MAX_VALUES + b"{}]}"
    assert "more than 500,000 values" in sent(many).problems[0]


def test_too_many_steps_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trajectory, "MAX_STEPS", 2)
    assert "more than 2 steps" in sent({"trace_id": "t", "spans": [call()] * 3}).problems[0]


def test_reading_alone_raises_the_reason() -> None:
    with pytest.raises(TraceError, match="the trajectory is not JSON"):
        read_trajectory("no")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
SPAN = st.dictionaries(
    st.sampled_from(["span_type", "start_ms", "duration_ms", "input_tokens", "cost", "parent_id"]),
    JSON | st.sampled_from(["generation", "tool"]),
)


@given(
    data=JSON | st.binary(max_size=30) | st.fixed_dictionaries({"spans": st.lists(SPAN)}),
    claims=st.dictionaries(st.sampled_from(["tokens", "calls", "cost", "model", "harness"]), JSON),
)
def test_whatever_is_sent_is_answered(data: Any, claims: Any) -> None:
    found = sent(data, claims, tokens=1, calls=1, cost=0.1, tools=())
    assert found.verified == (not found.problems)


@pytest.mark.parametrize(
    ("claimed", "found", "same"),
    [
        ("gpt-5-mini", "openai/gpt-5-mini", True),
        ("openai:gpt-5-mini", "gpt-5-mini-2025-08-07", True),
        ("claude-x", "anthropic/claude-x-latest", True),
        ("GPT-5", "gpt-5", True),
        ("gpt-5", "gpt-5-mini", False),
        ("llama3:8b", "mistral:8b", False),
        ("llama3:8b", "llama3:8b", True),
        ("a/b/model", "c/model", True),
        ("one", "two", False),
    ],
)
def test_one_model_has_several_names(claimed: str, found: str, same: bool) -> None:
    assert is_same_model(claimed, found) is same


def test_the_first_key_of_a_claim_counts() -> None:
    claims, problems = read_claims({"tokens_total": 5, "tokens": 7, "other": "x"})
    assert (claims.tokens, problems) == (5, [])

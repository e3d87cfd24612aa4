"""Whether an attempt is verified: by its trajectory, the server's clock and the metadata's claims.

It is when a trajectory was sent, its steps lie between entry and submission by the server's clock,
and its counts agree with what the competitor's metadata claims.

Whatever is sent, nothing here raises: a trajectory that cannot be read or believed is unverified,
and the problems say why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.challenges.claims import Claims, is_same_model, read_claims
from tallymark.challenges.constraints import MOST, Usage, find_violations, sum_usage
from tallymark.errors import TraceError
from tallymark.scoring.score import show_value
from tallymark.traces import Span, Trace

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Constraints

CLOCK_TOLERANCE_S = 5.0
"""How far a competitor's clock may differ from ours."""
COST_TOLERANCE = 0.01
"""Costs agree when they differ by at most this share: price tables are rounded differently."""
MAX_BYTES = 16 * 2**20
MAX_STEPS = 100_000
MAX_OBJECTS = 1_000_000
"""Millions of empty objects fit into few bytes, and would take gigabytes to read."""


@dataclass(frozen=True, slots=True)
class Verification:
    """What a trajectory shows. Only what is verified earns efficiency and the Elo bonus."""

    verified: bool
    problems: tuple[str, ...] = ()
    """Why it is not verified, one sentence each."""
    tokens: int | None = None
    calls: int | None = None
    cost: float | None = None
    violations: tuple[str, ...] = ()
    """Bounds of the challenge that the attempt went beyond."""
    harness_warning: str | None = None


def verify_sent(
    sent: Trace | bytes | str | Mapping[str, Any] | list[Any] | None,
    *,
    entered_at: float,
    submitted_at: float,
    claims: Mapping[str, Any],
    constraints: Constraints,
) -> Verification:
    """Whether what came with a submission can be believed, what it used, and what that breaks.

    It is a trace, or JSON in any shape that `traces` reads.
    """
    if sent is None:
        return _verify_without("no trajectory was sent", claims, constraints)
    try:
        trajectory = sent if isinstance(sent, Trace) else read_trajectory(sent)
    except TraceError as error:
        return _verify_without(error.problems[0].message, claims, constraints)
    claimed, problems = read_claims(claims)
    usage = sum_usage(trajectory)
    moments = _StepTimes(trajectory, entered_at, submitted_at)
    problems += _find_nonsense(trajectory)
    problems += moments.problems()
    problems += _find_uncounted(usage, claimed, constraints)
    problems += _find_disagreements(usage, claimed)
    warnings = [*moments.warnings(), *_find_differences(trajectory, claimed)]
    return Verification(
        verified=not problems,
        problems=tuple(problems),
        tokens=usage.tokens,
        calls=usage.calls,
        cost=usage.cost,
        violations=find_violations(usage, constraints),
        harness_warning="; ".join(warnings) or None,
    )


def read_trajectory(sent: bytes | str | Mapping[str, Any] | list[Any]) -> Trace:
    """One trace of all that was sent: our JSONL, ATIF, OTLP's JSON, whatever `traces` reads.

    Several traces are one trajectory, their steps one after the other.
    """
    raw = _encode(sent)
    check_trajectory_size(raw)
    if raw.lstrip()[:1] not in (b"{", b"["):  # archives could unpack to any size
        raise TraceError("the trajectory is not JSON")
    try:
        return _join_traces(raw)
    except TraceError as error:
        why = error.problems[0].message[:300]
    except (RecursionError, ValueError, OverflowError, MemoryError) as error:
        why = type(error).__name__
    raise TraceError(f"the trajectory cannot be read: {why}")


def check_trajectory_size(sent: bytes | str) -> None:
    """TraceError for more than is ever read."""
    raw = _encode(sent)
    if len(raw) > MAX_BYTES:
        raise TraceError(
            f"the trajectory has {len(raw):,} bytes, and at most {MAX_BYTES:,} are read"
        )
    if raw.count(b"{") > MAX_OBJECTS:
        raise TraceError(f"the trajectory has more than {MAX_OBJECTS:,} objects")


def _join_traces(raw: bytes) -> Trace:
    from tallymark.traces import read_traces  # noqa: PLC0415 (the readers are heavy)

    first: Trace | None = None
    spans: list[Span] = []
    for trace in read_traces(BytesIO(raw)):
        first = first or trace
        spans += trace.spans
        if len(spans) > MAX_STEPS:
            raise TraceError(f"it has more than {MAX_STEPS:,} steps")
    if first is None:
        raise TraceError("it is empty")
    return msgspec.structs.replace(first, spans=spans)


def _encode(sent: object) -> bytes:
    if isinstance(sent, bytes):
        return sent
    if isinstance(sent, str):
        return sent.encode("utf-8", "replace")
    try:
        return msgspec.json.encode(sent)
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise TraceError("the trajectory cannot be written as JSON") from None


def _verify_without(why: str, claims: Mapping[str, Any], constraints: Constraints) -> Verification:
    """No trajectory: the claims are all there is, and they prove nothing."""
    found = Verification(verified=False, problems=(why,))
    bounds = (constraints.tokens, constraints.calls, constraints.cost, constraints.tools)
    if bounds == (None, None, None, None):
        return found
    claimed, _ = read_claims(claims)
    untold = (
        "the challenge has constraints, and without a trajectory nobody can tell whether they"
        " were kept"
    )
    usage = Usage(claimed.tokens, claimed.calls, claimed.cost)
    return replace(found, violations=find_violations(usage, constraints), harness_warning=untold)


def _find_nonsense(trajectory: Trace) -> list[str]:
    """Numbers that no run can have; the readers refuse most, but a trace can be made by hand."""
    if not any(span.span_type in ("generation", "tool") for span in trajectory.spans):
        return ["the trajectory has no model call and no tool call"]
    wrong = sum(not _is_sane(span) for span in trajectory.spans)
    return [f"{_count_steps(wrong)} of the trajectory had impossible numbers"] if wrong else []


def _is_sane(span: Span) -> bool:
    times = (span.start_ms or 0.0, span.duration_ms)
    amounts = (span.duration_ms, span.input_tokens or 0, span.output_tokens or 0, span.cost or 0.0)
    return all(map(math.isfinite, times)) and all(0 <= amount <= MOST for amount in amounts)


class _StepTimes:
    """When the steps happened, against the two moments that the server's clock knows."""

    def __init__(self, trajectory: Trace, entered_at: float, submitted_at: float) -> None:
        calls = [s for s in trajectory.spans if s.span_type in ("generation", "tool")]
        self.untold = sum(span.start_ms is None for span in calls)
        told = [s for s in trajectory.spans if s.start_ms is not None and _is_sane(s)]
        begins = [(span.start_ms or 0.0) / 1000 for span in told]
        ends = [(span.start_ms or 0.0) / 1000 + span.duration_ms / 1000 for span in told]
        self.early = [max(0.0, entered_at - begin) for begin in begins]
        self.late = [max(0.0, end - submitted_at) for end in ends]
        self.room = submitted_at - entered_at
        self.length = max(ends) - min(begins) if told else 0.0

    def problems(self) -> list[str]:
        found = []
        if self.untold:
            found.append(f"{_count_steps(self.untold)} of the trajectory came without a time")
        for amounts, when in (
            (self.early, "before the entry"),
            (self.late, "after the submission"),
        ):
            outside = [amount for amount in amounts if amount > CLOCK_TOLERANCE_S]
            if outside:
                found.append(f"{_count_steps(len(outside))} lay up to {max(outside):,.1f} s {when}")
        return found

    def warnings(self) -> list[str]:
        """A run that would fit, but at another time, hints at a clock that is wrong."""
        early, late = max(self.early, default=0.0), max(self.late, default=0.0)
        fits = self.length <= self.room + CLOCK_TOLERANCE_S
        if not fits or (early > 0) == (late > 0):
            return []
        direction = "behind" if early else "ahead of"
        return [f"the harness's clock seems {max(early, late):,.1f} s {direction} the server's"]


def _find_uncounted(usage: Usage, claimed: Claims, constraints: Constraints) -> list[str]:
    """Counts that a claim or a bound needs, and that the trajectory does not have."""
    asked = {
        "tokens": usage.tokens is None and (claimed.tokens, constraints.tokens) != (None, None),
        "cost": usage.cost is None and (claimed.cost, constraints.cost) != (None, None),
    }
    return [
        f"the trajectory does not tell the {what} of every model call"
        for what, missing in asked.items()
        if missing
    ]


def _find_disagreements(usage: Usage, claimed: Claims) -> list[str]:
    found = [
        f"the metadata claims {told:,} {what}, and the trajectory has {counted:,}"
        for what, told, counted in (
            ("tokens", claimed.tokens, usage.tokens),
            ("calls", claimed.calls, usage.calls),
        )
        if told is not None and counted is not None and told != counted
    ]
    told, counted = claimed.cost, usage.cost
    if told is None or counted is None:
        return found
    if abs(told - counted) > COST_TOLERANCE * max(told, counted):
        message = (
            f"the metadata claims a cost of ${told:.6g}, and the trajectory has ${counted:.6g}"
        )
        found.append(message)
    return found


def _find_differences(trajectory: Trace, claimed: Claims) -> list[str]:
    """What the metadata says of the harness and the model, where the trajectory says otherwise."""
    found = []
    models = list(dict.fromkeys(s.model for s in trajectory.generations if s.model))
    if not trajectory.generations:
        found.append("the trajectory has no model call")
    claim = claimed.model
    if claim and models and not any(is_same_model(claim, model) for model in models):
        found.append(
            f"the metadata names the model {show_value(claim)}, "
            f"and the trajectory {show_value(models[0])}"
        )
    harness = _find_harness(trajectory)
    if claimed.harness and harness and claimed.harness.casefold() != harness.casefold():
        found.append(
            f"the metadata names the harness {show_value(claimed.harness)}, and the trajectory "
            f"{show_value(harness)}"
        )
    return found


def _find_harness(trajectory: Trace) -> str | None:
    """What ran the agent: ATIF's agent, OpenTelemetry's service, or `harness` in our own shape."""
    data = trajectory.metadata
    resource = data.get("resource")
    agent = data.get("agent")
    named = (
        data.get("harness"),
        agent.get("name") if isinstance(agent, Mapping) else agent,
        resource.get("service.name") if isinstance(resource, Mapping) else None,
    )
    return next((name for name in named if isinstance(name, str) and name), None)


def _count_steps(count: int) -> str:
    return "1 step" if count == 1 else f"{count:,} steps"

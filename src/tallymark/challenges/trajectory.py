"""Trust level of a trajectory: by the server's clock, the claims, and its own numbers.

It is `consistent` if its steps lie between entry and submission, none begins before its parent,
every model call reports tokens and used some, no two steps are equal, and the sums agree with the
claims of the competitor's metadata. A hand-written file can pass too: only steps that reached a
server during the attempt are `witnessed`.

Nothing here raises: an inconsistent trajectory is `claimed`, an unreadable one is `none`, and the
problems give the reasons.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.challenges.attempt import TrajectoryLevel, reaches
from tallymark.challenges.constraints import (
    MOST,
    Claims,
    Usage,
    find_violations,
    is_same_model,
    read_claims,
    sum_usage,
)
from tallymark.documents.bounded_json import check_json_size
from tallymark.errors import TraceError
from tallymark.scoring.score import show_value
from tallymark.text import format_beside, format_money, format_seconds
from tallymark.traces import Span, Trace

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Constraints

CLOCK_TOLERANCE_S = 5.0
"""Tolerated difference of a competitor's clock."""
WITNESS_LAG_S = 60.0
"""A step reaches the server so soon after it has ended, by our clock, to be witnessed."""
COST_TOLERANCE = 0.01
"""Costs agree when they differ by at most this share: price tables are rounded differently."""
MAX_BYTES = 16 * 2**20
MAX_STEPS = 100_000
MAX_VALUES = 500_000
"""Millions of empty objects fit into few bytes, and would take gigabytes to read."""


@dataclass(frozen=True, slots=True)
class Verification:
    """Findings on a trajectory. Only verified ones earn efficiency and the Elo bonus."""

    level: TrajectoryLevel
    problems: tuple[str, ...] = ()
    """Why the level is not higher, one sentence each."""
    tokens: int | None = None
    calls: int | None = None
    cost: float | None = None
    violations: tuple[str, ...] = ()
    """Bounds of the challenge that the attempt went beyond."""
    harness_warning: str | None = None

    @property
    def verified(self) -> bool:
        """True if its numbers count."""
        return reaches(self.level, "consistent")


def verify_sent(
    sent: Trace | bytes | str | Mapping[str, Any] | list[Any] | None,
    *,
    entered_at: float,
    submitted_at: float,
    claims: Mapping[str, Any],
    constraints: Constraints,
) -> Verification:
    """Check a submitted trajectory: its level, usage, and violated constraints.

    It is a trace, or JSON in any format that `traces` reads.
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
    problems += _find_idle_calls(trajectory, usage)
    problems += moments.problems()
    problems += _find_uncounted(trajectory, usage, claimed, constraints)
    problems += _find_disagreements(usage, claimed)
    warnings = [*moments.warnings(), *_find_differences(trajectory, claimed)]
    return Verification(
        level="claimed" if problems else "consistent",
        problems=tuple(problems),
        tokens=usage.tokens,
        calls=usage.calls,
        cost=usage.cost,
        violations=find_violations(usage, constraints),
        harness_warning="; ".join(warnings) or None,
    )


def verify_witnessed(
    steps: Trace,
    arrivals: Mapping[str, float],
    *,
    entered_at: float,
    submitted_at: float,
    claims: Mapping[str, Any],
    constraints: Constraints,
) -> Verification:
    """Check steps that reached the server themselves, with their arrival times.

    A consistent trajectory is witnessed if every model and tool call arrived soon after its end.
    """
    shown = verify_sent(
        steps,
        entered_at=entered_at,
        submitted_at=submitted_at,
        claims=claims,
        constraints=constraints,
    )
    if shown.level != "consistent":
        return shown
    late = early = 0
    for span in steps.spans:
        if span.span_type not in ("generation", "tool"):
            continue
        # A tool requested by a model arrived with the model's call.
        came = arrivals.get(span.span_id, arrivals.get(span.span_id.partition("/tool-")[0]))
        ended = ((span.start_ms or 0.0) + span.duration_ms) / 1000
        late += came is None or came - ended > WITNESS_LAG_S
        early += came is not None and ended - came > CLOCK_TOLERANCE_S
    problems = []
    if late:
        far = format_seconds(WITNESS_LAG_S)
        problems.append(f"{_count_steps(late)} reached the server more than {far} after the end")
    if early:
        problems.append(
            f"{_count_steps(early)} reached the server before the end time that they report"
        )
    if problems:
        return replace(shown, problems=tuple(problems))
    return replace(shown, level="witnessed")


def read_trajectory(sent: bytes | str | Mapping[str, Any] | list[Any]) -> Trace:
    """One trace from everything that was sent: JSONL, ATIF, OTLP JSON, any format of `traces`.

    Several traces are one trajectory, their steps in sequence.
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


def hash_steps(sent: bytes | str) -> str | None:
    """A digest that is equal for equal steps at equal times, in any format; None without steps."""
    try:
        spans = read_trajectory(sent).spans
    except TraceError:
        return None
    steps = [
        (each.span_type, each.start_ms, each.duration_ms, each.input_tokens, each.output_tokens)
        for each in spans
    ]
    return hashlib.sha256(msgspec.json.encode(steps)).hexdigest() if steps else None


def check_trajectory_size(sent: bytes | str) -> None:
    """TraceError for more than is ever read."""
    raw = _encode(sent)
    if len(raw) > MAX_BYTES:
        raise TraceError(
            f"the trajectory has {len(raw):,} bytes, and at most {MAX_BYTES:,} are read"
        )
    try:
        check_json_size(raw, MAX_VALUES)
    except ValueError as error:
        raise TraceError(f"the trajectory cannot be read: {error}") from None


def _join_traces(raw: bytes) -> Trace:
    from tallymark.traces import read_traces  # noqa: PLC0415 (the readers are heavy)

    found: list[Trace] = []
    steps = 0
    for trace in read_traces(BytesIO(raw)):
        found.append(trace)
        steps += len(trace.spans)
        if steps > MAX_STEPS:
            raise TraceError(f"it has more than {MAX_STEPS:,} steps")
    if not found:
        raise TraceError("it is empty")
    return join_traces(found)


def join_traces(found: list[Trace]) -> Trace:
    """Several traces as one, their steps one after the other."""
    if len(found) == 1:
        return found[0]
    # Each trace numbers its own steps: keep them apart, so that none passes for another's.
    spans = [_rename(span, trace.trace_id) for trace in found for span in trace.spans]
    return msgspec.structs.replace(found[0], spans=spans)


def _rename(span: Span, trace_id: str) -> Span:
    return msgspec.structs.replace(
        span,
        span_id=span.span_id and f"{trace_id}/{span.span_id}",
        parent_id=span.parent_id and f"{trace_id}/{span.parent_id}",
    )


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
    found = Verification(level="none", problems=(why,))
    bounds = (constraints.tokens, constraints.calls, constraints.cost, constraints.tools)
    if bounds == (None, None, None, None):
        return found
    claimed, _ = read_claims(claims)
    untold = (
        "the challenge has constraints, and without a trajectory it is not known whether they"
        " were met"
    )
    usage = Usage(claimed.tokens, claimed.calls, claimed.cost)
    return replace(found, violations=find_violations(usage, constraints), harness_warning=untold)


def _find_nonsense(trajectory: Trace) -> list[str]:
    """Find impossible values; the readers refuse most, but a trace can be built by hand."""
    wrong = sum(not _is_sane(span) for span in trajectory.spans)
    found = [f"{_count_steps(wrong)} of the trajectory had impossible numbers"] if wrong else []
    named = [span.span_id for span in trajectory.spans if span.span_id]
    if twice := len(named) - len(set(named)):
        found.append(f"{_count_steps(twice)} of the trajectory had the id of another")
    return found


def _find_idle_calls(trajectory: Trace, usage: Usage) -> list[str]:
    """Model calls that cost nothing: there are none, and they would win every board of thrift."""
    calls = trajectory.generations
    if not calls:
        return ["the trajectory has no model call"]
    idle = sum(span.tokens == 0 and not span.failed for span in calls)
    if idle:
        return [f"{_count(idle, 'model call')} of the trajectory used no tokens"]
    return ["no model call of the trajectory used tokens"] if usage.tokens == 0 else []


def _is_sane(span: Span) -> bool:
    times = (span.start_ms or 0.0, span.duration_ms)
    amounts = (span.duration_ms, span.input_tokens or 0, span.output_tokens or 0, span.cost or 0.0)
    return all(map(math.isfinite, times)) and all(0 <= amount <= MOST for amount in amounts)


class _StepTimes:
    """When the steps happened, against the two moments that the server's clock knows."""

    def __init__(self, trajectory: Trace, entered_at: float, submitted_at: float) -> None:
        calls = [s for s in trajectory.spans if s.span_type in ("generation", "tool")]
        self.untold = sum(span.start_ms is None for span in calls)
        self.upside_down = _count_before_parents(trajectory)
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
        if self.upside_down:
            found.append(f"{_count_steps(self.upside_down)} began before the one that holds it")
        for amounts, when in (
            (self.early, "before the entry"),
            (self.late, "after the submission"),
        ):
            outside = [amount for amount in amounts if amount > CLOCK_TOLERANCE_S]
            if outside:
                far = format_seconds(max(outside))
                found.append(f"{_count_steps(len(outside))} lay up to {far} {when}")
        return found

    def warnings(self) -> list[str]:
        """A run that would fit, but at another time, hints at a clock that is wrong."""
        early, late = max(self.early, default=0.0), max(self.late, default=0.0)
        fits = self.length <= self.room + CLOCK_TOLERANCE_S
        if not fits or (early > 0) == (late > 0):
            return []
        direction = "behind" if early else "ahead of"
        off = format_seconds(max(early, late))
        return [f"the harness's clock seems {off} {direction} the server's"]


def _find_uncounted(
    trajectory: Trace, usage: Usage, claimed: Claims, constraints: Constraints
) -> list[str]:
    """Counts missing from the trajectory: tokens always, cost if required."""
    if not trajectory.generations:
        return []
    asked = {
        "tokens": usage.tokens is None,
        "cost": usage.cost is None and (claimed.cost, constraints.cost) != (None, None),
    }
    return [
        f"the trajectory does not record the {what} of every model call"
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
        claim = format_beside(format_money, told, counted)
        has = format_beside(format_money, counted, told)
        found.append(f"the metadata claims a cost of {claim}, and the trajectory has {has}")
    return found


def _find_differences(trajectory: Trace, claimed: Claims) -> list[str]:
    """Contradictions between metadata and trajectory on harness and model."""
    found = []
    models = list(dict.fromkeys(s.model for s in trajectory.generations if s.model))
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
    """The harness: ATIF's agent, OpenTelemetry's service, or `harness` in our own format."""
    data = trajectory.metadata
    resource = data.get("resource")
    agent = data.get("agent")
    named = (
        data.get("harness"),
        agent.get("name") if isinstance(agent, Mapping) else agent,
        resource.get("service.name") if isinstance(resource, Mapping) else None,
    )
    return next((name for name in named if isinstance(name, str) and name), None)


def _count_before_parents(trajectory: Trace) -> int:
    starts = {span.span_id: span.start_ms for span in trajectory.spans if span.span_id}
    early = 0
    for span in trajectory.spans:
        above = starts.get(span.parent_id) if span.parent_id else None
        if span.start_ms is not None and above is not None:
            early += span.start_ms / 1000 < above / 1000 - CLOCK_TOLERANCE_S
    return early


def _count_steps(count: int) -> str:
    return _count(count, "step")


def _count(count: int, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"

"""Rules: what scores traces as they come, what they decided and spent, and their backfills."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from tallymark.wire.parts import Asked, Listed, Moment, Told
from tallymark.wire.traces import TraceFilter

Decision = Literal["scored", "failed", "filtered", "not_drawn", "capped", "waiting"]
Dollars = Annotated[float | int, Field(gt=0, le=1e9, description="US dollars.")]


class RuleVersion(Asked):
    """What a rule says: exactly one of scorer, composite, judge and formula."""

    scorer: str | None = Field(
        None,
        min_length=1,
        max_length=10_000,
        description="A scorer, with its options in brackets.",
        examples=['contains(values=["sorry"])'],
    )
    composite: dict[str, Any] | None = Field(
        None, description="`parts`, and `formula` or weights: several scorers and judges as one."
    )
    judge: dict[str, Any] | None = Field(
        None,
        description="`rubric` and `model`; also `choices`, `timeout`, `max_tokens`, `pricing`.",
        examples=[{"rubric": "Is it polite?", "model": "openai/gpt-5-mini"}],
    )
    formula: str | None = Field(
        None, min_length=1, max_length=4096, examples=["1 - min(1, cost / 0.05)"]
    )
    undefined: float | int | None = Field(
        None, description="What an undefined formula is worth; else it fails."
    )
    filter: TraceFilter = ""
    rate: float | int = Field(
        100, ge=0, le=100, description="Percent, drawn by a hash of the trace's id."
    )
    cap_cost: Dollars | None = Field(None, description="US dollars a day (UTC).")
    cap_count: int | None = Field(None, ge=1, le=2**53, description="Traces a day (UTC).")
    quiet: float | int = Field(0, ge=0, le=86_400, description="Seconds without new spans.")
    reserve: float | int | None = Field(
        None, ge=0, le=1e9, description="US dollars set aside for each trace; else by prices."
    )


class NewRule(RuleVersion):
    """A rule to be made."""

    name: str = Field(
        min_length=1,
        max_length=200,
        description="Up to 60 letters, digits, `_` and `-`.",
        examples=["polite"],
    )


class RuleDraft(RuleVersion):
    """A rule to be tried; it need not have a name."""

    name: str | None = Field(None, min_length=1, max_length=200)


class TriedRule(Told):
    """What a rule would make of the newest kept traces."""

    rule: str | None
    definition: dict[str, Any]
    asks: bool = Field(description="Whether it asks a model, and was not tried for that.")
    traces: int
    filtered: int
    drawn: int
    scores: dict[str, dict[str, Any]] = Field(description="Of some, by the traces' ids.")


class RuleCounts(Told):
    """How many traces it decided so; `waiting` is now."""

    scored: int
    failed: int
    filtered: int
    not_drawn: int
    capped: int
    waiting: int


class RuleDay(Told):
    """A day of a rule, UTC."""

    day: str
    scored: int
    failed: int
    filtered: int
    not_drawn: int
    capped: int
    spent: float
    reserved_count: int = Field(description="Traces that are being scored.")
    reserved_cost: float


class Rule(Told):
    """A rule with what it decided and spent."""

    name: str
    state: Literal["active", "paused", "deleted"]
    version: int
    owner: str
    created_at: Moment
    changed_at: Moment
    definition: dict[str, Any]
    counts: RuleCounts
    spent: float = Field(description="US dollars, since it was made.")
    today: RuleDay | None
    trouble: str | None = Field(description="What keeps it from scoring.")
    again_at: Moment | None = Field(description="When it is tried again.")


class OneRule(Told):
    """A rule."""

    rule: Rule


class KeptRuleVersion(Told):
    """What a rule said from then on."""

    number: int
    at: Moment
    author: str
    definition: dict[str, Any]


class RulePage(Listed[Rule]):
    """Rules by name."""


class RuleDecision(Told):
    """What a version of a rule decided of a version of a trace, and why."""

    trace: str
    trace_version: int
    rule_version: int
    decision: Decision
    reason: str
    at: Moment
    due_at: Moment | None = Field(description="When it will be scored, while it waits.")
    tries: int = Field(description="How often a judge did not answer.")
    backfill: int | None
    cost: float | None


class DecisionPage(Listed[RuleDecision]):
    """Decisions, newest first."""


class RuleSpending(Told):
    """Days on which something was decided, newest first."""

    rule: str
    spent: float
    days: list[RuleDay]


class NewBackfill(Asked):
    """A span of time: traces that began in it are scored by the rule as it is now."""

    since: Moment
    until: Moment


class BackfillPreview(Told):
    """What a backfill would come to."""

    since: Moment
    until: Moment
    traces: int
    filtered: int
    not_drawn: int
    decided: int = Field(description="By this version of the rule already.")
    to_score: int
    cost: float | None = Field(description="US dollars as expected; null where nobody knows.")
    cost_by: str
    left_count: int | None = Field(description="Room in today's cap of traces.")
    left_cost: float | None = Field(description="Room in today's cap of dollars.")


class Backfill(Told):
    """How far a backfill is."""

    id: int
    state: Literal["running", "done", "cancelled", "superseded"]
    job: str
    progress: float
    since: Moment
    until: Moment
    at: Moment
    expected: int
    expected_cost: float | None
    queued: int
    scored: int
    failed: int
    filtered: int
    not_drawn: int
    capped: int
    spent: float


class FoundBackfill(Told):
    """A backfill."""

    backfill: Backfill


class OneBackfill(Told):
    """A backfill: `preview` alone where only that was asked for."""

    backfill: Backfill | None = None
    preview: BackfillPreview | None = None


class WholeRule(Rule):
    """A rule with what it said and what it was set to do."""

    versions: list[KeptRuleVersion]
    backfills: list[Backfill]
    days: list[RuleDay] = Field(description="On which something was decided, newest first.")


class OneWholeRule(Told):
    """A rule."""

    rule: WholeRule


class BackfillPage(Listed[Backfill]):
    """Backfills of a rule, newest first."""

"""Attempts: entered, submitted, reported, withdrawn, made void."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field, model_validator

from tallymark.wire.parts import Asked, Handle, Listed, Moment, Reason, Told


class Entry(Asked):
    """Who enters a challenge. An agent's key speaks for its agent."""

    agent: Handle | None = None
    memoryless: bool = Field(False, description="The agent keeps nothing of earlier attempts.")
    attempt: str | None = Field(
        None, max_length=100, description="Only this open attempt, once more: none is begun."
    )


class SentSubmission(Asked):
    """An answer, what its competitor says of it, and what the agent did."""

    answer: Any = Field(description="A JSON value, a text, or names with texts of files.")
    agent: Handle | None = Field(None, description="Whose attempt it is, if that is not clear.")
    metadata: dict[str, Any] = Field(default_factory=dict, examples=[{"tokens_total": 1200}])
    trajectory: Any = Field(None, description="A trace, as JSON or as its text.")


class SentMetrics(Asked):
    """The numbers that a trusted system measured; a challenge may declare more."""

    model_config = ConfigDict(extra="allow", strict=True)

    succeeded: bool = False
    tokens_total: int | None = Field(None, ge=0, examples=[1200])
    elapsed_ms: int | None = Field(None, ge=0, examples=[5400])
    rating: float | int | None = Field(None, examples=[8])
    created_at: int | None = Field(None, ge=0, description="Milliseconds since 1970.")
    cost: float | int | None = Field(None, ge=0)
    calls: int | None = Field(None, ge=0)


class Report(Asked):
    """An attempt that a trusted system saw. In bulk: one such line each, as NDJSON."""

    agent: Handle
    metrics: SentMetrics
    key: str | None = Field(
        None, min_length=1, max_length=255, description="An idempotency key, for a line in bulk."
    )


class AttemptState(Told):
    """An attempt; the fields of the dimension document stand at its top."""

    id: str = Field(examples=["a000000000042"])
    challenge: str
    version: str
    agent: str
    number: int
    state: Literal["entered", "submitted", "scored", "failed", "expired", "withdrawn"]
    entered_at: Moment
    expires_at: Moment
    submitted_at: Moment | None = None
    scored_at: Moment | None = None
    score: float | None
    result: Literal["win", "draw", "loss"] | None = None
    waiting: str | None = Field(None, description="Why it is not scored yet, where we failed.")
    verified: bool = False
    memoryless: bool = False
    voided_at: Moment | None = None
    seed: int | None = Field(None, description="Told with the outcome, never before.")
    ranks: bool = False
    metrics: dict[str, Any] = Field(default_factory=dict)
    dimensions: dict[str, float] = Field(default_factory=dict)
    trajectory_level: Literal["none", "claimed", "consistent", "witnessed"] | None = None
    error: str | None = Field(None, description="Why it could not be scored.")
    origin: dict[str, Any] | None = Field(None, description="Which rule made the score.")
    score_breakdown: dict[str, Any] | None = None
    submission_warnings: list[dict[str, Any]] = Field(default_factory=list)
    constraint_violations: list[str] = Field(default_factory=list)
    harness_warning: str | None = None
    unverified: list[str] = Field(default_factory=list)
    unranked: str | None = Field(None, description="Why it is not on the board.")
    evaluation: dict[str, Any] = Field(default_factory=dict)
    dimension_score: float | None = Field(None, description="Of the dimensions alone.")
    constraint_effect: Literal["zero", "fail"] | None = None
    scorer: dict[str, Any] = Field(
        default_factory=dict, description="What a plugin or a formula told beside the score."
    )
    sandbox: dict[str, Any] = Field(
        default_factory=dict, description="Behind which walls code ran, within which limits."
    )
    warning: str | None = Field(None, description="Where code ran without a sandbox.")


class Entered(Told):
    """An open attempt, and the files that its competitor works with."""

    attempt: AttemptState
    goal: str
    data: dict[str, Any]
    challenge: dict[str, Any] = Field(
        default_factory=dict,
        description="In the version that is attempted: form of an answer, limits, scoring.",
    )
    seconds_left: float = Field(0.0, description="By the server's clock.")
    token: str = Field(
        description="Yours alone: spans with the attribute `tally.attempt` of this value, sent to"
        " /v1/traces while the attempt is open, are its witnessed trajectory."
    )


class AttemptToken(Told):
    """What makes spans the witnessed trajectory of an open attempt."""

    token: str


class AttemptForm(Told):
    """In which form, and how large, the answer of an attempt is taken."""

    submission: dict[str, Any]


class SubmissionState(Told):
    """What was submitted with an attempt."""

    attempt: str = Field(examples=["a000000000042"])
    challenge: str
    agent: str
    submitted_at: Moment | None = None
    format: Literal["json", "text", "files", "agent"] = Field(
        description="In which the answer was taken."
    )
    answer: Any = Field(description="A JSON value, a text, or names with texts of files.")
    metadata: dict[str, Any]
    trajectory: str | None = Field(None, description="A trace, as its text.")
    reported: dict[str, Any] | None = Field(
        None, description="The metrics that a trusted system sent in the place of an answer."
    )


class OneSubmission(Told):
    """What was submitted with an attempt."""

    submission: SubmissionState


class AttemptPage(Listed[AttemptState]):
    """Attempts, newest first."""


class WeightedPart(Told):
    """One dimension of a score."""

    score: float
    weight: float
    weighted: float


class RatingChange(Told):
    """An agent's Elo before and after."""

    before: int | None
    after: int
    provisional: bool = False


class DimensionLead(Told):
    """A dimension, here and with the one above."""

    key: str
    label: str
    mine: float = Field(description="0 to 1000, not weighed.")
    theirs: float
    points: float = Field(description="What they are ahead by in the whole score; negative: you.")


class Above(Told):
    """Who stands directly above on the board, and by what."""

    agent: str
    rank: int
    value: float | None
    gap: float | None
    leads: list[DimensionLead] = Field(description="Where they are most ahead comes first.")


class WholeAttempt(AttemptState):
    """An attempt; one that is asked for alone also has all that bears its score out."""

    audit: list[dict[str, Any]] = Field(default_factory=list, description="What happened to it.")
    history: list[dict[str, Any]] = Field(default_factory=list, description="Scores it has had.")
    explanation: str | None = Field(None, description="The formula with its values.")
    reason: str | None = Field(
        None, description="Why it could not be evaluated, in words that organisers alone are told."
    )
    rank: int | None = Field(None, description="The place of its agent on the board.")
    best: str | None = Field(None, description="The agent's attempt on the board.")
    above: Above | None = Field(None, description="For an agent's best attempt alone.")


class OneAttempt(Told):
    """An attempt."""

    attempt: WholeAttempt


class Finding(Told):
    """Something that a look at an answer finds; what is refused is a problem instead."""

    place: str
    message: str
    severity: Literal["warning", "note"]
    hint: str = ""


class Checked(Told):
    """An answer that would be taken, and what is to be said of it."""

    valid: bool
    findings: list[Finding] = Field(default_factory=list)


class Submitted(Told):
    """What became of a submission: the document's fields at the top, beside the attempt."""

    attempt: AttemptState
    score: float | None
    score_breakdown: dict[str, WeightedPart] | None
    result: Literal["win", "draw", "loss"] | None
    submission_warnings: list[dict[str, Any]]
    constraint_violations: list[Any]
    harness_warning: str | None
    rating: RatingChange | None
    rank: int | None
    best: str | None = Field(None, description="The agent's attempt on the board.")
    above: Above | None = Field(None, description="For an agent's best attempt alone.")
    job: str | None = Field(None, description="Where to look while it is being scored.")


class ReportLine(Told):
    """What became of one line of a bulk report."""

    line: int
    status: int
    attempt: str | None = None
    score: float | None = None
    problem: dict[str, Any] | None = None


class Withdrawal(Asked):
    """Giving up an open attempt, which is a loss."""

    agent: Handle | None = None
    reason: str | None = Field(None, max_length=2000)


class Act(Asked):
    """What an organiser does, and why."""

    reason: Reason


class Standing(Told):
    """One line of a board."""

    rank: int
    agent: str
    score: float | None
    value: float | None
    attempt: str | None
    tries: int | None = Field(
        None, description="How many of its attempts were scored: none that is void or failed."
    )
    submitted_at: Moment | None = None
    trajectory_level: Literal["none", "claimed", "consistent", "witnessed"] = "none"


class SideStanding(Standing):
    """One line of a board of red against blue: `score` is its ratio, `value` its points."""

    player: str
    side: Literal["red", "blue"] | None = Field(description="Null is both sides together.")
    points: int
    against: int
    ratio: float | None
    categories: dict[str, dict[str, int]]
    unjudged: int
    strength: dict[str, Any] | None = Field(description="With its 95 % interval and its floor.")


class Board(Listed[SideStanding | Standing]):
    """A board from the best down, or the places around an agent."""

    agents: int = Field(description="How many stand on it.")
    frozen_at: Moment | None = None
    names: dict[str, str] = Field(default_factory=dict, description="Display names by handle.")


class WhatIf(Asked):
    """Another rule to look at the board by; nothing changes."""

    formula: str | None = Field(None, min_length=1, max_length=4096, examples=["rating * 10"])
    weights: dict[str, float | int] | None = None
    config: dict[str, Any] | None = None
    around: Handle | None = None
    limit: int = Field(100, ge=1, le=1000)


class Supposed(Told):
    """The board by another rule."""

    items: list[dict[str, Any]]


class AgentElo(Told):
    """An agent's rating, and the matches that led to it."""

    rating: int
    matches: int
    wins: int
    draws: int
    losses: int
    provisional: bool = Field(description="Attempts wait to be scored or to expire.")


class AgentState(Told):
    """Who takes part."""

    handle: str
    name: str
    owner: str | None = None
    created_at: Moment
    disqualified_at: Moment | None = None


class WholeAgent(AgentState):
    """An agent; one that is asked for alone also has its rating and its places."""

    elo: AgentElo | None = None
    places: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Its line of every board that it is on, by challenge."
    )
    sides: dict[str, list[SideStanding]] = Field(
        default_factory=dict,
        description="The same of red against blue, on each side that it plays.",
    )


class OneAgent(Told):
    """An agent with its rating and places."""

    agent: WholeAgent


class AgentChange(Asked):
    """What boards show of an agent, and whose it is."""

    name: str | None = Field(None, min_length=1, max_length=200)
    owner: str | None = Field(None, min_length=1, max_length=100, description="Null: nobody's.")

    @model_validator(mode="after")
    def _something(self) -> AgentChange:
        if not self.model_fields_set or (self.model_fields_set == {"name"} and self.name is None):
            raise ValueError("give 'name' or 'owner'")
        return self


class AgentPage(Listed[AgentState]):
    """Agents by handle."""


class Ratings(Told):
    """Strengths of agents and difficulties of challenges, Elo beside the joint fit."""

    agents: dict[str, dict[str, Any]]
    challenges: dict[str, dict[str, Any]]
    comparable: bool
    frozen: list[str]

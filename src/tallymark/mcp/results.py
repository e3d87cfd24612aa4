"""What tools return: typed, so that a model sees names and meanings before it calls anything."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from pydantic import BaseModel, Field, WithJsonSchema

from tallymark.runs.record import RunRecord
from tallymark.wire.attempts import RatingChange, WeightedPart

Seconds = float | None


class ListedChallenge(BaseModel):
    """A challenge in one line."""

    challenge: str = Field(description="Its name, which other tools take as `challenge`.")
    title: str
    difficulty: str
    kind: str = Field(description="`solo`, or `versus` for red against blue.")
    open: bool = Field(description="Whether it can be entered now.")
    time_limit_seconds: float


class ChallengeList(BaseModel):
    """What can be competed in."""

    challenges: list[ListedChallenge]
    next_step: str


class ToldDimension(BaseModel):
    """What a part of the score looks at."""

    key: str
    label: str
    description: str
    weight: float = Field(description="Its share of the whole score, 0 to 1.")


class OpenAttempt(BaseModel):
    """An attempt whose clock runs."""

    attempt: str = Field(description="Its id, which other tools take as `attempt`.")
    seconds_left: float


class AnswerForm(BaseModel):
    """What an answer must look like."""

    format: str = Field(
        description="`json`: a JSON value; `text`: a text; `files`: names with texts;"
        " `agent`: a model's name."
    )
    max_bytes: int
    json_schema: dict[str, Any] | None = Field(description="The JSON Schema that it should meet.")


class ToldChallenge(BaseModel):
    """All that a competitor may know of a challenge before entering."""

    challenge: str
    title: str
    goal: str
    difficulty: str
    kind: str
    open: bool
    closes_in_seconds: Seconds = None
    opens_in_seconds: Seconds = None
    time_limit_seconds: float = Field(description="For one attempt, from entering to submitting.")
    attempts_allowed: int | None = Field(description="In all; null for any number.")
    attempts_allowed_a_day: int | None
    attempts_made: int | None = Field(None, description="By your agent.")
    rated: str | None = Field(
        description="Which attempts move your rating: `every` one, those `until_won`, or the"
        " `first` alone; null where none does."
    )
    answer: AnswerForm
    judged_by: str
    scored_by: str
    formula: str | None = None
    dimensions: list[ToldDimension]
    limits: dict[str, Any] = Field(description="What an attempt may use: tokens, calls, cost.")
    trajectory: str = Field(
        description="The least level of a trajectory: none, claimed, consistent or witnessed."
    )
    board_frozen: bool = Field(description="Whether the public board stands still.")
    open_attempt: OpenAttempt | None = None
    next_step: str


class Entered(BaseModel):
    """An attempt whose clock runs, with the data to work on."""

    attempt: str = Field(description="Its id: give it to check_answer and submit_answer.")
    agent: str
    goal: str
    data: dict[str, Any] = Field(description="The files of this attempt: names with contents.")
    answer: AnswerForm
    token: str = Field(
        description="Yours alone: OpenTelemetry spans with the attribute `tally.attempt` of this"
        " value, sent to /v1/traces of the server meanwhile, are a witnessed trajectory."
    )
    seconds_left: float
    next_step: str


class Checked(BaseModel):
    """What would become of an answer, as far as its form tells."""

    acceptable: bool
    findings: list[str] = Field(description="What is refused, would cost points, or is noted.")
    seconds_left: float
    next_step: str


class Submitted(BaseModel):
    """What became of an answer."""

    attempt: str
    state: str = Field(description="`scored`; or `submitted` while it is still being judged.")
    score: float | None
    result: str | None = Field(description="win, draw or loss.")
    breakdown: dict[str, WeightedPart] | None = Field(description="Points by dimension.")
    warnings: list[str]
    rank: int | None = Field(description="Your agent's place on the board.")
    rating: RatingChange | None
    next_step: str


class OwnAttempt(BaseModel):
    """One attempt of your agent."""

    attempt: str
    challenge: str
    number: int
    state: str
    score: float | None
    result: str | None
    seconds_left: Seconds = Field(None, description="Of an open attempt.")
    waiting: str | None = Field(None, description="Why it is not scored yet, where we failed.")


class OwnAttempts(BaseModel):
    """Your agent's attempts, newest first."""

    agent: str
    attempts: list[OwnAttempt]


class Place(BaseModel):
    """A line of a board."""

    rank: int
    agent: str
    value: float | None = Field(description="What the board is ordered by.")
    score: float | None
    attempts: int
    you: bool


class Board(BaseModel):
    """The places around an agent, or the first ones."""

    challenge: str
    ordered_by: str
    agents: int = Field(description="How many stand on it.")
    frozen: bool = Field(description="Whether it stands still, and later attempts do not show.")
    places: list[Place]


class DimensionLead(BaseModel):
    """A dimension, here and with the one above."""

    key: str
    label: str
    yours: float = Field(description="0 to 1000, not weighed.")
    theirs: float
    points: float = Field(description="What they are ahead by in the whole score; negative: you.")


class Above(BaseModel):
    """Who stands directly above, and by what."""

    agent: str
    rank: int
    value: float | None
    gap: float | None
    dimensions: list[DimensionLead] = Field(description="Where they are most ahead comes first.")


class Explained(BaseModel):
    """Why an attempt has its score, and why none higher."""

    attempt: str
    challenge: str
    agent: str
    state: str
    score: float | None
    result: str | None
    error: str | None = Field(description="Why there is no score, where there is none.")
    breakdown: dict[str, WeightedPart] | None
    formula: dict[str, Any] | None = Field(description="The formula with this attempt's values.")
    metrics: dict[str, Any]
    warnings: list[str]
    trajectory: str = Field(description="none, claimed, consistent or witnessed.")
    trajectory_problems: list[str]
    rank: int | None
    is_best: bool = Field(description="Whether it is the agent's attempt on the board.")
    above: Above | None


class FormulaChecked(BaseModel):
    """What is wrong with a formula, or what its scores can be."""

    valid: bool
    formula: str
    names: list[str]
    problems: list[str]
    findings: list[str]


class FormulaExplained(BaseModel):
    """A formula with values."""

    formula: str
    substituted: str = Field(description="The formula with numbers in the place of names.")
    score: float | None
    score_error: str | None
    terms: list[dict[str, Any]] = Field(description="What each term contributes, and its share.")


ShownRun = Annotated[
    dict[str, Any],
    WithJsonSchema(msgspec.json.schema_components([RunRecord])[1]["RunRecord"]),
]


class RunList(BaseModel):
    """Runs of a suite, one for each model and prompt."""

    runs: list[ShownRun]
    finished: bool
    next_step: str


class RunRead(BaseModel):
    """A run, and the first cases that did not pass."""

    run: ShownRun
    not_passed: list[dict[str, Any]] = Field(
        description="Each with `case`, `status`, `error` and `checks` with the reason of each."
    )


class Comparisons(BaseModel):
    """Runs against the first of them: `verdict.outcome`, `verdict.reason` and `changes` of each."""

    comparisons: list[dict[str, Any]]

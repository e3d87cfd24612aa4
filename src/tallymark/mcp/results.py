"""Return types of tools: a model sees their names and meanings before it calls anything."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from pydantic import BaseModel, Field, WithJsonSchema

from tallymark.runs.record import RunRecord

Seconds = float | None


class ChallengeList(BaseModel):
    """Challenges that are open to competitors."""

    challenges: list[dict[str, Any]] = Field(
        description="Each with `name`, which other tools take as `challenge`, `title`,"
        " `difficulty`, `kind` (`solo`, or `versus` for red against blue), `state` (`open` can be"
        " entered) and `time_limit_s`."
    )
    next_step: str


class ReadChallenge(BaseModel):
    """Everything that a competitor may know of a challenge before entering."""

    challenge: dict[str, Any] = Field(
        description="Its record: `goal`, `submission` (the form of an answer, with the JSON Schema"
        " that it should meet as `schema`), `scoring`, `constraints`, `time_limit_s`, `attempts`"
        " allowed in all, `trajectory` (the least level that ranks), `rated` (which attempts move a"
        " rating), `state`, `opens_at` and `closes_at`."
    )
    dimensions: list[dict[str, Any]] = Field(
        description="What the parts of the score look at, each with its `weight`."
    )
    attempts_made: int | None = Field(None, description="By your agent.")
    open_attempt: str | None = Field(None, description="The id of your attempt that is open.")
    seconds_left: Seconds = Field(None, description="Of the open attempt.")
    next_step: str


class Entered(BaseModel):
    """An attempt whose clock runs, with the data to work on."""

    entered: dict[str, Any] = Field(
        description="`attempt` (give its `id` to check_answer and submit_answer), `goal`, `data`"
        " (names of files with contents), `challenge` (`submission` is the form of an answer),"
        " `seconds_left`, and `token`: OpenTelemetry spans with the attribute `tally.attempt` of"
        " this value, sent to /v1/traces of the server meanwhile, are a witnessed trajectory."
    )
    next_step: str


class Checked(BaseModel):
    """Result of checking the form of an answer."""

    acceptable: bool
    findings: list[dict[str, Any]] = Field(
        description="Each with `place`, `message`, `severity` (error: refused; warning: may cost"
        " points; note) and `hint`."
    )
    seconds_left: float
    next_step: str


class Submitted(BaseModel):
    """Result of a submission."""

    submitted: dict[str, Any] = Field(
        description="`attempt` with its `state` (`scored`; or `submitted` while it is still being"
        " judged), `score`, `result` (win, draw or loss), `score_breakdown`,"
        " `submission_warnings`, `rating` before and after, your agent's `rank`, and `above`: who"
        " stands above, and by what."
    )
    next_step: str


class OwnAttempts(BaseModel):
    """Your agent's attempts, newest first."""

    agent: str
    attempts: list[dict[str, Any]] = Field(
        description="Each with `id`, `challenge`, `number`, `state`, `score`, `result`, and"
        " `waiting`: why it is not scored yet, where we failed."
    )
    seconds_left: dict[str, float] = Field(description="Of open attempts, by their ids.")


class ShownBoard(BaseModel):
    """A part of a board."""

    ordered_by: str = Field(description="What `value` is.")
    you: str | None = Field(description="The handle of your agent.")
    board: dict[str, Any] = Field(
        description="The places in `items`, each with `rank`, `agent`, `score`, `value`, `attempt`"
        " and `tries`; `agents` on the whole board; `frozen_at`, if later attempts do not show."
    )


class Explained(BaseModel):
    """Reasons for the score of an attempt, and for the points that it lost."""

    attempt: dict[str, Any] = Field(
        description="Its record: `score`, `result`, `error` (why there is no score),"
        " `score_breakdown` (points by dimension), `explanation` (the formula with this attempt's"
        " values), `metrics`, `submission_warnings`, `constraint_violations`, `trajectory_level`"
        " and why it is not higher (`unverified`), `rank` and `best` (the agent's place and its"
        " attempt on the board), `above` (who stands directly above, and by what), `audit`."
    )


class FormulaChecked(BaseModel):
    """Mistakes in a formula, or the range of its scores."""

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

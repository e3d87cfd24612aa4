"""Challenges: published, listed, closed, frozen, scored by another rule; tracks of several."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from tallymark.wire.parts import Asked, Handle, Listed, Moment, Reason, Told

ChallengeName = Annotated[
    str, Field(min_length=1, max_length=200, examples=["log-detective"], description="Its name.")
]


class NewChallenge(Asked):
    """A challenge of reported attempts, as the plugin document sets one up."""

    name: str = Field(min_length=1, max_length=200, examples=["Advanced Prompt Challenge"])
    title: str | None = Field(None, max_length=500)
    goal: str = Field("Attempts are reported by a trusted system.", max_length=100_000)
    difficulty: Literal["newcomer", "contender", "veteran", "legendary"] = "contender"
    visibility: Literal["public", "private"] = "private"
    scoring_strategy: Literal["first", "fastest", "fewest_tokens", "highest_rating", "custom"] = (
        "custom"
    )
    scoring_plugin_id: str | None = Field(None, examples=["builtin.weighted_scorer"])
    scoring_entrypoint: str | None = Field(
        None, examples=["services.scorers.weighted:WeightedScorer"]
    )
    scoring_config: dict[str, Any] = Field(default_factory=dict)
    scoring_formula: str | None = Field(None, min_length=1, max_length=4096)
    metrics: list[str] = Field(
        default_factory=list, max_length=200, description="Own metrics that reports may have."
    )
    attempts: int | None = Field(None, ge=1)
    attempts_per_day: int | None = Field(None, ge=1)


class ChallengeState(Told):
    """A challenge as competitors see it."""

    name: str
    title: str
    goal: str
    version: str
    difficulty: str
    kind: str
    rated: Literal["every", "until_won", "first"] | None = Field(
        None, description="Which of an agent's attempts move its rating; null where none does."
    )
    time_limit_s: float = 3600.0
    attempts: int | None = Field(None, description="How many an agent may make; null is any.")
    attempts_per_day: int | None = None
    opens_at: Moment | None = None
    closes_at: Moment | None = None
    freezes_at: Moment | None = None
    closed: Moment | None = Field(None, description="Since when it takes no more entries.")
    frozen: Moment | None = Field(None, description="Since when the public board stands still.")
    constraints: dict[str, Any] = Field(default_factory=dict)
    trajectory: Literal["none", "claimed", "consistent", "witnessed"] = Field(
        "none", description="The least that an attempt on the board must have."
    )
    submission: dict[str, Any] = Field(
        default_factory=dict, description="The form of an answer; empty is JSON of up to 1 MB."
    )
    evaluator: dict[str, Any]
    scoring: dict[str, Any] = Field(default_factory=dict)
    public: list[str] = Field(default_factory=list, description="Files that competitors get.")
    versus: dict[str, Any] | None = Field(None, description="Of red against blue: categories.")
    visibility: Literal["public", "private"] = "private"
    one_per: Literal["agent", "owner"] = "agent"


class OneChallenge(Told):
    """A challenge."""

    challenge: ChallengeState


class ChallengePage(Listed[ChallengeState]):
    """Challenges by name."""


class ChallengeChange(Asked):
    """What an organiser does to a challenge by hand."""

    closed: bool | None = None
    frozen: bool | None = None
    name: str | None = Field(None, description="Another name, and so another address.")
    reason: Reason

    @model_validator(mode="after")
    def _something(self) -> ChallengeChange:
        if self.closed is None and self.frozen is None and self.name is None:
            raise ValueError("give 'closed' or 'frozen', true or false, or a new 'name'")
        return self


Strategy = Literal["first", "fastest", "fewest_tokens", "highest_rating", "custom"]


class Rescore(Asked):
    """Another rule for a challenge; what is not named stays as it is."""

    strategy: Strategy | None = None
    plugin: str | None = Field(None, min_length=1, max_length=500)
    formula: str | None = Field(None, min_length=1, max_length=4096)
    config: dict[str, Any] | None = None
    weights: dict[str, float | int] | None = None


class Rescored(Told):
    """Who moves, and what changes."""

    challenge: str
    version: str
    rule: str
    attempts: int
    changed: int | None
    undefined: int = Field(description="Attempts that the rule gives no score.")
    moved: int | None = Field(None, description="Agents; only a preview tells.")


class Resume(Asked):
    """Whom a plugin scores again; everybody who is paused, if nobody is named."""

    agent: Handle | None = None


class Resumed(Rescored):
    """What was scored again, and who was paused again by it."""

    paused_again: list[str]


class Pause(Told):
    """An agent whose attempts ended a plugin's process too often to be scored."""

    challenge: str
    agent: str
    plugin: str
    since: Moment
    deadly: int = Field(description="How many attempts did.")
    reason: str


class PausePage(Listed[Pause]):
    """Pauses by challenge and agent."""

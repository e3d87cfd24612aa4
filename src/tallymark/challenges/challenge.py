"""`Challenge`: the checked content of `challenge.yaml`; the same when read back from JSON."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from tallymark.challenges.attempt import TrajectoryLevel
from tallymark.challenges.strategies import STRATEGIES
from tallymark.sandbox.limits import DEFAULT_PLUGIN_TIMEOUT_S

Tier = Literal["newcomer", "contender", "veteran", "legendary"]
Rated = Literal["every", "until_won", "first"]
Visibility = Literal["public", "private"]
OnePer = Literal["agent", "owner"]
JudgeType = Literal["script", "judge", "scorer"]
OnViolation = Literal["note", "zero", "fail"]
SubmissionFormat = Literal["json", "text", "files", "agent"]
# The table's own names: what is read from JSON is one of them, and a default is left out again.
if TYPE_CHECKING:
    StrategyName = str
else:
    StrategyName = Literal[tuple(STRATEGIES)]


MAX_NAME = 100


def make_slug(text: str) -> str:
    """A name made from a title, Advanced Prompt -> advanced-prompt; empty where that cannot be."""
    slug = "-".join(re.findall(r"[a-z0-9]+", text.lower()))
    return slug if len(slug) <= MAX_NAME else ""


class MatchTerms(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a challenge's matches; part of its JSON."""

    difficulty: Tier = "contender"
    kind: Literal["solo", "versus"] = "solo"
    rated: Rated | None = None
    generate: str | None = None

    @property
    def rule(self) -> Rated:
        """Which attempts are matches. Data that repeat can be learnt, so a win is worth one."""
        return self.rated or ("every" if self.generate is not None else "until_won")


class Constraints(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Limits of an attempt, checked on its trajectory. None means unlimited."""

    tokens: int | None = None
    calls: int | None = None
    """Model and tool calls together."""
    cost: float | None = None
    tools: tuple[str, ...] | None = None
    """The tools that may be called; None allows any."""
    on_violation: OnViolation = "note"
    """Consequence of exceeding a limit: none, a score of 0, or no score."""


class Submission(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Type of submission. `files` is a mapping of names to texts; `agent` is a model's name."""

    format: SubmissionFormat = "json"
    max_bytes: int = 1_000_000
    schema: dict[str, Any] | None = None
    """A JSON Schema; what does not fit is warned of, and scores 0 in `schema_dimension`."""
    schema_dimension: str | None = None


class Evaluator(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Evaluator of submissions: its type and checked options."""

    type: str
    """A name in the table of evaluators."""
    options: dict[str, Any] = msgspec.field(default_factory=dict)


class DimensionWeight(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One weighted dimension: a core or efficiency key, or an own one with label and colour."""

    key: str
    weight: float
    label: str | None = None
    description: str | None = None
    color: str | None = None


class ScoringRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Scoring of an evaluated attempt, and the order of the board.

    At most one of plugin and formula; either may be combined with dimensions, whose values a
    formula may use by their keys and as `total`.
    """

    strategy: StrategyName = "custom"
    plugin: str | None = None
    formula: str | None = None
    dimensions: tuple[DimensionWeight, ...] = ()
    config: dict[str, Any] = msgspec.field(default_factory=dict)
    timeout_ms: int = round(DEFAULT_PLUGIN_TIMEOUT_S * 1000)


class VersusJudge(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Judge of attacks: a script, a model, or a scorer by its name."""

    type: JudgeType
    options: dict[str, Any] = msgspec.field(default_factory=dict)


class Versus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Red attacks, blue defends: the categories that each pairing is judged in."""

    categories: tuple[str, ...]
    judge: VersusJudge


class PublicChallenge(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of a challenge that competitors may know. Equal versions score alike."""

    name: str
    title: str
    goal: str
    version: str
    difficulty: Tier = "contender"
    kind: Literal["solo", "versus"] = "solo"
    rated: Rated | None = None
    """Which of an agent's attempts are matches."""
    time_limit_s: float = 3600.0
    attempts: int | None = None
    """Maximum number of attempts of an agent; None means unlimited."""
    attempts_per_day: int | None = None
    opens_at: float | None = None
    closes_at: float | None = None
    freezes_at: float | None = None
    """From then on the public board stands still; attempts are still scored."""
    constraints: Constraints = Constraints()
    trajectory: TrajectoryLevel = "none"
    """The least that an attempt on the board must have."""
    submission: Submission = Submission()
    evaluator: Evaluator
    scoring: ScoringRule = ScoringRule()
    public: tuple[str, ...] = ()
    """Files of the folder that competitors get."""
    versus: Versus | None = None
    visibility: Visibility = "private"
    """Who may read it on a server without a key: everyone or no one."""
    one_per: OnePer = "agent"
    """Rows of the board: every agent, or the best agent of each owner."""


class Challenge(PublicChallenge, frozen=True, kw_only=True, omit_defaults=True):
    """One challenge as its `challenge.yaml` defines it. `version` is the hash of its folder.

    None as `rated` leaves it to `match_rule`.
    """

    generate: str | None = None
    """A script of the folder that makes the data and the truth from a seed, in the sandbox."""
    reference: str | None = None
    """The file of an answer that ought to do well; for `tally challenge check` alone."""

    @property
    def match_rule(self) -> Rated | None:
        """Which of an agent's attempts move its rating; None where none does."""
        solo = self.kind == "solo"
        return MatchTerms(rated=self.rated, generate=self.generate).rule if solo else None

    @property
    def generated(self) -> bool:
        """True if every attempt gets its own data, generated from a seed."""
        return self.generate is not None

    def find_terms(self) -> dict[str, Any]:
        """Return the fields of `PublicChallenge`, without options, which may hold the truth."""
        versus = self.versus
        if versus is not None:
            versus = msgspec.structs.replace(versus, judge=VersusJudge(type=versus.judge.type))
        return {
            **{name: getattr(self, name) for name in PublicChallenge.__struct_fields__},
            "rated": self.match_rule,  # the rule depends on `generate`, which is hidden
            "evaluator": Evaluator(type=self.evaluator.type),
            "versus": versus,
        }

    def to_public(self) -> dict[str, Any]:
        """Return the terms as JSON."""
        document: dict[str, Any] = msgspec.to_builtins(PublicChallenge(**self.find_terms()))
        return document


class PluginPause(msgspec.Struct, frozen=True, kw_only=True):
    """An agent whose attempts a plugin does not score any more."""

    challenge: str
    agent: str
    plugin: str
    """Name in the challenge."""
    code_hash: str
    deadly: int
    """Its attempts that ended the plugin's process."""
    since: float
    reason: str
    """End of the last one."""

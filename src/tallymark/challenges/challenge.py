"""`Challenge`: what `challenge.yaml` says, checked; the same when read back from JSON."""

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
    """What a version of a challenge says of its attempts as matches: a part of its JSON."""

    difficulty: Tier = "contender"
    kind: Literal["solo", "versus"] = "solo"
    rated: Rated | None = None
    generate: str | None = None

    @property
    def rule(self) -> Rated:
        """Which attempts are matches. Data that repeat can be learnt, so a win is worth one."""
        return self.rated or ("every" if self.generate is not None else "until_won")


class Constraints(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an attempt may use; checked on its trajectory. None means no bound."""

    tokens: int | None = None
    calls: int | None = None
    """Model and tool calls together."""
    cost: float | None = None
    tools: tuple[str, ...] | None = None
    """The tools that may be called; None allows any."""
    on_violation: OnViolation = "note"
    """What going beyond a bound does to an attempt: nothing, a score of 0, or no score."""


class Submission(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What may be submitted. `files` is a mapping of names to texts; `agent` is a model's name."""

    format: SubmissionFormat = "json"
    max_bytes: int = 1_000_000
    schema: dict[str, Any] | None = None
    """A JSON Schema; what does not fit is warned of, and scores 0 in `schema_dimension`."""
    schema_dimension: str | None = None


class Evaluator(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a submission is judged: the type, and that type's own options, already checked."""

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
    """How an evaluated attempt becomes a number, and what the board is ordered by.

    At most one of plugin and formula; either may stand beside dimensions, whose values a formula
    may use by their keys and as `total`.
    """

    strategy: StrategyName = "custom"
    plugin: str | None = None
    formula: str | None = None
    dimensions: tuple[DimensionWeight, ...] = ()
    config: dict[str, Any] = msgspec.field(default_factory=dict)
    timeout_ms: int = round(DEFAULT_PLUGIN_TIMEOUT_S * 1000)


class VersusJudge(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who says whether a defence was breached: a script, a model, or a scorer by its name."""

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
    """How many attempts an agent may make in all; None means as many as it likes."""
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
    """Who may read it on a server without a key: anybody, or nobody."""
    one_per: OnePer = "agent"
    """What the board shows: every agent, or of each owner the best one."""


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
        """Whether every attempt gets data of its own, made from a seed."""
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
    """As the challenge calls it."""
    code_hash: str
    deadly: int
    """Its attempts that ended the plugin's process."""
    since: float
    reason: str
    """How the last of them ended."""

"""`AttemptFormula`: a formula that scores attempts, as `scoring.formula` or as a plugin.

Here stands what it may name, which values an attempt gives those names, and which score comes of
them: live, when attempts are scored again, and where the store works its SQL out from it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from tallymark.challenges.dimension_scores import weighted_dimensions
from tallymark.dimensions import breakdown
from tallymark.dimensions.dimension import to_fraction
from tallymark.errors import FormulaError, Problem, ScorerError
from tallymark.formula import Formula, Names, Variable
from tallymark.sandbox.limits import DEFAULT_PLUGIN_TIMEOUT_S
from tallymark.scoring import Origin, Score
from tallymark.scoring.plugin_contract import require_mapping
from tallymark.scoring.score import show_value

if TYPE_CHECKING:
    from tallymark.challenges.attempt import Attempt, Metrics, Outcome
    from tallymark.challenges.challenge import Challenge, PublicChallenge, ScoringRule

METRICS = (
    Variable("succeeded", "eval", 0.0, 1.0),
    Variable("tokens_total", "number", 0.0),
    Variable("elapsed_ms", "latency", 0.0),
    Variable("elapsed_s", "latency", 0.0),
    Variable("rating", "number", 0.0, math.inf),
    Variable("cost", "cost", 0.0),
    Variable("calls", "number", 0.0),
    Variable("number", "number", 1.0),
    Variable("created_at", "number", 0.0),
)
"""Variables of every attempt. `number` is 1 for an agent's first attempt."""
PLUGIN_PREFIX = "formula:"
"""Prefix of a plugin reference that is a formula."""


def formula_names(dimensions: Sequence[str], own: Sequence[str]) -> Names:
    """The metrics, the dimensions with their `total`, and the evaluator's own metrics."""
    Names.of(own)  # refuses what is no name
    groups = [
        ("a metric", METRICS),
        ("a dimension", [Variable(key, "number", 0.0, 1000.0) for key in dimensions]),
        ("the dimensions' total", [Variable("total", "number", 0.0, 1000.0)] if dimensions else []),
        ("a metric of the evaluator", [Variable(name) for name in own]),
    ]
    found: dict[str, tuple[str, Variable]] = {}
    for what, variables in groups:
        for each in variables:
            if each.name in found:
                first = found[each.name][0]
                message = f"the name '{each.name}' is {first} and also {what}"
                raise FormulaError([Problem(message, hint="rename one of them")])
            found[each.name] = (what, each)
    return Names(variable for _, variable in found.values())


def challenge_formula(challenge: Challenge) -> AttemptFormula:
    """The `scoring.formula` of a challenge, which must have one."""
    keys = tuple(each.key for each in challenge.scoring.dimensions)
    own = tuple(challenge.evaluator.options.get("metrics", ()))
    return _parse_formula(challenge.scoring.formula or "", keys, own)


def explain_score(challenge: Challenge, attempt: Attempt) -> str | None:
    """The formula with an attempt's values; None where the score is not the formula's."""
    outcome = attempt.outcome
    # A score of 0 for a broken constraint is not.
    if not challenge.scoring.formula or outcome is None or "constraint_effect" in outcome.details:
        return None
    if not is_by_rule_of(challenge, outcome):
        return None
    rule = challenge_formula(challenge)
    return rule.formula.explain(rule.values_of(challenge, attempt)).render()


def hash_rule(scoring: ScoringRule) -> str:
    """Equal for equal rules, in whichever order a file gives their keys."""
    return hashlib.sha256(msgspec.json.encode(scoring, order="sorted")).hexdigest()[:12]


def is_by_rule_of(challenge: Challenge, outcome: Outcome) -> bool:
    """True if the challenge's current rule made the score; another rule cannot explain it."""
    origin = outcome.origin
    return (
        origin is None
        or origin.config.get("challenge_version") in (None, challenge.version)
        or origin.version == hash_rule(challenge.scoring)
    )


@lru_cache(maxsize=64)
def _parse_formula(text: str, dimensions: tuple[str, ...], own: tuple[str, ...]) -> AttemptFormula:
    return AttemptFormula(Formula.parse(text, formula_names(dimensions, own)))


def parse_formula_plugin(reference: str) -> AttemptFormula:
    """A plugin that is a formula; it knows no challenge, so it has the metrics of every attempt."""
    text = reference.removeprefix(PLUGIN_PREFIX).strip()
    return AttemptFormula(Formula.parse(text, Names(METRICS)), as_plugin=True)


def formula_values(
    metrics: Metrics, number: int, dimensions: Mapping[str, float], total: float | None
) -> dict[str, Any]:
    """One attempt's values by name; None is unknown."""
    return {
        "total": total,
        **metrics.more,
        **dimensions,
        "succeeded": metrics.succeeded,
        "tokens_total": metrics.tokens_total,
        "elapsed_ms": metrics.elapsed_ms,
        "rating": metrics.rating,
        "cost": metrics.cost,
        "calls": metrics.calls,
        "number": number,
        "created_at": metrics.created_at,
    }


def total_of(challenge: PublicChallenge, dimensions: Mapping[str, float]) -> float | None:
    """The weighted total of dimensions as they count; None when there are none."""
    if not (challenge.scoring.dimensions and dimensions):
        return None
    weighted = weighted_dimensions(challenge.scoring.dimensions)
    return float(breakdown(weighted, dimensions).total)


class AttemptFormula:
    """Scores attempts by a formula behind the `Plugin` protocol; it needs no sandbox.

    An attempt without a metric that the formula needs has no score, with the reason. The number
    counts as it is, also below 0: only plugin code is clamped at 0.
    """

    kind: Literal["formula"] = "formula"

    def __init__(self, formula: Formula, *, as_plugin: bool = False) -> None:
        self.formula = formula
        self._as_plugin = as_plugin

    @cached_property
    def name(self) -> str:
        return f"{PLUGIN_PREFIX} {self.formula}"

    @cached_property
    def code_hash(self) -> str:
        return hashlib.sha256(str(self.formula).encode()).hexdigest()

    def read_values(self, metrics: Mapping[str, Any]) -> dict[str, float | None]:
        """The values of the names that it uses; None is unknown."""
        return {name: _read_value(name, metrics) for name in self.formula.names}

    def values_of(self, challenge: PublicChallenge, attempt: Attempt) -> dict[str, float | None]:
        """Variables of a scored attempt."""
        outcome = attempt.outcome
        if outcome is None:
            return dict.fromkeys(self.formula.names)
        total = total_of(challenge, outcome.dimensions) if "total" in self.formula.names else None
        found = formula_values(outcome.metrics, attempt.number, outcome.dimensions, total)
        return self.read_values(found)

    def score(
        self,
        metrics: Mapping[str, Any],
        config: Mapping[str, Any],
        ctx: Mapping[str, Any],  # noqa: ARG002 (a formula looks at no context)
        timeout_s: float = DEFAULT_PLUGIN_TIMEOUT_S,  # noqa: ARG002 (and takes no time)
    ) -> Score:
        origin = self._origin(config)
        try:
            self._check_config(config)
            values = self.read_values(metrics)
        except ScorerError as error:
            return self._make_undefined(str(error), origin)
        return self._make_score(self.formula.evaluate(values), values, origin)

    def score_many(
        self,
        attempts: Sequence[Mapping[str, Any]],
        config: Mapping[str, Any],
        ctx: Mapping[str, Any],
        timeout_s: float = DEFAULT_PLUGIN_TIMEOUT_S,
        users: Sequence[str | None] | None = None,  # noqa: ARG002 (formulas know no users)
    ) -> list[Score]:
        try:
            self._check_config(config)
            rows = [self.read_values(metrics) for metrics in attempts]
        except ScorerError:  # rare enough to go the slow way
            return [self.score(metrics, config, ctx, timeout_s) for metrics in attempts]
        columns = {name: [row[name] for row in rows] for name in self.formula.names}
        # A formula without names gets a column that it does not use, for the number of rows.
        found = self.formula.evaluate_many(columns or {"succeeded": [0.0] * len(rows)})
        origin = self._origin(config)
        return [
            self._make_score(value if value == value else None, row, origin)  # noqa: PLR0124 (NaN, where it is undefined)
            for value, row in zip(found.values.tolist(), rows, strict=True)
        ]

    def _origin(self, config: Mapping[str, Any]) -> Origin:
        return Origin(self.name, self.code_hash, dict(require_mapping("config", config)))

    def _check_config(self, config: Mapping[str, Any]) -> None:
        if self._as_plugin and config:
            raise ScorerError(
                f"a formula takes no config, and there is {next(iter(config))!r}",
                hint="write its number into the formula",
            )

    def _make_score(
        self, value: float | None, values: dict[str, float | None], origin: Origin
    ) -> Score:
        if value is None:
            return self._make_undefined(self.formula.reason(values) or "it is undefined", origin)
        return Score(value, origin=origin)

    def _make_undefined(self, reason: str, origin: Origin) -> Score:
        if self._as_plugin:
            return Score(None, "", {"stopped": "undefined"}, reason, None, origin)
        instead = to_fraction(origin.config.get("undefined"))
        if instead is None:
            return Score(None, error=f"the formula has no value: {reason}", origin=origin)
        return Score(float(instead), metadata={"undefined": reason}, origin=origin)


def _read_value(name: str, metrics: Mapping[str, Any]) -> float | None:
    if name == "elapsed_s":
        # As a float first, which is what a database divides.
        elapsed_ms = _read_value("elapsed_ms", metrics)
        return None if elapsed_ms is None else elapsed_ms / 1000
    value = metrics.get(name)
    if value is None or value.__class__ is float:
        return value
    try:
        if isinstance(value, int | float):
            return float(value)
    except OverflowError:
        pass
    raise ScorerError(f"the metric {name} is a finite number, not {show_value(value)}")

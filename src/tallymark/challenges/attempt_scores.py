"""`score_attempt`: from an evaluation to score and result, with everything needed to check them.

With dimensions, the result and `succeeded` come from their shown score; otherwise a successful
attempt is a win. A formula or a plugin replaces the score. An attempt that violates a constraint
scores 0 or fails, as the challenge says, and is a loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from tallymark.challenges.attempt import Attempt, Evaluation, Metrics, Outcome, reaches
from tallymark.challenges.attempt_formula import challenge_formula, formula_values, hash_rule
from tallymark.challenges.dimension_scores import weigh_dimensions
from tallymark.challenges.evaluators import find_evaluator
from tallymark.challenges.plugins.plugin import SandboxedPlugin
from tallymark.challenges.strategies import STRATEGIES
from tallymark.challenges.trajectory import Verification
from tallymark.errors import InvalidInput, PluginNotLoaded, ScorerError
from tallymark.sandbox.limits import NOT_LOADED
from tallymark.scoring import Origin, Score
from tallymark.scoring.score import make_json_safe

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge
    from tallymark.challenges.plugins.plugin import Plugin
    from tallymark.dimensions import Breakdown

APP_ID = "tallymark"
FindBroken: TypeAlias = Callable[[Attempt], tuple[str, ...] | None]
"""The bounds that a stored attempt passed; None when what it used is not known any more."""


@dataclass(frozen=True, slots=True)
class WeighedAttempt:
    """An attempt before its score: metrics, and the breakdown of its dimensions if it has any."""

    attempt: Attempt
    metrics: Metrics
    breakdown: Breakdown | None
    details: dict[str, Any]
    shown: Verification
    error: str | None = None
    zeroed: bool = False
    """It went beyond a constraint, and that is a score of 0."""

    @property
    def dimensions(self) -> dict[str, float]:
        """Effective values: within 0-1000, and 0 where a warning says so."""
        parts = self.breakdown.parts if self.breakdown else ()
        return {part.dimension.key: float(part.score) for part in parts}

    @property
    def formula_values(self) -> dict[str, Any]:
        """Names available to a formula."""
        total = float(self.breakdown.total) if self.breakdown is not None else None
        return formula_values(self.metrics, self.attempt.number, self.dimensions, total)

    @property
    def plugin_metrics(self) -> dict[str, Any]:
        """The document's five, then cost and calls, the evaluator's own, and the dimensions."""
        metrics = self.metrics
        rating = metrics.rating  # a whole number in the plugin document, where it can be one
        given: dict[str, Any] = {
            **metrics.more,
            "succeeded": metrics.succeeded,
            "tokens_total": metrics.tokens_total,
            "elapsed_ms": metrics.elapsed_ms,
            "rating": int(rating) if rating is not None and float(rating).is_integer() else rating,
            "created_at": metrics.created_at,
            "cost": metrics.cost,
            "calls": metrics.calls,
            "dimensions": self.dimensions or None,
        }
        return {name: value for name, value in given.items() if value is not None}

    @property
    def result(self) -> Literal["win", "draw", "loss"]:
        if self.zeroed:
            return "loss"
        if self.breakdown is not None:
            return self.breakdown.result
        return "win" if self.metrics.succeeded else "loss"


def score_attempt(
    challenge: Challenge,
    evaluation: Evaluation,
    *,
    attempt: Attempt,
    plugin: Plugin | None = None,
    trajectory: Verification | None = None,
    tenant: str = "default",
) -> Outcome:
    """Score one attempt. Any failure is in its `error`, never a silent 0."""
    pairs, shown = [(attempt, evaluation)], [trajectory]
    return score_attempts(challenge, pairs, plugin, trajectories=shown, tenant=tenant)[0]


def score_attempts(
    challenge: Challenge,
    pairs: Sequence[tuple[Attempt, Evaluation]],
    plugin: Plugin | None = None,
    *,
    trajectories: Sequence[Verification | None] | None = None,
    find_broken: FindBroken | None = None,
    tenant: str = "default",
) -> list[Outcome]:
    """Score many attempts; findings on trajectories are taken from the earlier outcomes.

    Unless they are given. `find_broken` finds violated constraints if the constraints have
    changed.
    """
    shown = [None] * len(pairs) if trajectories is None else trajectories
    weighed = [
        _weigh_attempt(challenge, evaluation, attempt, trajectory, find_broken)
        for (attempt, evaluation), trajectory in zip(pairs, shown, strict=True)
    ]
    return _make_outcomes(challenge, weighed, plugin, tenant)


def elapsed_ms(attempt: Attempt) -> int | None:
    """From entry to submission by the server's clock; None before it is submitted."""
    if attempt.submitted_at is None:
        return None
    # Rounded first: of moments that are floats, 0.29 s would be 289.99996 ms, and count as 289.
    return max(0, math.floor(round((attempt.submitted_at - attempt.entered_at) * 1000, 2)))


def _weigh_attempt(
    challenge: Challenge,
    evaluation: Evaluation,
    attempt: Attempt,
    trajectory: Verification | None,
    find_broken: FindBroken | None = None,
) -> WeighedAttempt:
    metrics = _complete_metrics(challenge, evaluation, attempt, trajectory)
    shown = _recall_verification(attempt, trajectory, find_broken)
    effect = challenge.constraints.on_violation if shown.violations else "note"
    details = {
        "submission_warnings": list(evaluation.warnings),
        "constraint_violations": list(shown.violations),
        "constraint_effect": None if effect == "note" else effect,
        "harness_warning": shown.harness_warning,
        "unverified": [] if shown.verified else list(shown.problems),
        "unranked": _explain_unranked(challenge, shown),
        "evaluation": evaluation.details,
        "sandbox": {"evaluator": evaluation.sandbox} if evaluation.sandbox else {},
    }
    details = {name: value for name, value in details.items() if value}
    zeroed = effect == "zero" and evaluation.error is None
    if effect == "fail" and evaluation.error is None:
        error: str | None = "a constraint was broken: " + "; ".join(shown.violations)
        return WeighedAttempt(attempt, metrics, None, details, shown, error)
    if zeroed:
        metrics = msgspec.structs.replace(metrics, succeeded=False)
    if evaluation.error is not None or not challenge.scoring.dimensions:
        error = evaluation.error
        return WeighedAttempt(attempt, metrics, None, details, shown, error, zeroed)
    try:
        parts = weigh_dimensions(challenge, evaluation, metrics, shown)
    except InvalidInput as wrong:
        error = "; ".join(map(str, wrong.problems))
        return WeighedAttempt(attempt, metrics, None, details, shown, error)
    metrics = msgspec.structs.replace(metrics, succeeded=parts.result == "win")
    response = {"dimension_score": parts.score, **parts.to_dict()}
    del response["score"], response["result"]  # those of the outcome, where a formula may decide
    return WeighedAttempt(attempt, metrics, parts, details | response, shown, None, zeroed)


def _recall_verification(
    attempt: Attempt,
    trajectory: Verification | None,
    find_broken: FindBroken | None,
) -> Verification:
    """Findings on the trajectory; for a rescoring, the earlier ones."""
    if trajectory is not None:
        return trajectory
    known = attempt.outcome
    before = {} if known is None else known.details
    recalled = Verification(
        level="none" if known is None else known.trajectory_level,
        problems=tuple(before.get("unverified", ())),
        violations=tuple(before.get("constraint_violations", ())),
        harness_warning=before.get("harness_warning"),
    )
    broken = None if find_broken is None else find_broken(attempt)
    return recalled if broken is None else replace(recalled, violations=broken)


def _explain_unranked(challenge: Challenge, shown: Verification) -> str | None:
    least = challenge.trajectory
    if reaches(shown.level, least):
        return None
    return f"the board is for trajectories that are {least}, and this one is {shown.level}"


def _complete_metrics(
    challenge: Challenge,
    evaluation: Evaluation,
    attempt: Attempt,
    trajectory: Verification | None,
) -> Metrics:
    """The evaluator's metrics, completed by the server's clock and the trajectory."""
    known = evaluation.metrics
    before = attempt.outcome.metrics if attempt.outcome is not None else Metrics()
    shown = trajectory if trajectory is not None and trajectory.verified else None
    # A report is entered and submitted at once, so the server's clock does not measure it.
    timed = None if find_evaluator(challenge.evaluator.type).reported else elapsed_ms(attempt)
    found = {
        "created_at": _take_first(known.created_at, math.floor(attempt.entered_at * 1000)),
        "elapsed_ms": _take_first(known.elapsed_ms, timed),
        "tokens_total": _take_first(
            shown and shown.tokens, known.tokens_total, before.tokens_total
        ),
        "calls": _take_first(shown and shown.calls, known.calls, before.calls),
        "cost": _take_first(shown and shown.cost, known.cost, before.cost),
    }
    return msgspec.structs.replace(known, **found)


def _take_first(*values: Any) -> Any:
    for value in values:
        if value is not None:
            return value
    return None


def _make_outcomes(
    challenge: Challenge, weighed: list[WeighedAttempt], plugin: Plugin | None, tenant: str
) -> list[Outcome]:
    sound = [each for each in weighed if each.error is None and not each.zeroed]
    scoring = challenge.scoring
    if scoring.plugin is not None:
        if plugin is None:
            raise ScorerError(
                f"the challenge {challenge.name} is scored by {scoring.plugin}; load it"
            )
        scores = iter(_score_by_plugin(challenge, sound, plugin, tenant))
    elif scoring.formula is not None:
        scores = iter(_score_by_plugin(challenge, sound, challenge_formula(challenge), tenant))
    else:
        scores = (_score_by_rule(challenge, each) for each in sound)
    found = [
        Score.failed(each.error) if each.error else Score(0.0) if each.zeroed else next(scores)
        for each in weighed
    ]
    return [_make_outcome(challenge, *pair, plugin) for pair in zip(weighed, found, strict=True)]


def _make_outcome(
    challenge: Challenge, weighed: WeighedAttempt, found: Score, plugin: Plugin | None
) -> Outcome:
    extra = {"scorer": make_json_safe(found.metadata)} if found.metadata else {}
    if isinstance(plugin, SandboxedPlugin):
        walls = {"timeout_s": challenge.scoring.timeout_ms / 1000, **plugin.sandbox_facts}
        extra["sandbox"] = weighed.details.get("sandbox", {}) | {"plugin": walls}
    broken = "constraint_effect" in weighed.details
    unscored: Literal["loss"] | None = "loss" if broken else None
    result = unscored if found.error is not None else weighed.result
    if result is not None and "unranked" in weighed.details:
        # Who sends no trajectory can break no constraint: that must not be the better way.
        result = "loss"
    return Outcome(
        score=found.value,
        result=result,
        ranks=_ranks(challenge, weighed),
        metrics=weighed.metrics,
        dimensions=weighed.dimensions,
        details=weighed.details | extra,
        trajectory_level=weighed.shown.level,
        error=found.error,
        origin=origin_of(challenge, weighed.attempt.seed, plugin),
    )


def _ranks(challenge: Challenge, weighed: WeighedAttempt) -> bool:
    """Successes do, and all that dimensions are scored of."""
    if weighed.error is not None or "unranked" in weighed.details:
        return False
    if weighed.zeroed:
        # A 0 stands last only where nothing can be less, and nothing else orders the board.
        scoring = challenge.scoring
        rule = (scoring.strategy, scoring.formula, scoring.plugin)
        return weighed.breakdown is not None and rule == ("custom", None, None)
    return weighed.breakdown is not None or weighed.metrics.succeeded


def origin_of(challenge: Challenge, seed: int, plugin: Plugin | None = None) -> Origin:
    """Which rule made a score: the scorer and its code, the challenge's version, config, seed."""
    scoring = challenge.scoring
    config = {"challenge_version": challenge.version, "seed": seed, "config": scoring.config}
    if scoring.plugin is not None and plugin is not None:
        return Origin(plugin.name, plugin.code_hash, config)
    name: str = scoring.strategy
    if scoring.formula or scoring.dimensions:
        name = "formula" if scoring.formula else "dimensions"
    return Origin(name, hash_rule(scoring), config)


def _score_by_rule(challenge: Challenge, weighed: WeighedAttempt) -> Score:
    """Dimensions give the shown score, a strategy the number that it orders by."""
    if weighed.breakdown is not None:
        return Score(float(weighed.breakdown.score))
    metric = STRATEGIES[challenge.scoring.strategy].metric
    number = None if metric is None else getattr(weighed.metrics, metric)
    return Score(float(number) if isinstance(number, bool) else number)


def _score_by_plugin(
    challenge: Challenge, weighed: list[WeighedAttempt], plugin: Plugin, tenant: str
) -> list[Score]:
    """Score all at once; each attempt belongs to its own user."""
    scoring = challenge.scoring
    timeout = scoring.timeout_ms / 1000
    by_formula = plugin.kind == "formula"
    attempts = [each.formula_values if by_formula else each.plugin_metrics for each in weighed]
    users = [each.attempt.agent for each in weighed]
    if len(weighed) == 1:
        ctx = _make_context(challenge, users[0], tenant)
        scores = [plugin.score(attempts[0], scoring.config, ctx, timeout)]
    else:
        ctx = _make_context(challenge, None, tenant)
        scores = plugin.score_many(attempts, scoring.config, ctx, timeout, users)
    for score in scores:
        if score.metadata.get("stopped") == NOT_LOADED:
            # The failure belongs to no attempt.
            raise PluginNotLoaded(f"{plugin.name} cannot score: {score.error}")
    return scores


def _make_context(challenge: Challenge, agent: str | None, tenant: str) -> dict[str, Any]:
    return {
        "tenant_id": tenant,
        "app_id": APP_ID,
        "workflow_id": challenge.version,
        "challenge_id": challenge.name,
        "end_user_id": agent,
        "timeout_ms": challenge.scoring.timeout_ms,
    }

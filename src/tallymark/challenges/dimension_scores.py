"""A challenge's dimensions: weighing what the evaluator found, with speed and efficiency added."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tallymark.challenges.challenge import DimensionWeight
from tallymark.dimensions import (
    CORE,
    EFFICIENCY,
    Breakdown,
    Dimension,
    SubmissionWarning,
    WeightedDimension,
    breakdown,
    call_efficiency,
    dims,
    speed,
    token_efficiency,
)
from tallymark.errors import InvalidInput, Problem

if TYPE_CHECKING:
    from tallymark.challenges.attempt import Evaluation, Metrics
    from tallymark.challenges.challenge import Challenge
    from tallymark.challenges.trajectory import Verification


@lru_cache(maxsize=256)
def weighted_dimensions(weights: tuple[DimensionWeight, ...]) -> tuple[WeightedDimension, ...]:
    """The dimensions by the rules of `dims`; InvalidInput lists every mistake."""
    chosen: dict[Any, float] = {}
    problems: list[Problem] = []
    overrides: dict[str, dict[str, str]] = {}
    for each in weights:
        texts = {"label": each.label, "description": each.description, "color": each.color}
        given = {name: text for name, text in texts.items() if text is not None}
        if each.key in CORE or each.key in EFFICIENCY or not given:
            chosen[each.key] = each.weight
            if given:
                overrides[each.key] = given
        elif missing := [name for name in texts if name not in given]:
            message = f"the own dimension {each.key!r} has no {' and no '.join(missing)}"
            problems.append(Problem(message, hint="give it label, description and color"))
            # A placeholder, so that `dims` can report other mistakes.
            chosen[Dimension(each.key, *[each.key] * 3)] = each.weight
        else:
            chosen[Dimension(each.key, **given)] = each.weight
    try:
        weighted = dims(chosen, overrides)
    except InvalidInput as error:
        raise InvalidInput([*problems, *error.problems]) from None
    if problems:
        raise InvalidInput(problems)
    return weighted


MISMATCH = "the evaluator's scores do not match the challenge's dimensions"


def list_unknown_dimensions(challenge: Challenge, evaluation: Evaluation) -> list[str]:
    """Scored or warned dimensions that the challenge does not weigh."""
    known = {each.key for each in challenge.scoring.dimensions}
    warned = [each["dimension"] for each in evaluation.warnings if each.get("dimension")]
    named = [*evaluation.dimensions, *warned] if known else []
    return [each for each in named if each not in known]


def weigh_dimensions(
    challenge: Challenge, evaluation: Evaluation, metrics: Metrics, shown: Verification
) -> Breakdown:
    """The breakdown of an attempt; InvalidInput where the evaluator's scores do not fit."""
    reported = challenge.evaluator.type == "reported"
    if not reported and list_unknown_dimensions(challenge, evaluation):
        # Competitors read this. A name that a script made up may hold the truth.
        raise InvalidInput(MISMATCH)
    warnings = [SubmissionWarning(**each) for each in evaluation.warnings]
    if shown.violations and challenge.constraints.on_violation == "zero":
        warnings += [
            SubmissionWarning("a constraint was broken", "error", each.key)
            for each in challenge.scoring.dimensions
        ]
    return breakdown(
        weighted_dimensions(challenge.scoring.dimensions),
        evaluation.dimensions
        | _score_measured(challenge, metrics, warnings, verified=shown.verified),
        warnings,
        constraint_violations=shown.violations,
        harness_warning=shown.harness_warning,
    )


def _score_measured(
    challenge: Challenge, metrics: Metrics, warnings: list[SubmissionWarning], *, verified: bool
) -> dict[str, float]:
    """Speed and the efficiencies, as far as the challenge weighs them."""
    keys = {each.key for each in challenge.scoring.dimensions}
    found: dict[str, float] = {}
    if "speed" in keys:
        if metrics.elapsed_ms is None:
            raise InvalidInput("the time that was used is not known, and speed needs it")
        found["speed"] = speed(metrics.elapsed_ms, challenge.time_limit_s * 1000)
    bounds = challenge.constraints
    for key, efficiency, what, used, allowed in (
        ("token_efficiency", token_efficiency, "tokens", metrics.tokens_total, bounds.tokens),
        ("call_efficiency", call_efficiency, "calls", metrics.calls, bounds.calls),
    ):
        if key not in keys:
            continue
        if allowed is None:
            raise InvalidInput(f"{key} needs a bound: constraints, {what}")
        if verified and used is None:
            # An error of a dimension makes it 0, so that the 0 below does not pass for thrift.
            message = f"the trajectory does not record how many {what} were used"
            warnings.append(SubmissionWarning(message, "error", key))
        found[key] = efficiency(used or 0, allowed, verified=verified)
    return found

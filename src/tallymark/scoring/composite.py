"""`composite`: several scorers as one, combined by weights or by a formula."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tallymark.errors import ScorerError
from tallymark.scoring.score import Score, show_value
from tallymark.scoring.scorer import Scorer, load_calls
from tallymark.scoring.scorer_registry import default_registry
from tallymark.text import format_number

if TYPE_CHECKING:
    from tallymark.scoring.eval_context import EvalContext

OnError = Literal["fail", "skip", 0]
CompositePart: TypeAlias = Scorer | str | tuple[Scorer | str, float] | Mapping[str, Any]
"""A scorer, or a reference such as `"word_count"`; alone or with its weight."""
Combine: TypeAlias = Callable[[dict[str, float]], Score]
"""From the values of the parts that have one, by name, to the score of the whole."""


def composite(
    parts: Iterable[CompositePart],
    *,
    name: str = "composite",
    on_error: OnError = "fail",
    formula: str | None = None,
    description: str = "Weighted combination of scorers",
    threshold: float | None = None,
) -> Scorer:
    """One scorer of many: sum(weight * value) / sum(weight), or a formula over the parts' names.

    A part is a scorer or its name (weight 1), a pair `(scorer, weight)` or a mapping with those two
    keys. One that gives several scores counts with their mean; a formula may use their names.
    When a part fails, the whole fails (`"fail"`), or goes without it (`"skip"`), or counts it
    as 0 (`0`). Parts run at the same time.
    """
    if on_error not in ("fail", "skip", 0) or on_error is False:
        raise ScorerError(f'{name}: on_error is {on_error!r}; use "fail", "skip" or 0')
    if isinstance(parts, str) or not isinstance(parts, Iterable):
        raise ScorerError(f"{name}: the parts are a list of scorers, not {show_value(parts)}")
    weighted = [_read_part(each, place, name) for place, each in enumerate(parts, start=1)]
    scorers = [each for each, _ in weighted]
    _check_names(scorers, name)
    weights: Mapping[str, float | None]
    if formula is None:
        weights = _read_weights(weighted, name)
        combine = _combine_by_weights(weights)
    else:
        weights = dict.fromkeys(each.name for each in scorers)
        _check_unweighted(weighted, name)
        known = [each for scorer in scorers for each in scorer.score_names]
        combine = _combine_by_formula(formula, known, name)
    whole = _Composite(tuple(scorers), weights, on_error, combine)
    inline = all(each.inline for each in scorers)
    return Scorer(
        whole.score if inline else whole.evaluate,
        name=name,
        description=description,
        threshold=threshold,
        blocking=False,
        config={
            "parts": [{**_describe_part(each), "weight": weights[each.name]} for each in scorers],
            "on_error": on_error,
            "formula": formula,
        },
        sources=[_Composite, *(source for each in scorers for source in each.sources)],
    )


@dataclass(frozen=True, slots=True)
class _Composite:
    scorers: tuple[Scorer, ...]
    weights: Mapping[str, float | None]
    on_error: OnError
    combine: Combine

    def score(self, ctx: EvalContext) -> Score:
        """For parts that all run inline: no event loop is needed."""
        return self.combine_scores([each.score(ctx) for each in self.scorers])

    async def evaluate(self, ctx: EvalContext) -> Score:
        """For parts of which some wait."""
        return self.combine_scores(await load_calls().evaluate_all(self.scorers, ctx))

    def combine_scores(self, scores: list[Score]) -> Score:
        """Combine the parts' scores into one, with a breakdown even if a part failed."""
        named = {
            each.name: _sum_up_parts(score) if score.parts else score
            for each, score in zip(self.scorers, scores, strict=True)
        }
        values = {name: score.value for name, score in named.items() if score.value is not None}
        problems = {
            name: _describe_problem(score) for name, score in named.items() if name not in values
        }
        reason = ", ".join(
            f"{name}: {_format_two_decimals(values[name]) if name in values else 'failed'}"
            for name in named
        )
        metadata: dict[str, Any] = {
            "breakdown": [self._make_line(name, score) for name, score in named.items()]
        }
        if problems and (self.on_error == "fail" or (self.on_error == "skip" and not values)):
            failed = "; ".join(f"{name} failed: {why}" for name, why in problems.items())
            return Score.failed(failed, reason=reason, metadata=metadata)
        if problems:
            metadata["skipped" if self.on_error == "skip" else "counted_as_zero"] = list(problems)
        if self.on_error == 0:
            values |= dict.fromkeys(problems, 0.0)
        for part in (part for score in scores for part in score.parts):
            if part.value is not None or self.on_error == 0:
                values.setdefault(part.name or "", part.value or 0.0)
        outcome = self.combine(values)
        return Score(outcome.value, reason, metadata, outcome.error)

    def _make_line(self, name: str, score: Score) -> dict[str, Any]:
        return {
            "name": name,
            "value": score.value,
            "weight": self.weights[name],
            "reason": score.reason,
            "error": score.error,
            "metadata": score.metadata,
        }


def _sum_up_parts(score: Score) -> Score:
    """Several scores of one call as one: their mean, or the failure of the first that failed."""
    reason = ", ".join(
        f"{part.name}: {'failed' if part.value is None else _format_two_decimals(part.value)}"
        for part in score.parts
    )
    metadata = {"breakdown": [part.to_dict() for part in score.parts]}
    failed = next((part for part in score.parts if part.value is None), None)
    if failed is not None:
        why = f"{failed.name}: {_describe_problem(failed)}"
        return Score.failed(why, reason=reason, metadata=metadata)
    values = [part.value for part in score.parts if part.value is not None]
    return Score(math.fsum(values) / len(values), reason, metadata)


def _combine_by_weights(weights: dict[str, float]) -> Combine:
    largest = max(weights.values())
    scaled = {name: weight / largest for name, weight in weights.items()}  # sums cannot overflow

    def combine(values: dict[str, float]) -> Score:
        counted = {name: value for name, value in values.items() if scaled.get(name, 0.0) > 0}
        if not counted:
            return Score.failed("every part that has a value has weight 0")
        total = math.fsum(scaled[name] for name in counted)
        mean = math.fsum(scaled[name] * value for name, value in counted.items()) / total
        # Rounding must not carry a mean past its parts.
        return Score(min(max(counted.values()), max(min(counted.values()), mean)))

    return combine


def _combine_by_formula(text: object, names: list[str], composite: str) -> Combine:
    from tallymark.formula import Formula  # noqa: PLC0415 (only composites with one need it)

    if not isinstance(text, str):
        raise ScorerError(f"{composite}: formula is {show_value(text)}, not a text")
    formula = Formula.parse(text, names=names)

    def combine(values: dict[str, float]) -> Score:
        known = {name: values.get(name) for name in names}
        value = formula.evaluate(known)
        if value is None:
            return Score.failed(f"the formula {text!r} has no value: {formula.reason(known)}")
        if not -1e-9 <= value <= 1 + 1e-9:
            return Score.failed(
                f"the formula {text!r} gave {format_number(value)}, which is not from 0 to 1"
            )
        return Score(min(1.0, max(0.0, value)))

    return combine


def _read_part(part: object, place: int, name: str) -> tuple[Scorer, float | None]:
    weight: object = None
    made = part
    if isinstance(part, Mapping):
        unknown = [key for key in part if key not in ("scorer", "weight")]
        if unknown or "scorer" not in part:
            raise ScorerError(f"{name}: part {place} must have the keys 'scorer' and 'weight'")
        made, weight = part["scorer"], part.get("weight")
    elif isinstance(part, tuple | list) and len(part) == 2:
        made, weight = part
    if isinstance(made, str):
        made = default_registry.load(made)
    if not isinstance(made, Scorer):
        raise ScorerError(
            f"{name}: part {place} is {show_value(made)}, not a scorer",
            hint="put @scorer above the function, or write (scorer, weight)",
        )
    if weight is None:
        return made, None
    if isinstance(weight, bool) or not isinstance(weight, int | float):
        raise ScorerError(
            f"{name}: the weight of {made.name} is {show_value(weight)}, not a number"
        )
    if not (math.isfinite(weight) and weight >= 0):
        raise ScorerError(f"{name}: the weight of {made.name} is {weight}; it must be 0 or more")
    return made, float(weight)


def _check_names(scorers: list[Scorer], name: str) -> None:
    if not scorers:
        raise ScorerError(f"{name}: a composite needs at least one part")
    twice = [each for each, count in Counter(part.name for part in scorers).items() if count > 1]
    if twice:
        raise ScorerError(
            f"{name}: more than one part is named {', '.join(twice)}",
            hint='give one another name with `.replace(name="...")`',
        )


def _read_weights(weighted: list[tuple[Scorer, float | None]], name: str) -> dict[str, float]:
    weights = {each.name: 1.0 if weight is None else weight for each, weight in weighted}
    if not any(weights.values()):
        raise ScorerError(f"{name}: every weight is 0; at least one must be more")
    return weights


def _check_unweighted(weighted: list[tuple[Scorer, float | None]], name: str) -> None:
    given = [each.name for each, weight in weighted if weight is not None]
    if given:
        raise ScorerError(
            f"{name}: {', '.join(given)} has a weight, but the formula alone combines the parts",
            hint="write the weights into the formula",
        )


def _describe_part(part: Scorer) -> dict[str, Any]:
    return {"name": part.name, "config": part.config}


def _describe_problem(score: Score) -> str:
    if score.error is not None:
        return score.error
    return f"its label {score.label!r} has no number"


def _format_two_decimals(value: float) -> str:
    """Format as JavaScript's `toFixed(2)`: 0.125 is 0.13, where Python's own formatting gives
    0.12.
    """
    return str(Decimal(value).quantize(Decimal("0.01"), ROUND_HALF_UP))

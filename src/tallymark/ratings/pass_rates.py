"""pass@k = 1 - C(n-c, k) / C(n, k) (Chen 2021), pass^k = C(c, k) / C(n, k) (Yao 2024).

Both are unbiased: the chance that of k attempts drawn from the n made, of which c succeeded, at
least one, or every one, is a success. A success is a win. With fewer than k attempts they are
unknown: None.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tallymark.errors import InvalidInput
from tallymark.ratings.joint_fit import Z95, RatingEstimate
from tallymark.ratings.matches import TIERS, Counts, Match, require_whole


@dataclass(frozen=True, slots=True)
class AttemptRates:
    """An agent's rates, each the mean over its challenges.

    Only challenges with k attempts or more count for `pass_at_k` and `pass_hat_k`: `enough` of
    the `challenges` tried. They are None where there is none.
    """

    k: int
    pass_at_1: float
    pass_at_k: float | None
    pass_hat_k: float | None
    challenges: int
    enough: int


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Success rate of the attempts of one number, with its 95 % interval (Wilson 1927)."""

    attempt: int
    attempts: int
    successes: int
    rate: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class TierSuggestion:
    """The tier nearest to a difficulty; `sure` if its whole interval lies in that tier."""

    tier: str
    sure: bool


def pass_at_k(attempts: int, successes: int, k: int) -> float | None:
    """The chance that at least one of k attempts succeeds; None with fewer than k attempts."""
    _check_counts(attempts, successes, k)
    if attempts < k:
        return None
    total = math.comb(attempts, k)
    return (total - math.comb(attempts - successes, k)) / total


def pass_hat_k(attempts: int, successes: int, k: int) -> float | None:
    """The chance that all of k attempts succeed; None with fewer than k attempts."""
    _check_counts(attempts, successes, k)
    if attempts < k:
        return None
    return math.comb(successes, k) / math.comb(attempts, k)


def best_of_k(scores: Sequence[float], k: int) -> float | None:
    """The expected best of k scores drawn from those given; None with fewer than k.

    The i-th smallest is the best of C(i-1, k-1) of the C(n, k) draws.
    """
    require_whole(k, "k", least=1)
    if not all(math.isfinite(score) for score in scores):
        raise InvalidInput("a score is not finite", hint="leave out attempts without a score")
    if len(scores) < k:
        return None
    total = math.comb(len(scores), k)
    # Whole numbers are divided before anything is a float: alone they may be too large for one.
    ranked = enumerate(sorted(scores))
    return math.fsum(score * (math.comb(at, k - 1) / total) for at, score in ranked)


def attempt_rates(log: Counts | Iterable[Match], k: int) -> dict[str, AttemptRates]:
    """pass@1, pass@k and pass^k of every agent."""
    require_whole(k, "k", least=1)
    tries: dict[str, list[tuple[int, int]]] = {}
    for (agent, _), cell in (log if isinstance(log, Counts) else Counts.of(log)).cells():
        tries.setdefault(agent, []).append((sum(cell), cell[0]))
    return {agent: _compute_rates(tries[agent], k) for agent in sorted(tries)}


def learning_curve(log: Iterable[Match]) -> tuple[CurvePoint, ...]:
    """Success by attempt number: of all first tries at a challenge, of all second ones, ..."""
    numbers: Counter[tuple[str, str]] = Counter()
    made: Counter[int] = Counter()
    won: Counter[int] = Counter()
    for match in log:
        pair = (match.agent, match.challenge)
        numbers[pair] += 1
        made[numbers[pair]] += 1
        won[numbers[pair]] += match.result == "win"
    return tuple(
        CurvePoint(at, made[at], won[at], won[at] / made[at], *wilson_interval(made[at], won[at]))
        for at in sorted(made)
    )


def wilson_interval(attempts: int, successes: int) -> tuple[float, float]:
    """The 95 % interval of a rate (Wilson 1927); it stays inside 0 and 1."""
    _check_counts(attempts, successes, 1)
    if attempts == 0:
        return 0.0, 1.0
    rate, square = successes / attempts, Z95**2
    middle = (rate + square / (2 * attempts)) / (1 + square / attempts)
    half = math.sqrt(rate * (1 - rate) / attempts + square / (4 * attempts**2))
    half *= Z95 / (1 + square / attempts)
    # Exactly 0 and 1 at the ends, where rounding would miss them.
    low = 0.0 if successes == 0 else middle - half
    return low, 1.0 if successes == attempts else middle + half


def suggest_tier(difficulty: RatingEstimate) -> TierSuggestion:
    """The tier of a fitted difficulty; one just between two tiers belongs to the harder."""
    tier = _find_nearest_tier(difficulty.value)
    same = tier == _find_nearest_tier(difficulty.low) == _find_nearest_tier(difficulty.high)
    return TierSuggestion(tier, same)


def _find_nearest_tier(difficulty: float) -> str:
    return min(TIERS, key=lambda tier: (abs(TIERS[tier] - difficulty), -TIERS[tier]))


def _compute_rates(tries: Sequence[tuple[int, int]], k: int) -> AttemptRates:
    enough = [(made, won) for made, won in tries if made >= k]
    at_k = _mean([pass_at_k(made, won, k) or 0.0 for made, won in enough])
    hat_k = _mean([pass_hat_k(made, won, k) or 0.0 for made, won in enough])
    at_1 = math.fsum(won / made for made, won in tries) / len(tries)
    return AttemptRates(k, at_1, at_k, hat_k, len(tries), len(enough))


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _check_counts(attempts: int, successes: int, k: int) -> None:
    require_whole(k, "k", least=1)
    require_whole(attempts, "the number of attempts", least=0)
    if require_whole(successes, "the number of successes", least=0) > attempts:
        raise InvalidInput(
            f"{successes} successes of {attempts} attempts", hint="count each success as an attempt"
        )

"""Mean, pass@k and pass^k of repeated cases.

pass@k is the chance that at least one of k tries passes (Chen et al. 2021, "Evaluating Large
Language Models Trained on Code", equation 1), pass^k that all of them do (Yao et al. 2024,
"tau-bench"). Both estimates are unbiased: of the n tries, every choice of k is equally likely.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from math import comb
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from tallymark.runs.tally import CaseCounts

MOST_K = 10


class Repeats(msgspec.Struct, frozen=True):
    """One case over its epochs, or the mean of all cases; keys of the mappings are k."""

    mean: float
    pass_at: dict[int, float]
    pass_all: dict[int, float]


def pass_at_k(tries: int, passed: int, k: int) -> float:
    """The chance that at least one of k tries passes, for k up to the tries made."""
    return 1.0 - comb(tries - passed, k) / comb(tries, k)


def pass_all_k(tries: int, passed: int, k: int) -> float:
    """pass^k: the chance that all of k tries pass."""
    return comb(passed, k) / comb(tries, k)


def summarise_repeats(counts: CaseCounts) -> Repeats | None:
    """Values of one case; None if it did not run."""
    return _summarise(counts.ran, counts.passed) if counts.ran else None


@cache  # many cases have the same counts, and share what follows from them
def _summarise(tries: int, passed: int) -> Repeats:
    ks = range(1, min(tries, MOST_K) + 1)
    return Repeats(
        passed / tries,
        {k: pass_at_k(tries, passed, k) for k in ks},
        {k: pass_all_k(tries, passed, k) for k in ks},
    )


def mean_repeats(each: Iterable[Repeats]) -> Repeats | None:
    """The mean over cases, for every k that all of them reach; None without cases."""
    cases = list(each)
    if not cases:
        return None
    ks = range(1, min(len(case.pass_at) for case in cases) + 1)
    return Repeats(
        _mean([case.mean for case in cases]),
        {k: _mean([case.pass_at[k] for case in cases]) for k in ks},
        {k: _mean([case.pass_all[k] for case in cases]) for k in ks},
    )


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)

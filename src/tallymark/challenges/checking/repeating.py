"""The same submission with the same seed is evaluated alike, and seeds make a difference."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallymark.challenges.checking.nonsense import random_answers
from tallymark.challenges.checking.reference import reference_answer
from tallymark.challenges.checking.report import CheckFinding
from tallymark.challenges.checking.trial import SEEDS
from tallymark.errors import InvalidInput

if TYPE_CHECKING:
    from tallymark.challenges.checking.trial import Trial

_DETERMINISM = "determinism"
_RANDOM = 2


def check_repeats(trial: Trial, samples: int) -> Iterator[CheckFinding]:
    """Evaluate twice: the second time in a copy of the folder, for which nothing is remembered."""
    kind = trial.challenge.evaluator.type
    if kind in ("judge", "suite"):
        said = "a model answers, so the same submission may be rated differently"
        yield CheckFinding("warning", _DETERMINISM, said)
        return
    with tempfile.TemporaryDirectory(prefix="tally-check-") as made:
        folder = Path(made) / "challenge"
        shutil.copytree(trial.folder, folder)
        again = replace(trial, folder=folder, known={})
        seeds = SEEDS if trial.challenge.generate else SEEDS[:1]
        differing = [seed for seed in seeds if _differs(trial, again, seed, samples)]
    if differing:
        said = f"with seed {differing[0]} the same submission is evaluated differently"
        yield CheckFinding("problem", _DETERMINISM, said)
    else:
        yield CheckFinding("ok", _DETERMINISM, f"the same again with {len(seeds)} seed(s)")
    if trial.challenge.generate is not None:
        yield from _check_seeds(trial)


def _differs(trial: Trial, again: Trial, seed: int, samples: int) -> bool:
    """The data, and what is made of the reference and of a few random answers."""
    if trial.data(seed) != again.data(seed):
        return True
    return any(
        trial.evaluation(answer, seed) != again.evaluation(answer, seed)
        for answer in _choose_answers(trial, seed, samples)
    )


def _choose_answers(trial: Trial, seed: int, samples: int) -> list[Any]:
    try:
        reference = reference_answer(trial, seed)
    except InvalidInput:  # told by whoever checks the reference
        reference = None
    if trial.challenge.evaluator.type == "reported" or seed != SEEDS[0]:
        return [reference]
    noise = random_answers(trial.challenge, reference, samples)
    return [reference, *(answer for _, answer in islice(noise, _RANDOM))]


def _check_seeds(trial: Trial) -> Iterator[CheckFinding]:
    first, second = (trial.data(seed) for seed in SEEDS[:2])
    if first == second:
        said = f"{trial.challenge.generate} makes the same data for every seed"
        yield CheckFinding("warning", "data", f"{said}, so answers can be copied")
    else:
        yield CheckFinding("ok", "data", "every seed has data of its own")

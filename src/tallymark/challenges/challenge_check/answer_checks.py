"""The reference answer passes well, nothing and noise do not, and all of them repeatably."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallymark.challenges.attempt import Evaluation, Metrics
from tallymark.challenges.challenge_check.challenge_trial import SEEDS, reference_answer
from tallymark.challenges.challenge_check.junk_answers import empty_answers, random_answers
from tallymark.challenges.challenge_report import CheckFinding
from tallymark.challenges.evaluators import find_evaluator
from tallymark.challenges.evaluators.evaluator_kind import own_dimensions
from tallymark.errors import InvalidInput
from tallymark.text import format_count, format_digits, format_share

if TYPE_CHECKING:
    from tallymark.challenges.attempt import Outcome
    from tallymark.challenges.challenge import Challenge
    from tallymark.challenges.challenge_check.challenge_trial import Trial

LATE_SHARES = (0.5, 0.9)
"""Shares of the time limit after which a good answer ought still to win."""
FEW_ANSWERS = 3
"""Number of random answers when each one calls a model."""
_REFERENCE, _DETERMINISM = "reference", "determinism"
_EVALUATED_TWICE = 2
"""Number of random answers evaluated twice, besides the reference."""


def check_answers(trial: Trial, samples: int) -> Iterator[CheckFinding]:
    """Submit answers whose outcome is known."""
    kind = find_evaluator(trial.challenge.evaluator.type)
    if kind.needs_judge and trial.judge_model is None:
        said = "no answer was tried, which would ask a model: name one with --judge"
        yield CheckFinding("warning", _REFERENCE, said)
        return
    reference = None
    try:
        reference = reference_answer(trial, SEEDS[0])
        yield from _check_reference(trial)
    except InvalidInput as error:
        yield CheckFinding("problem", _REFERENCE, str(error))
    if kind.reported:
        return
    count = min(samples, FEW_ANSWERS) if kind.varies else samples
    yield _check_junk(trial, "empty answers", empty_answers(trial.challenge))
    noise = random_answers(trial.challenge, reference, count)
    yield _check_junk(trial, "random answers", noise)
    yield from _check_paid_nothing(trial)


def _check_reference(trial: Trial) -> Iterator[CheckFinding]:
    if trial.challenge.reference is None:
        said = "there is none, so it is not known whether the challenge can be won"
        yield CheckFinding("warning", _REFERENCE, f"{said}; write reference: FILE")
        return
    seeds = SEEDS if trial.challenge.generate else SEEDS[:1]
    outcomes = {}
    for seed in seeds:
        evaluation = trial.evaluation(reference_answer(trial, seed), seed)
        outcomes[seed] = trial.outcome(evaluation, seed, used=0.5), evaluation
    for seed, (outcome, _) in outcomes.items():
        if outcome.result != "win":
            said = f"with seed {seed} {_describe_outcome(outcome)}"
            yield CheckFinding("problem", _REFERENCE, said)
            return
    yield CheckFinding("ok", _REFERENCE, _describe_outcome(outcomes[seeds[0]][0]))
    for share in LATE_SHARES:
        late = trial.outcome(outcomes[seeds[0]][1], seeds[0], spent=share, used=0.5)
        if late.result != "win":
            said = f"after {format_share(share)} of the time limit {_describe_outcome(late)}"
            yield CheckFinding("warning", _REFERENCE, f"{said}: speed weighs much")
            return


def _check_junk(trial: Trial, what: str, answers: Iterable[tuple[str, Any]]) -> CheckFinding:
    """One finding for a kind of answers: the worst that any of them showed."""
    broke: list[str] = []
    fared: dict[str, list[str]] = {"win": [], "draw": [], "loss": []}
    unscored: list[str] = []
    for name, answer in answers:
        evaluation = trial.evaluation(answer, SEEDS[0])
        if evaluation.error is not None:
            broke.append(f"{name} ({evaluation.error})")
            continue
        outcome = trial.outcome(evaluation, SEEDS[0])
        if outcome.result is None:
            unscored.append(f"{name} ({outcome.error})")
        else:
            fared[outcome.result].append(f"{name} ({_format_score(outcome)})")
    if fared["win"]:
        return CheckFinding("problem", what, f"{_list_some(fared['win'])} would win")
    if broke:
        return CheckFinding("problem", what, f"the evaluator fails on {_list_some(broke)}")
    if unscored:
        said = f"there is no score for {_list_some(unscored)}"
        return CheckFinding("warning", what, f"{said}; write scoring, config: {{undefined: 0}}")
    if fared["draw"]:
        return CheckFinding("warning", what, f"{_list_some(fared['draw'])} would be a draw")
    return CheckFinding("ok", what, f"none of {len(fared['loss'])} passes")


def _check_paid_nothing(trial: Trial) -> Iterator[CheckFinding]:
    """An answer that is no good may still earn points for being fast, or for using little."""
    evaluation = trial.evaluation(None, SEEDS[0])
    outcome = trial.outcome(evaluation, SEEDS[0])
    if any(evaluation.dimensions.values()) or not outcome.score or outcome.score < 0:
        return
    paid = [key for key, score in outcome.dimensions.items() if score]
    if paid:
        said = f"an empty answer that is submitted at once earns {_format_score(outcome)}, for"
        hint = "write scoring, formula: floor(total * correctness / 1000)"
        yield CheckFinding("warning", "scoring", f"{said} {' and '.join(paid)} alone; {hint}")


def check_scoring(trial: Trial) -> Iterator[CheckFinding]:
    """Find a formula or plugin that scores no attempt, good or bad."""
    scoring = trial.challenge.scoring
    if scoring.formula is None and scoring.plugin is None:
        return
    found = [
        trial.outcome(each, SEEDS[0], used=0.5) for each in _imagine_evaluations(trial.challenge)
    ]
    if all(each.score is None for each in found):
        yield CheckFinding("problem", "scoring", f"no attempt would get a score: {found[0].error}")


def _imagine_evaluations(challenge: Challenge) -> Iterator[Evaluation]:
    """Attempts with every number that this kind of challenge can give, so that none is missing."""
    kind = find_evaluator(challenge.evaluator.type)
    rated = kind.reported or kind.needs_judge
    for number in (100.0, 1.0, 0.0):
        metrics = Metrics(
            succeeded=number > 0,
            tokens_total=1000,
            elapsed_ms=60_000,
            rating=number if rated else None,
            cost=0.01,
            calls=10,
            more=dict.fromkeys(challenge.evaluator.options.get("metrics", ()), number),
        )
        dimensions = dict.fromkeys(own_dimensions(challenge), 1000.0 if number else 0.0)
        yield Evaluation(metrics=metrics, dimensions=dimensions)


def _describe_outcome(outcome: Outcome) -> str:
    if outcome.result is None:
        return f"it has no score: {outcome.error}"
    words = {"win": "it wins", "draw": "it is only a draw", "loss": "it loses"}
    return f"{words[outcome.result]} ({_format_score(outcome)})"


def _format_score(outcome: Outcome) -> str:
    return "no score" if outcome.score is None else format_digits(outcome.score)


def _list_some(names: list[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def check_repeats(trial: Trial, samples: int) -> Iterator[CheckFinding]:
    """Score twice, and evaluate twice: in a copy of the folder, for which nothing is remembered."""
    if unsteady := _find_unsteady_score(trial):
        yield CheckFinding("problem", _DETERMINISM, unsteady)
    if find_evaluator(trial.challenge.evaluator.type).varies:
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
    elif not unsteady:
        yield CheckFinding(
            "ok", _DETERMINISM, f"the same again with {format_count(len(seeds), 'seed')}"
        )
    if trial.challenge.generate is not None:
        yield from _check_seeds(trial)


def _find_unsteady_score(trial: Trial) -> str | None:
    """Find scores of a plugin that differ the second time; all other scoring is arithmetic."""
    if trial.challenge.scoring.plugin is None:
        return None
    for evaluation in _imagine_evaluations(trial.challenge):
        one, other = (trial.outcome(evaluation, SEEDS[0], used=0.5) for _ in range(2))
        if (one.score, one.details) != (other.score, other.details):
            scores = f"{_format_score(one)} and {_format_score(other)}"
            more = " with other details" if one.score == other.score else ""
            return f"the same attempt is scored differently: {scores}{more}"
    return None


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
    except InvalidInput:  # reported by the check of the reference
        reference = None
    if find_evaluator(trial.challenge.evaluator.type).reported or seed != SEEDS[0]:
        return [reference]
    noise = random_answers(trial.challenge, reference, samples)
    return [reference, *(answer for _, answer in islice(noise, _EVALUATED_TWICE))]


def _check_seeds(trial: Trial) -> Iterator[CheckFinding]:
    first, second = (trial.data(seed) for seed in SEEDS[:2])
    if first == second:
        said = f"{trial.challenge.generate} makes the same data for every seed"
        yield CheckFinding("warning", "data", f"{said}, so answers can be copied")
    else:
        yield CheckFinding("ok", "data", "every seed has data of its own")

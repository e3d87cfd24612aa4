"""The reference answer passes well; nothing, and noise, do not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tallymark.challenges.checking.nonsense import empty_answers, random_answers
from tallymark.challenges.checking.reference import reference_answer
from tallymark.challenges.checking.report import Finding
from tallymark.challenges.checking.trial import SEEDS
from tallymark.errors import InvalidInput

if TYPE_CHECKING:
    from tallymark.challenges.attempt import Outcome
    from tallymark.challenges.checking.trial import Trial

LATE = (0.5, 0.9)
"""Shares of the time limit after which a good answer ought still to win."""
FEW = 3
"""Random answers that are tried where a model is asked about each."""
_REFERENCE = "reference"


def check_answers(trial: Trial, samples: int) -> Iterator[Finding]:
    """Submit answers whose outcome is known."""
    kind = trial.challenge.evaluator.type
    if kind == "judge" and trial.judge_model is None:
        yield Finding("warning", _REFERENCE, "no answer was tried: name a model that judges")
        return
    reference = None
    try:
        reference = reference_answer(trial, SEEDS[0])
        yield from _reference(trial)
    except InvalidInput as error:
        yield Finding("problem", _REFERENCE, str(error))
    if kind == "reported":
        return
    count = min(samples, FEW) if kind in ("judge", "suite") else samples
    yield _nonsense(trial, "empty answers", empty_answers(trial.challenge))
    noise = random_answers(trial.challenge, reference, count)
    yield _nonsense(trial, "random answers", noise)


def _reference(trial: Trial) -> Iterator[Finding]:
    if trial.challenge.reference is None:
        said = "there is none, so nobody knows whether the challenge can be won"
        yield Finding("warning", _REFERENCE, f"{said}; write reference: FILE")
        return
    seeds = SEEDS if trial.challenge.generate else SEEDS[:1]
    outcomes = {}
    for seed in seeds:
        evaluation = trial.evaluation(reference_answer(trial, seed), seed)
        outcomes[seed] = trial.outcome(evaluation, seed, used=0.5), evaluation
    for seed, (outcome, _) in outcomes.items():
        if outcome.result != "win":
            yield Finding("problem", _REFERENCE, f"with seed {seed} {_fared(outcome)}")
            return
    yield Finding("ok", _REFERENCE, _fared(outcomes[seeds[0]][0]))
    for share in LATE:
        late = trial.outcome(outcomes[seeds[0]][1], seeds[0], spent=share, used=0.5)
        if late.result != "win":
            said = f"after {share:.0%} of the time limit {_fared(late)}: speed weighs much"
            yield Finding("warning", _REFERENCE, said)
            return


def _nonsense(trial: Trial, what: str, answers: Iterable[tuple[str, Any]]) -> Finding:
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
            fared[outcome.result].append(f"{name} ({_number(outcome)})")
    if fared["win"]:
        return Finding("problem", what, f"{_some(fared['win'])} would win")
    if broke:
        return Finding("problem", what, f"the evaluator fails on {_some(broke)}")
    if unscored:
        hint = "write scoring, config: {undefined: 0}"
        return Finding("warning", what, f"there is no score for {_some(unscored)}; {hint}")
    if fared["draw"]:
        return Finding("warning", what, f"{_some(fared['draw'])} would be a draw")
    return Finding("ok", what, f"none of {len(fared['loss'])} passes")


def _fared(outcome: Outcome) -> str:
    if outcome.result is None:
        return f"it has no score: {outcome.error}"
    words = {"win": "it wins", "draw": "it is only a draw", "loss": "it loses"}
    return f"{words[outcome.result]} ({_number(outcome)})"


def _number(outcome: Outcome) -> str:
    return "no score" if outcome.score is None else f"{outcome.score:g}"


def _some(names: list[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more

"""The reference answer passes well; nothing, and noise, do not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tallymark.challenges.checking.nonsense import empty_answers, random_answers
from tallymark.challenges.checking.reference import reference_answer
from tallymark.challenges.checking.report import CheckFinding
from tallymark.challenges.checking.trial import SEEDS
from tallymark.errors import InvalidInput

if TYPE_CHECKING:
    from tallymark.challenges.attempt import Outcome
    from tallymark.challenges.checking.trial import Trial

LATE_SHARES = (0.5, 0.9)
"""Shares of the time limit after which a good answer ought still to win."""
FEW_ANSWERS = 3
"""Random answers that are tried where a model is asked about each."""
_REFERENCE = "reference"


def check_answers(trial: Trial, samples: int) -> Iterator[CheckFinding]:
    """Submit answers whose outcome is known."""
    kind = trial.challenge.evaluator.type
    if kind == "judge" and trial.judge_model is None:
        yield CheckFinding("warning", _REFERENCE, "no answer was tried: name a model that judges")
        return
    reference = None
    try:
        reference = reference_answer(trial, SEEDS[0])
        yield from _check_reference(trial)
    except InvalidInput as error:
        yield CheckFinding("problem", _REFERENCE, str(error))
    if kind == "reported":
        return
    count = min(samples, FEW_ANSWERS) if kind in ("judge", "suite") else samples
    yield _check_junk(trial, "empty answers", empty_answers(trial.challenge))
    noise = random_answers(trial.challenge, reference, count)
    yield _check_junk(trial, "random answers", noise)


def _check_reference(trial: Trial) -> Iterator[CheckFinding]:
    if trial.challenge.reference is None:
        said = "there is none, so nobody knows whether the challenge can be won"
        yield CheckFinding("warning", _REFERENCE, f"{said}; write reference: FILE")
        return
    seeds = SEEDS if trial.challenge.generate else SEEDS[:1]
    outcomes = {}
    for seed in seeds:
        evaluation = trial.evaluation(reference_answer(trial, seed), seed)
        outcomes[seed] = trial.outcome(evaluation, seed, used=0.5), evaluation
    for seed, (outcome, _) in outcomes.items():
        if outcome.result != "win":
            yield CheckFinding(
                "problem", _REFERENCE, f"with seed {seed} {_describe_outcome(outcome)}"
            )
            return
    yield CheckFinding("ok", _REFERENCE, _describe_outcome(outcomes[seeds[0]][0]))
    for share in LATE_SHARES:
        late = trial.outcome(outcomes[seeds[0]][1], seeds[0], spent=share, used=0.5)
        if late.result != "win":
            said = (
                f"after {share:.0%} of the time limit {_describe_outcome(late)}: speed weighs much"
            )
            yield CheckFinding("warning", _REFERENCE, said)
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
            fared[outcome.result].append(f"{name} ({_format_outcome(outcome)})")
    if fared["win"]:
        return CheckFinding("problem", what, f"{_list_some(fared['win'])} would win")
    if broke:
        return CheckFinding("problem", what, f"the evaluator fails on {_list_some(broke)}")
    if unscored:
        hint = "write scoring, config: {undefined: 0}"
        return CheckFinding(
            "warning", what, f"there is no score for {_list_some(unscored)}; {hint}"
        )
    if fared["draw"]:
        return CheckFinding("warning", what, f"{_list_some(fared['draw'])} would be a draw")
    return CheckFinding("ok", what, f"none of {len(fared['loss'])} passes")


def _describe_outcome(outcome: Outcome) -> str:
    if outcome.result is None:
        return f"it has no score: {outcome.error}"
    words = {"win": "it wins", "draw": "it is only a draw", "loss": "it loses"}
    return f"{words[outcome.result]} ({_format_outcome(outcome)})"


def _format_outcome(outcome: Outcome) -> str:
    return "no score" if outcome.score is None else f"{outcome.score:g}"


def _list_some(names: list[str], most: int = 3) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more

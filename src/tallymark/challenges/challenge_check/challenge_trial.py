"""`Trial`: trying answers on a challenge as if they had been submitted; the reference answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.challenges.attempt import Attempt, Evaluation, Outcome
from tallymark.challenges.attempt_scores import score_attempt
from tallymark.challenges.challenge_data import ChallengeData, load_challenge_data
from tallymark.challenges.challenge_folder import read_files
from tallymark.challenges.evaluators import (
    EvaluationSetting,
    Submitted,
    evaluate,
    find_evaluator,
)
from tallymark.challenges.organiser_script import call_script
from tallymark.challenges.trajectory import Verification
from tallymark.documents.reader import read_plain
from tallymark.errors import InvalidInput, OrganiserFault

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge
    from tallymark.challenges.plugins import Plugin
    from tallymark.sandbox import Policy

AGENT = "tally-challenge-check"
SEEDS = (1, 20, 300)
"""Setup in which answers are tried."""
SOLVE = "solve"
"""The function of a reference that is a program: from the public data to an answer."""
_SOLVE_TIME_S = 30.0
_SOLVE_MEMORY_MB = 1024
_DATA_ENDINGS = (".json", ".yaml", ".yml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A challenge in a folder, with all that is needed to score an answer."""

    challenge: Challenge
    folder: Path
    policy: Policy | None = None
    judge_model: str | None = None
    plugin: Plugin | None = None
    known: dict[tuple[int, bytes], Evaluation] = field(default_factory=dict)
    """Evaluations made so far; each costs a sandbox or two."""
    references: dict[int, Any] = field(default_factory=dict)
    """Reference answers found so far, by seed."""

    def data(self, seed: int) -> ChallengeData:
        """The competitor's data for a seed, and the truth."""
        return load_challenge_data(self.challenge, self.folder, seed, self.policy)

    def evaluation(self, answer: Any, seed: int) -> Evaluation:
        """The evaluation of an answer; repeated ones are cached."""
        key = (seed, msgspec.json.encode(answer))
        if key not in self.known:
            self.known[key] = self._evaluate(answer, seed)
        return self.known[key]

    def _evaluate(self, answer: Any, seed: int) -> Evaluation:
        submitted = Submitted(
            answer=answer,
            seed=seed,
            agent=AGENT,
            trusted=find_evaluator(self.challenge.evaluator.type).reported,
        )
        setting = EvaluationSetting(
            challenge=self.challenge,
            folder=self.folder,
            policy=self.policy,
            judge_model=self.judge_model,
        )
        try:
            found = evaluate(submitted, setting)
        except OrganiserFault as fault:
            return Evaluation(error=fault.reason)
        # Who checks is the organiser, who may know why.
        return msgspec.structs.replace(found, error=found.reason or found.error)

    def outcome(
        self, evaluation: Evaluation, seed: int, *, spent: float = 0.0, used: float = 0.0
    ) -> Outcome:
        """The score, after these shares of the time limit and of the constraints were used."""
        attempt = Attempt(
            id=AGENT,
            challenge=self.challenge.name,
            version=self.challenge.version,
            agent=AGENT,
            number=1,
            state="submitted",
            seed=seed,
            entered_at=0.0,
            expires_at=self.challenge.time_limit_s,
            submitted_at=spent * self.challenge.time_limit_s,
        )
        bounds = self.challenge.constraints
        shown = Verification(
            level="witnessed",  # regardless of the level that the challenge requires
            tokens=None if bounds.tokens is None else int(bounds.tokens * used),
            calls=None if bounds.calls is None else int(bounds.calls * used),
            cost=None if bounds.cost is None else bounds.cost * used,
        )
        return score_attempt(
            self.challenge, evaluation, attempt=attempt, plugin=self.plugin, trajectory=shown
        )


def reference_answer(trial: Trial, seed: int) -> Any:
    """The reference solution for the data of a seed; None if the challenge names none.

    It is a file, a folder of files, or a program that finds the answer.
    """
    if seed not in trial.references:
        trial.references[seed] = _find_answer(trial, seed)
    return trial.references[seed]


def _find_answer(trial: Trial, seed: int) -> Any:
    challenge = trial.challenge
    if challenge.reference is None:
        return None
    path = trial.folder / challenge.reference
    if path.is_dir():
        return {name: _decode(content, name) for name, content in read_files(path).items()}
    if path.suffix in _DATA_ENDINGS:
        return read_plain(path, "challenge")
    if challenge.submission.format == "json" and path.suffix == ".py":
        return _solve(trial, seed)
    text = _decode(path.read_bytes(), path.name)
    return {path.name: text} if challenge.submission.format == "files" else text.strip()


def _solve(trial: Trial, seed: int) -> Any:
    return call_script(
        trial.folder,
        trial.challenge.reference or "",
        SOLVE,
        [trial.data(seed).public],
        time_s=_SOLVE_TIME_S,
        memory_mb=_SOLVE_MEMORY_MB,
        policy=trial.policy,
    )


def _decode(content: bytes, name: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InvalidInput(
            f"reference: {name} is not UTF-8 text", hint="save it as UTF-8"
        ) from None

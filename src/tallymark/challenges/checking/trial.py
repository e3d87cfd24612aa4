"""`Trial`: trying answers on a challenge as if they had been submitted."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.challenges.attempt import Attempt, Evaluation, Outcome
from tallymark.challenges.data import ChallengeData, load_challenge_data
from tallymark.challenges.evaluators import EvaluationSetting, Submitted, evaluate
from tallymark.challenges.scoring import score_attempt
from tallymark.challenges.trajectory import Verification

if TYPE_CHECKING:
    from tallymark.challenges.definition import Challenge
    from tallymark.challenges.plugins import Plugin
    from tallymark.sandbox import Policy

AGENT = "tally-challenge-check"
SEEDS = (1, 20, 300)
"""What answers are tried with."""


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
        """What a competitor with this seed gets, and the truth."""
        return load_challenge_data(self.challenge, self.folder, seed, self.policy)

    def evaluation(self, answer: Any, seed: int) -> Evaluation:
        """What the challenge's evaluator makes of an answer; asked again, it is remembered."""
        key = (seed, msgspec.json.encode(answer))
        if key not in self.known:
            self.known[key] = self._evaluate(answer, seed)
        return self.known[key]

    def _evaluate(self, answer: Any, seed: int) -> Evaluation:
        submitted = Submitted(
            answer=answer,
            seed=seed,
            agent=AGENT,
            trusted=self.challenge.evaluator.type == "reported",
        )
        setting = EvaluationSetting(
            challenge=self.challenge,
            folder=self.folder,
            policy=self.policy,
            judge_model=self.judge_model,
        )
        return evaluate(submitted, setting)

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
            verified=True,
            tokens=None if bounds.tokens is None else int(bounds.tokens * used),
            calls=None if bounds.calls is None else int(bounds.calls * used),
            cost=None if bounds.cost is None else bounds.cost * used,
        )
        return score_attempt(
            self.challenge, evaluation, attempt=attempt, plugin=self.plugin, trajectory=shown
        )

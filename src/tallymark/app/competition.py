"""`Competition`: the life of an attempt, from a published challenge to a scored submission.

The rules that must hold when requests race (one open attempt, quotas, one score) are kept by the
store, in its transactions. What takes long, evaluating, happens between them: a process that is
killed there leaves an attempt submitted, and `settle` scores it once.
"""

from __future__ import annotations

import secrets
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.challenges.attempt import Attempt, Evaluation, Metrics, Outcome, Payload
from tallymark.challenges.attempt_scores import elapsed_ms, score_attempt
from tallymark.challenges.challenge import Challenge
from tallymark.challenges.challenge_data import load_challenge_data
from tallymark.challenges.challenge_file import load_challenge
from tallymark.challenges.challenge_folder import pack, unpack
from tallymark.challenges.evaluators import (
    EvaluationSetting,
    Submitted,
    evaluate,
    find_evaluator,
)
from tallymark.challenges.plugins import load_plugin
from tallymark.challenges.rescore_plan import RescorePlan, Rescoring, change_scoring
from tallymark.challenges.tracks import Track, TrackStanding, load_track, track_standings
from tallymark.challenges.trajectory import Verification, verify_sent
from tallymark.challenges.versus.arena import Arena
from tallymark.challenges.versus.judges import judge_of
from tallymark.errors import InvalidInput, RuleChanged, suggest
from tallymark.sandbox import Policy, Sandbox

if TYPE_CHECKING:
    from tallymark.challenges.plugins import Plugin
    from tallymark.store import Store
    from tallymark.store.contests.challenges import StoredChallenge

SEED_BITS = 63


@dataclass(frozen=True, slots=True)
class Entry:
    """An open attempt, and the files that its competitor works with."""

    attempt: Attempt
    challenge: Challenge
    data: Mapping[str, Any]


class Competition:
    """What commands and servers do with challenges. Close it: it may hold warm sandboxes."""

    def __init__(
        self,
        store: Store,
        *,
        policy: Policy | None = None,
        judge_model: str | None = None,
        clock: Callable[[], float] = time.time,
        draw: Callable[[], int] = lambda: secrets.randbits(SEED_BITS),
    ) -> None:
        self.store = store
        self._policy = policy
        self._judge_model = judge_model
        self._clock = clock
        self._draw = draw
        self._sandbox: Sandbox | None = None
        self._rulings: dict[str, StoredChallenge] = {}
        self._folders: dict[str, tempfile.TemporaryDirectory[str]] = {}

    def close(self) -> None:
        """Ends what was started for this competition."""
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None
        for folder in self._folders.values():
            folder.cleanup()
        self._folders.clear()

    def publish(self, folder: Path) -> Challenge:
        """Makes a challenge, or a new version of it, ready to be entered."""
        challenge = load_challenge(folder)
        self.store.challenges.publish(challenge, pack(folder), at=self._clock())
        return challenge

    def enter(
        self, name: str, agent: str, *, memoryless: bool = False, key: str | None = None
    ) -> Entry:
        """Starts the clock of an attempt, or gives the open one back."""
        _refuse_other_kind(self._find_ruling(name, anew=True).challenge, "enter")
        attempt = self.store.attempts.enter(
            name, agent, at=self._clock(), seed=self._draw(), memoryless=memoryless, key=key
        )
        challenge = self._find_version(attempt)
        data = load_challenge_data(
            challenge, self._open_folder(challenge), attempt.seed, self._policy
        )
        return Entry(attempt, challenge, data.public)

    def submit(
        self,
        attempt_id: str,
        agent: str,
        answer: Any,
        *,
        metadata: Mapping[str, Any] | None = None,
        trajectory: str | None = None,
        key: str | None = None,
    ) -> Attempt:
        """Takes a submission and scores it. Said again, it is the same attempt."""
        payload = Payload(submission=answer, metadata=dict(metadata or {}), trajectory=trajectory)
        attempt = self.store.attempts.submit(attempt_id, agent, payload, at=self._clock(), key=key)
        return self._settle_attempt(attempt)

    def report(self, name: str, agent: str, metrics: Metrics, *, key: str | None = None) -> Attempt:
        """Takes the metrics of an attempt that a trusted system saw, and scores it."""
        challenge = self._find_ruling(name, anew=True).challenge
        _refuse_other_kind(challenge, "report")
        declared = challenge.evaluator.options.get("metrics", ())
        for unknown in metrics.more.keys() - set(declared):
            close = suggest(unknown, [*Metrics.__struct_fields__, *declared])
            hint = f"did you mean {close!r}?" if close else "name it in evaluator.metrics"
            raise InvalidInput(f"{name} knows no metric {unknown!r}", hint=hint)
        attempt = self.store.attempts.report(
            name, agent, Payload(), metrics, at=self._clock(), key=key
        )
        return self._settle_attempt(attempt)

    def settle(self) -> list[Attempt]:
        """Expires what ran out of time, and scores what was left submitted."""
        self.store.attempts.expire(self._clock())
        return [self._settle_attempt(attempt) for attempt in self.store.attempts.pending()]

    def rescore(
        self, name: str, *, apply: bool = False, folder: Path | None = None, **scoring: Any
    ) -> Rescoring:
        """Scores a challenge's attempts by another rule, or shows what that would change.

        The rule is that of a new version in `folder`, or today's with changes to its scoring.
        """
        old = self.store.challenges.get(name)
        new, packed, files = self._make_version(old, folder, scoring)

        def again(attempt: Attempt) -> Evaluation:
            payload = self.store.attempts.payload(attempt.id)
            shown = _verify_trajectory(attempt, payload, new)
            return self._evaluate(attempt, payload, new, shown, files)

        plan = RescorePlan.of(
            old,
            new,
            packed=packed,
            plugin=self._load_plugin(new, files),
            evaluate=again,
            tenant=self.store.tenant,
        )
        work = self.store.rescorings.apply if apply else self.store.rescorings.preview
        return work(plan, at=self._clock())

    def arena(self, name: str) -> Arena:
        """A challenge of red against blue, ready to be played."""
        challenge = self.store.challenges.get(name)
        judge = judge_of(
            challenge,
            self._open_folder(challenge),
            policy=self._policy,
            judge_model=self._judge_model,
            answers=lambda: self.store.judge_answers,
        )
        return Arena(self.store.versus, challenge, judge, clock=self._clock)

    def track(self, path: Path, *, public: bool = True) -> tuple[Track, list[TrackStanding]]:
        """The board of a track, from the boards of its challenges."""
        track = load_track(path)
        boards = self.store.boards
        found = {
            name: boards.top(name, limit=max(1, boards.size(name, public=public)), public=public)
            for name in track.challenges
        }
        return track, track_standings(track, found)

    def _make_version(
        self, old: Challenge, folder: Path | None, scoring: Mapping[str, Any]
    ) -> tuple[Challenge, bytes | None, Path]:
        """What to rescore by, its files if they are others, and where they are."""
        if folder is None:
            return change_scoring(old, **scoring), None, self._open_folder(old)
        new = load_challenge(folder)
        if new.name != old.name:
            raise InvalidInput(f"{folder} holds the challenge {new.name!r}, not {old.name!r}")
        if new.version == old.version:
            raise InvalidInput(f"{folder} is the version that {old.name} is scored by already")
        return new, pack(folder), folder

    def _find_ruling(self, name: str, *, anew: bool = False) -> StoredChallenge:
        """The version that counts, read once: what is scored by an older one, the store refuses."""
        if anew or name not in self._rulings:
            self._rulings[name] = self.store.challenges.find(name)
        return self._rulings[name]

    def _find_version(self, attempt: Attempt) -> Challenge:
        """The challenge as it was when the attempt was entered."""
        ruling = self._find_ruling(attempt.challenge).challenge
        if ruling.version == attempt.version:
            return ruling
        return self.store.challenges.get_version(attempt.challenge, attempt.version)

    def _settle_attempt(self, attempt: Attempt) -> Attempt:
        """The attempt with its score; whoever was quicker, it has only one."""
        if attempt.state != "submitted":
            return attempt
        payload = self.store.attempts.payload(attempt.id)
        challenge = self._find_version(attempt)
        shown = _verify_trajectory(attempt, payload, challenge)
        folder = self._open_folder(challenge)
        evaluation = self._evaluate(attempt, payload, challenge, shown, folder)
        for anew in (False, True):
            ruling = self._find_ruling(attempt.challenge, anew=anew)
            try:
                self.store.attempts.finish(
                    attempt.id,
                    evaluation,
                    self._score(attempt, evaluation, shown, ruling),
                    at=self._clock(),
                    verified=shown.verified,
                    ruling=ruling,
                )
                break
            except RuleChanged:  # between reading it and storing its score
                continue
        else:
            # Somebody publishes faster than this is scored, and now has to wait for it.
            self.store.attempts.finish_by_held_rule(
                attempt.id,
                evaluation,
                partial(self._score, attempt, evaluation, shown),
                at=self._clock(),
                verified=shown.verified,
            )
        return self.store.attempts.get(attempt.id)

    def _score(
        self,
        attempt: Attempt,
        evaluation: Evaluation,
        shown: Verification,
        ruling: StoredChallenge,
    ) -> Outcome:
        """By the rule of today, so that all attempts of a board are scored by one."""
        outcome = score_attempt(
            ruling.challenge,
            evaluation,
            attempt=attempt,
            plugin=self._load_plugin(ruling.challenge),
            trajectory=shown,
            tenant=self.store.tenant,
        )
        if self._policy is not None and self._policy.warnings:
            warned = outcome.details | {"warning": "; ".join(self._policy.warnings)}
            outcome = msgspec.structs.replace(outcome, details=warned)
        return outcome

    def _evaluate(
        self,
        attempt: Attempt,
        payload: Payload,
        challenge: Challenge,
        shown: Verification,
        folder: Path,
    ) -> Evaluation:
        reported = payload.reported
        submitted = Submitted(
            answer=payload.submission if reported is None else msgspec.to_builtins(reported),
            trusted=reported is not None,
            seed=attempt.seed,
            agent=attempt.agent,
            number=attempt.number,
            elapsed_ms=elapsed_ms(attempt) if reported is None else None,
            # What nobody could check must not win a board of fewest tokens.
            tokens_total=shown.tokens if shown.verified else None,
            cost=shown.cost if shown.verified else None,
            calls=shown.calls if shown.verified else None,
            metadata=payload.metadata,
        )
        setting = EvaluationSetting(
            challenge=challenge,
            folder=folder,
            policy=self._policy,
            judge_model=self._judge_model,
            answers=lambda: self.store.judge_answers,
        )
        return evaluate(submitted, setting)

    def _load_plugin(self, challenge: Challenge, folder: Path | None = None) -> Plugin | None:
        reference = challenge.scoring.plugin
        if reference is None:
            return None
        files = self._open_folder(challenge) if folder is None else folder
        return load_plugin(reference, folder=files, sandbox=self._open_sandbox)

    def _open_sandbox(self) -> Sandbox:
        if self._sandbox is None:
            self._sandbox = Sandbox(self._policy)
        return self._sandbox

    def _open_folder(self, challenge: Challenge) -> Path:
        """The files of a version, unpacked once."""
        known = self._folders.get(challenge.version)
        if known is None:
            known = tempfile.TemporaryDirectory(prefix="tally-challenge-")
            packed = self.store.challenges.packed(challenge.name, challenge.version)
            unpack(packed, Path(known.name))
            self._folders[challenge.version] = known
        return Path(known.name)


def _verify_trajectory(attempt: Attempt, payload: Payload, challenge: Challenge) -> Verification:
    return verify_sent(
        payload.trajectory,
        entered_at=attempt.entered_at,
        submitted_at=attempt.submitted_at or attempt.entered_at,
        claims=payload.metadata,
        constraints=challenge.constraints,
    )


def _refuse_other_kind(challenge: Challenge, wish: str) -> None:
    """One sentence for who knocks at the wrong door."""
    name = challenge.name
    reported = find_evaluator(challenge.evaluator.type).reported
    if challenge.kind == "versus":
        hint = f"tally versus submit {name} FILE --agent NAME --side red"
        raise InvalidInput(f"{name} is played red against blue; submit to a side", hint=hint)
    if wish == "enter" and reported:
        hint = f"tally attempt report {name} --agent NAME --metric succeeded=true"
        raise InvalidInput(f"attempts at {name} are reported by a trusted system", hint=hint)
    if wish == "report" and not reported:
        hint = f"tally attempt enter {name} --agent NAME"
        raise InvalidInput(f"attempts at {name} are judged here, not reported", hint=hint)

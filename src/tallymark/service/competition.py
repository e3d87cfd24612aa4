"""`Competition`: the life of an attempt, from a published challenge to a scored submission.

The store enforces the rules that matter when requests race (one open attempt, quotas, one score) in
its transactions. Evaluation takes long and happens between them: a process that is killed there
leaves an attempt submitted, and `settle` scores it once.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import msgspec

from tallymark.challenges.attempt import (
    Attempt,
    Evaluation,
    Metrics,
    Outcome,
    Payload,
    find_below_zero,
)
from tallymark.challenges.attempt_scores import elapsed_ms, score_attempts
from tallymark.challenges.challenge import Challenge
from tallymark.challenges.challenge_data import make_attempt_data
from tallymark.challenges.challenge_file import load_challenge
from tallymark.challenges.challenge_folder import pack
from tallymark.challenges.constraints import Usage, find_violations
from tallymark.challenges.evaluators import (
    EvaluationSetting,
    Submitted,
    evaluate,
    find_evaluator,
)
from tallymark.challenges.evaluators.submission_intake import refuse_unusable
from tallymark.challenges.kept_submission import KeptSubmission, keep_submission
from tallymark.challenges.plugins import SandboxedPlugin
from tallymark.challenges.rescore_plan import (
    RescorePlan,
    change_scoring,
    find_need,
    make_rescorer,
    origin_of_all,
)
from tallymark.challenges.rescoring import Rescoring
from tallymark.challenges.trajectory import (
    Verification,
    read_trajectory,
    verify_sent,
    verify_witnessed,
)
from tallymark.challenges.versus.arena import Arena
from tallymark.challenges.versus.judges import Judge, judge_of
from tallymark.challenges.versus.pairings import Meeting, Ruling
from tallymark.errors import (
    Conflict,
    InvalidInput,
    OrganiserFault,
    Place,
    RuleChanged,
    TallymarkError,
    WorkFailed,
    suggest,
)
from tallymark.models.egress_policy import limit_egress
from tallymark.sandbox import Policy
from tallymark.scoring.score import show_value
from tallymark.service.challenge_cache import ChallengeCache, scores_quickly
from tallymark.service.report_scoring_pool import Reported, ReportScoringPool
from tallymark.service.witnessed_trajectory import read_witnessed
from tallymark.store.contests.attempt_items import Finish, Verdict
from tallymark.store.dry_run import dry_run, is_dry_run

if TYPE_CHECKING:
    from tallymark.challenges.plugins import Plugin
    from tallymark.engine.engine_choice import EngineChoice
    from tallymark.models.egress_policy import EgressPolicy
    from tallymark.service.witnessed_trajectory import WitnessedSteps
    from tallymark.store import Store
    from tallymark.store.contests.attempt_items import Report
    from tallymark.store.contests.attempt_rows import StoredAttempt
    from tallymark.store.contests.challenges import StoredChallenge

T = TypeVar("T")
SEED_BITS = 63
_SWEPT = 20
"""Maximum number of expired attempts that one entry or submission ends."""
_SWEEP_S = 1.0
_AT_ONCE = 500
_QUICK = ("deterministic", "reported")
"""Evaluators without foreign code."""
_NO_FOLDER = Path()
"""Types of reported attempts, which need no files."""


class AttemptReport(NamedTuple):
    """An attempt that a trusted system saw: at a challenge, by an agent."""

    challenge: str
    agent: str
    metrics: Metrics
    key: str | None = None


class Evidence(NamedTuple):
    """All that an attempt is scored from."""

    attempt: Attempt
    payload: Payload
    """Stored form."""
    seen: WitnessedSteps | None = None
    known: StoredAttempt | None = None
    """The attempt as it was read before it was submitted; None where it was not."""


class PreparedReport(NamedTuple):
    """A report as the store takes it, and its metrics."""

    item: Report
    metrics: Metrics


@dataclass(frozen=True, slots=True)
class LimitedJudge:
    """A judge of red against blue, limited to the allowed models."""

    judge: Judge
    find_egress: Callable[[], EgressPolicy | None]

    @property
    def name(self) -> str:
        """Which judge."""
        return self.judge.name

    def rule(self, meetings: Sequence[Meeting]) -> list[Ruling]:
        """One ruling for every meeting."""
        with limit_egress(self.find_egress()):
            return self.judge.rule(meetings)


@dataclass(frozen=True, slots=True)
class Entry:
    """An open attempt, and the files that its competitor works with."""

    attempt: Attempt
    challenge: Challenge
    data: Mapping[str, Any]


class Competition:
    """Operations on challenges for commands and servers. Close it: it may hold warm sandboxes."""

    def __init__(
        self,
        store: Store,
        *,
        policy: Policy | None = None,
        judge_model: str | None = None,
        clock: Callable[[], float] = time.time,
        draw: Callable[[], int] = lambda: secrets.randbits(SEED_BITS),
        find_egress: Callable[[], EgressPolicy | None] = lambda: None,
    ) -> None:
        """`find_egress` gives the egress policy of models that challenges and competitors name."""
        self.store = store
        self.challenge_cache = ChallengeCache(store, policy, clock)
        """The rules by which attempts were entered, and by which they are scored now."""
        self._find_egress = find_egress
        self._policy = policy
        self._judge_model = judge_model
        self._clock = clock
        self._draw = draw
        self._report_pool = ReportScoringPool(self._score_together)
        self._swept_at = -math.inf

    def close(self) -> None:
        """Ends what was started for this competition."""
        self._report_pool.close()
        self.challenge_cache.close()

    def publish(self, folder: Path) -> Challenge:
        """Makes a challenge, or a new version of it, ready to be entered."""
        challenge = load_challenge(folder)
        self.store.challenges.publish(challenge, pack(folder), at=self._clock())
        return challenge

    def enter(
        self, name: str, agent: str, *, memoryless: bool = False, key: str | None = None
    ) -> Entry:
        """Starts the clock of an attempt, or gives the open one back."""
        challenge = self.challenge_cache.find(name, anew=True).challenge
        _refuse_other_kind(challenge, "enter")
        self._expire_some()
        seed, begins = self._draw(), True
        how: Any = {"seed": seed, "memoryless": memoryless, "key": key}
        if challenge.generate is not None:
            # Making data takes a sandbox: not for who would be refused, or has an attempt open.
            with dry_run():
                tried = self.store.attempts.enter(name, agent, at=self._clock(), **how)
            begins = tried.seed == seed
        # Before the clock starts: a failure to make data must not cost an attempt.
        public = self._load_public(challenge, seed) if begins else {}
        attempt = self.store.attempts.enter(name, agent, at=self._clock(), **how)
        if not begins or (attempt.seed, attempt.version) != (seed, challenge.version):
            challenge = self.challenge_cache.find_version(attempt)
            public = self._load_public(challenge, attempt.seed)
        return Entry(attempt, challenge, public)

    def open_entry(self, attempt_id: str, agent: str) -> Entry:
        """An agent's open attempt once more, with its files; nothing begins by looking."""
        attempt = self.store.attempts.find(attempt_id, agent).attempt
        if attempt.state != "entered" or self._clock() >= attempt.expires_at:
            raise Conflict(f"attempt {attempt_id} is not open any more", hint="see what it came to")
        challenge = self.challenge_cache.find_version(attempt)
        return Entry(attempt, challenge, self._load_public(challenge, attempt.seed))

    def show_sample(self, name: str) -> Mapping[str, Any]:
        """Sample of an attempt's data, from a seed that no attempt uses.

        Empty if all attempts have the same data: seeing those means having entered.
        """
        challenge = self.challenge_cache.find(name, anew=True).challenge
        if challenge.generate is None:
            return {}
        drawn = int.from_bytes(hashlib.sha256(f"sample {challenge.version}".encode()).digest()[:7])
        made = self._load_public(challenge, drawn)
        return {each: content for each, content in made.items() if each not in challenge.public}

    def check_entry(self, name: str, agent: str) -> Entry:
        """Refuses what `enter` would, in a rehearsal: only entering gives the data."""
        challenge = self.challenge_cache.find(name, anew=True).challenge
        _refuse_other_kind(challenge, "enter")
        return Entry(
            self.store.attempts.enter(name, agent, at=self._clock(), seed=0), challenge, {}
        )

    def read_submission(self, attempt_id: str) -> KeptSubmission:
        """The submission of an attempt: for its agent and for organisers."""
        attempt = self.store.attempts.get(attempt_id)
        payload = self.store.attempts.payload(attempt.id)
        form = self.challenge_cache.find_version(attempt).submission
        return keep_submission(attempt, form.format, payload)

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
        """Store a submission and score it. Repeated, it returns the same attempt."""
        sent = Payload(submission=answer, metadata=dict(metadata or {}), trajectory=trajectory)
        with self.store.read():
            known = self.store.attempts.find(attempt_id, agent)
            seen = read_witnessed(self.store, attempt_id)
        return self.score_submission(self.take_submission(known, sent, seen, key=key))

    def take_submission(
        self,
        known: StoredAttempt,
        sent: Payload,
        seen: WitnessedSteps | None,
        *,
        key: str | None = None,
    ) -> Evidence:
        """Store a submission; `score_submission` scores it, or `settle_attempt` elsewhere.

        Steps that were `seen` while the attempt ran take the place of those that were sent.
        """
        at = self._clock()  # when it came: what is looked at first costs the competitor no time
        if seen is not None:
            sent = msgspec.structs.replace(sent, trajectory=seen.write())
        challenge = self.challenge_cache.find_version(known.attempt)
        # Before it is stored: what cannot be judged can be sent again in another form.
        refuse_unusable(sent, challenge.submission)
        if sent.trajectory is not None:
            read_trajectory(sent.trajectory)
        kind = find_evaluator(challenge.evaluator.type)
        with self._limit_reach(challenge):
            kind.refuse(sent.submission, challenge, self.challenge_cache.open_folder(challenge))
        who = (known.attempt.id, known.attempt.agent)
        attempt = self.store.attempts.submit(*who, sent, at=at, key=key, known=known)
        self._expire_some()
        return Evidence(attempt, _as_stored(sent), seen, known)

    def score_submission(self, evidence: Evidence) -> Attempt:
        """Score what was just taken, unless it has its score already."""
        return self._settle_attempt(evidence.attempt, evidence)

    def settles_quickly(self, attempt: Attempt) -> bool:
        """True if a request can score the attempt: no program, model or plugin of others is needed.

        Generated data are no exception: a request made them when the attempt was entered.
        """
        challenge = self.challenge_cache.find_version(attempt)
        current = self.challenge_cache.find(attempt.challenge).challenge
        return challenge.evaluator.type in _QUICK and scores_quickly(current)

    def settle_attempt(self, attempt_id: str) -> Attempt:
        """Score a submitted attempt, unless it is already scored."""
        return self._settle_attempt(self.store.attempts.get(attempt_id))

    def report(self, name: str, agent: str, metrics: Metrics, *, key: str | None = None) -> Attempt:
        """Takes the metrics of an attempt that a trusted system saw, and scores it."""
        self._expire_some()
        item = self._make_report(AttemptReport(name, agent, metrics, key))
        if is_dry_run():
            return cast("Attempt", self.store.attempts.do(item))
        return self._score_reported(cast("Attempt", self.store.attempts.do(item)), metrics)

    async def areport(
        self, name: str, agent: str, metrics: Metrics, *, key: str | None = None
    ) -> Attempt:
        """Report from an event loop, stored in one group with other reports."""
        self._expire_some()
        item = self._make_report(AttemptReport(name, agent, metrics, key))
        attempt = cast("Attempt", await self.store.attempts.ado(item))
        if attempt.state != "submitted":
            return attempt
        return await asyncio.wrap_future(self._report_pool.put(attempt, metrics))

    def report_many(
        self, reports: Sequence[AttemptReport], *, all_or_none: bool = False
    ) -> list[Attempt | TallymarkError]:
        """Report many: for each the attempt, or the reason of its refusal, in order.

        With `all_or_none`, one refusal stores none of them.
        """
        self._expire_some()
        answers: list[Any] = []
        if all_or_none:
            items = [self._make_report(each) for each in reports]
            answers += self.store.attempts.do_all_or_none(items)
            if any(isinstance(each, TallymarkError) for each in answers):
                return answers
        for start in range(0, 0 if all_or_none else len(reports), _AT_ONCE):
            items = [self._make_report(each) for each in reports[start : start + _AT_ONCE]]
            answers += self.store.attempts.do_all(items)
        if is_dry_run():
            return answers
        settled = {
            nth: self._report_pool.put(each, reports[nth].metrics)
            for nth, each in enumerate(answers)
            if isinstance(each, Attempt) and each.state == "submitted"
        }
        return [
            settled[nth].result() if nth in settled else each for nth, each in enumerate(answers)
        ]

    def prepare_reports(self, reports: Sequence[AttemptReport]) -> list[PreparedReport]:
        """Items that `areport_many` sends to the writer."""
        return [PreparedReport(self._make_report(each), each.metrics) for each in reports]

    async def areport_many(
        self, prepared: Sequence[PreparedReport]
    ) -> list[Attempt | TallymarkError]:
        """Like `report_many`; waiting for the writer holds no thread."""
        self._expire_some()
        answers: list[Any] = await self.store.attempts.ado_all([each.item for each in prepared])
        settled = {
            nth: asyncio.wrap_future(self._report_pool.put(each, prepared[nth].metrics))
            for nth, each in enumerate(answers)
            if isinstance(each, Attempt) and each.state == "submitted"
        }
        return [await settled[nth] if nth in settled else each for nth, each in enumerate(answers)]

    def _make_report(self, report: AttemptReport) -> Report:
        name, agent, metrics, key = report
        return self.store.attempts.make_report(
            name,
            agent,
            Payload(),
            metrics,
            at=self._clock(),
            key=key,
            check=partial(_refuse_report, metrics),
            judge=partial(self._judge_report, metrics),
        )

    def _judge_report(
        self, metrics: Metrics, attempt: Attempt, stored: StoredChallenge
    ) -> Verdict | None:
        """Scores what can be scored at once, while all others wait."""
        if not scores_quickly(stored.challenge):
            return None
        payload = Payload(reported=_as_stored(metrics))
        shown = _verify_trajectory(attempt, payload, stored.challenge)
        evaluation = self._evaluate(attempt, payload, stored.challenge, shown, _NO_FOLDER)
        (outcome,) = self._score([(attempt, evaluation, shown)], stored)
        return Verdict(evaluation, outcome, shown.verified)

    def settle(self) -> list[Attempt]:
        """Expire overdue attempts, and score submitted ones.

        One that cannot be scored now has its reason and does not delay others.
        """
        self.store.attempts.expire(self._clock())
        return [self._settle_attempt(attempt) for attempt in self.store.attempts.pending()]

    def rescores_quickly(self, name: str, **scoring: Any) -> bool:
        """True if rescoring is arithmetic on stored numbers, which takes seconds at most."""
        old = self.store.challenges.get(name)
        return find_need(old, change_scoring(old, **scoring), same_files=True) == "formula"

    def rescore(  # noqa: PLR0913 (each says one thing about it)
        self,
        name: str,
        *,
        apply: bool = False,
        folder: Path | None = None,
        on_progress: Callable[[int, int | None], None] | None = None,
        reason: str = "",
        based_on: str | None = None,
        engine: EngineChoice | None = None,
        **scoring: Any,
    ) -> Rescoring:
        """Rescore a challenge's attempts by another rule, or preview the changes.

        The rule is that of a new version in `folder`, or the current one with changes to its
        scoring. `on_progress` gets the number of scored attempts and their total. `based_on` is the
        version that was previewed: nothing is done if another one is current. `engine` runs plugins
        on very many attempts.
        """
        old = self.store.challenges.get(name)
        if based_on not in (None, old.version):
            raise Conflict(
                f"{name!r} has changed since you looked",
                hint="preview the change again",
            )
        if old.kind == "versus":
            raise InvalidInput(f"{name} is played red against blue: there is nothing to rescore")
        new, packed, files = self._make_version(old, folder, scoring)

        def again(attempt: Attempt) -> Evaluation:
            evidence = self._read_evidence(attempt)
            shown = self._verify(evidence, new)
            return self._evaluate(attempt, evidence.payload, new, shown, files)

        def find_broken(attempt: Attempt) -> tuple[str, ...] | None:
            try:
                payload = self.store.attempts.payload(attempt.id)
            except InvalidInput:  # it was scored elsewhere
                return None
            return _verify_trajectory(attempt, payload, new).violations

        plugin = self.challenge_cache.load_plugin(new, files)
        plan = RescorePlan.of(
            old,
            new,
            packed=packed,
            plugin=plugin,
            evaluate=again,
            find_broken=find_broken,
            tenant=self.store.tenant,
        )
        rescorings, at = self.store.rescorings, self._clock()
        with self._spread(plan, plugin, engine, keep=not apply) as spread:
            if apply:
                done = rescorings.apply(spread, at=at, on_progress=on_progress, reason=reason)
            else:
                done = rescorings.preview(spread, at=at, on_progress=on_progress)
        self.challenge_cache.forget_pauses()
        return done

    def _spread(
        self,
        plan: RescorePlan,
        plugin: Plugin | None,
        engine: EngineChoice | None,
        *,
        keep: bool,
    ) -> AbstractContextManager[RescorePlan]:
        """The plan as the workers of an engine do it, where there is one and it is worth it."""
        alone = plan.need != "score" or plan.old.constraints != plan.new.constraints
        if engine is None or alone or not isinstance(plugin, SandboxedPlugin):
            return nullcontext(plan)
        if self.store.contest_stats.count_attempts(plan.old.name) <= _AT_ONCE:
            return nullcontext(plan)
        from tallymark.service.rescore_blocks import rescore_on_engine  # noqa: PLC0415 (few need it)

        return rescore_on_engine(engine, self.store, plan, plugin, self._policy, keep=keep)

    def resume(self, name: str, agent: str | None = None) -> Rescoring:
        """Ends the pause of an agent, or of all that are paused, and scores what waited for it."""
        paused = [each.agent for each in self.store.plugin_quarantine.all(name)]
        agents = sorted(set(paused)) if agent is None else [agent]
        if not agents or not set(agents) <= set(paused):
            who = "nobody is" if agent is None else f"{agent!r} is not"
            raise InvalidInput(f"{who} paused at {name}", hint="see `tally plugin paused`")
        stored = self.challenge_cache.find(name, anew=True)
        plugin = self.challenge_cache.load_plugin(stored.challenge)
        deaths: dict[str, tuple[int, str]] = getattr(plugin, "deaths", {})
        for each in agents:
            deaths.pop(each, None)
        done = self.store.rescorings.resume(
            stored,
            make_rescorer(stored.challenge, plugin, tenant=self.store.tenant),
            agents,
            at=self._clock(),
            origin=origin_of_all(stored.challenge, plugin),
            deaths=deaths,
        )
        self.challenge_cache.forget_pauses()
        return done

    def arena(self, name: str) -> Arena:
        """A challenge of red against blue, ready to be played."""
        kept = self.store.challenges.find(name)
        # As it is now, which an organiser may have changed by hand.
        challenge = msgspec.structs.replace(kept.challenge, freezes_at=kept.freezes_at)
        judge = judge_of(
            challenge,
            self.challenge_cache.open_folder(challenge),
            policy=self._policy,
            judge_model=self._judge_model,
            answers=lambda: self.store.judge_answers,
        )
        judge = LimitedJudge(judge, self._find_egress)
        return Arena(self.store.versus, challenge, judge, clock=self._clock)

    def _make_version(
        self, old: Challenge, folder: Path | None, scoring: Mapping[str, Any]
    ) -> tuple[Challenge, bytes | None, Path]:
        """The rule to rescore by, its files if they differ, and their folder."""
        if folder is None:
            return change_scoring(old, **scoring), None, self.challenge_cache.open_folder(old)
        new = load_challenge(folder)
        if new.name != old.name:
            raise InvalidInput(f"the folder holds the challenge {new.name!r}, not {old.name!r}")
        if new.version == old.version:
            raise InvalidInput(f"{old.name} is scored by this version already")
        return new, pack(folder), folder

    def _load_public(self, challenge: Challenge, seed: int) -> Mapping[str, Any]:
        """The competitor's data. A failure may quote the truth, so it is only logged."""
        folder = self.challenge_cache.open_folder(challenge)
        try:
            return make_attempt_data(challenge, folder, seed, self._policy).public
        except OrganiserFault as error:
            note = {"seed": seed, "why": error.reason}
            self.store.challenges.note(challenge.name, "data failed", note, at=self._clock())
            raise WorkFailed(
                f"the data of {challenge.name!r} could not be made, and nothing was entered",
                hint="tell its organiser: the log of the challenge has the reason",
            ) from None

    def _expire_some(self) -> None:
        """Expire a few late attempts, once a second at most: to look for them is not free."""
        now = self._clock()
        if abs(now - self._swept_at) >= _SWEEP_S:
            self._swept_at = now
            self.store.attempts.expire_soon(now, most=_SWEPT)

    def _score_together(self, reports: Sequence[Reported]) -> list[Attempt]:
        """Score reported attempts of one challenge together; the rest is scored separately."""
        done = self._finish_together(reports) if len(reports) > 1 else {}
        return [done.get(each.id) or self._score_reported(each, told) for each, told in reports]

    def _finish_together(self, reports: Sequence[Reported]) -> dict[str, Attempt]:
        """Attempts that could be scored together, by id."""
        try:
            stored = self.challenge_cache.find(reports[0][0].challenge)
            verdicts = self._judge_together(reports, stored)
        except Exception:  # noqa: BLE001 (whose it is shows when each is scored by itself)
            return {}
        facts: Any = {"tenant": self.store.tenant, "revision": stored.revision}
        items = [
            Finish(attempt=attempt.id, verdict=verdict, at=self._clock(), **facts)
            for (attempt, _), verdict in zip(reports, verdicts, strict=True)
            # Together a plugin is given up that ends all its processes: that is for each to find.
            if verdict.outcome.details.get("scorer", {}).get("stopped") != "paused"
        ]
        answers = self.store.attempts.do_all(items)
        return {each.id: each for each in answers if isinstance(each, Attempt)}

    def _judge_together(
        self, reports: Sequence[Reported], stored: StoredChallenge
    ) -> list[Verdict]:
        found = []
        for attempt, metrics in reports:
            challenge = self.challenge_cache.find_version(attempt)
            payload = Payload(reported=_as_stored(metrics))
            shown = _verify_trajectory(attempt, payload, challenge)
            evaluation = self._evaluate(attempt, payload, challenge, shown, _NO_FOLDER)
            found.append((attempt, evaluation, shown))
        return [
            Verdict(evaluation, outcome, shown.verified)
            for (_, evaluation, shown), outcome in zip(
                found, self._score(found, stored), strict=True
            )
        ]

    def _score_reported(self, attempt: Attempt, metrics: Metrics) -> Attempt:
        payload = Payload(reported=_as_stored(metrics))
        return self._settle_attempt(attempt, Evidence(attempt, payload))

    def _settle_attempt(self, attempt: Attempt, evidence: Evidence | None = None) -> Attempt:
        """The attempt with its score, or with the server failure that delays it."""
        if attempt.state != "submitted":
            return attempt
        try:
            scored = self._score_submitted(evidence or self._read_evidence(attempt))
        except Exception as error:  # noqa: BLE001 (our failure never ends their attempt)
            self.store.attempts.wait(attempt.id, *_explain_wait(error), at=self._clock())
            scored = None
        return scored or self.store.attempts.get(attempt.id)

    def _read_evidence(self, attempt: Attempt) -> Evidence:
        with self.store.read():
            payload = self.store.attempts.payload(attempt.id)
            sent = payload.trajectory is not None and payload.reported is None
            seen = read_witnessed(self.store, attempt.id) if sent else None
        return Evidence(attempt, payload, seen)

    def _score_submitted(self, evidence: Evidence) -> Attempt | None:
        """Store its score once; None if it already has another."""
        attempt = evidence.attempt
        challenge = self.challenge_cache.find_version(attempt)
        shown = self._verify(evidence, challenge)
        folder = self.challenge_cache.open_folder(challenge)
        evaluation = self._evaluate(attempt, evidence.payload, challenge, shown, folder)

        def judge(stored: StoredChallenge) -> Verdict:
            (outcome,) = self._score([(attempt, evaluation, shown)], stored)
            return Verdict(evaluation, outcome, shown.verified)

        for anew in (False, True):
            stored = self.challenge_cache.find(attempt.challenge, anew=anew)
            try:
                return self._finish(evidence, judge(stored), stored.revision)
            except RuleChanged:  # between reading it and storing its score
                continue
        # The challenge is published faster than this is scored: wait for it now.
        return self._finish(evidence, judge)

    def _finish(
        self,
        evidence: Evidence,
        verdict: Verdict | Callable[[StoredChallenge], Verdict],
        revision: int | None = None,
    ) -> Attempt | None:
        how: Any = {"verdict": verdict, "revision": revision, "known": evidence.known}
        attempt, tenant = evidence.attempt.id, self.store.tenant
        item = Finish(tenant=tenant, attempt=attempt, at=self._clock(), **how)
        answer = self.store.attempts.do(item)
        return answer if isinstance(answer, Attempt) else None

    def _score(
        self, found: Sequence[tuple[Attempt, Evaluation, Verification]], stored: StoredChallenge
    ) -> list[Outcome]:
        """By the rule of today, so that all attempts of a board are scored by one."""
        outcomes = score_attempts(
            stored.challenge,
            [(attempt, evaluation) for attempt, evaluation, _ in found],
            self.challenge_cache.find_plugin(stored.challenge),
            trajectories=[shown for _, _, shown in found],
            tenant=self.store.tenant,
        )
        if any("stopped" in each.details.get("scorer", {}) for each in outcomes):
            self.challenge_cache.forget_pauses()  # this may be one attempt too many
        if self._policy is None or not self._policy.warnings:
            return outcomes
        warning = {"warning": "; ".join(self._policy.warnings)}
        return [msgspec.structs.replace(each, details=each.details | warning) for each in outcomes]

    def _verify(self, evidence: Evidence, challenge: Challenge) -> Verification:
        """Findings on an attempt's trajectory, unless it is a copy of another's."""
        attempt, payload, seen = evidence.attempt, evidence.payload, evidence.seen
        shown = _verify_trajectory(attempt, payload, challenge)
        if seen is not None and payload.trajectory is not None:
            shown = verify_witnessed(
                seen.trace,
                seen.arrivals,
                entered_at=attempt.entered_at,
                submitted_at=attempt.submitted_at or attempt.entered_at,
                claims=payload.metadata,
                constraints=challenge.constraints,
            )
        if shown.verified and self.store.attempts.has_earlier_twin(attempt.id):
            why = "the same steps were sent with an earlier attempt"
            return replace(shown, level="claimed", problems=(why,))
        return shown

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
            # Unverified counts must not win a board of fewest tokens.
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
        with self._limit_reach(challenge):
            return evaluate(submitted, setting)

    def _limit_reach(self, challenge: Challenge) -> AbstractContextManager[None]:
        """Evaluators of our own code open no model, so the egress policy is not looked up."""
        return limit_egress(None if challenge.evaluator.type in _QUICK else self._find_egress())


def _explain_wait(error: Exception) -> tuple[str, str | None]:
    """Why an attempt waits, for anybody; and what only organisers may know of it."""
    if isinstance(error, OrganiserFault):
        return str(error), error.reason
    if isinstance(error, TallymarkError):
        return str(error), None
    return f"internal error: {type(error).__name__}", show_value(error)


def _verify_trajectory(attempt: Attempt, payload: Payload, challenge: Challenge) -> Verification:
    if payload.reported is not None:  # by a system that is trusted: there is nothing to prove
        used = Usage(payload.reported.tokens_total, payload.reported.calls, payload.reported.cost)
        return Verification(level="none", violations=find_violations(used, challenge.constraints))
    return verify_sent(
        payload.trajectory,
        entered_at=attempt.entered_at,
        submitted_at=attempt.submitted_at or attempt.entered_at,
        claims=payload.metadata,
        constraints=challenge.constraints,
    )


def _as_stored(sent: T) -> T:
    """Round-trip a value as the store would: no infinite numbers, keys sorted."""
    return msgspec.json.decode(msgspec.json.encode(sent, order="sorted"), type=type(sent))


def _refuse_report(metrics: Metrics, challenge: Challenge) -> None:
    """Parts of a submission that the challenge does not take."""
    _refuse_other_kind(challenge, "report")
    declared = challenge.evaluator.options.get("metrics", ())
    for unknown in metrics.more.keys() - set(declared):
        close = suggest(unknown, [*Metrics.__struct_fields__, *declared])
        hint = f"did you mean {close!r}?" if close else "name it in evaluator.metrics"
        raise InvalidInput(f"{challenge.name} knows no metric {unknown!r}", hint=hint)
    if (below := find_below_zero(metrics)) is not None:
        place = Place(source=f"metrics.{below}")
        raise InvalidInput(f"{getattr(metrics, below)} is below zero", place=place)


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

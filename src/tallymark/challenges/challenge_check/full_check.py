"""`check_challenge`: everything that can be known of a challenge before anybody plays it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallymark.challenges.attempt import reaches
from tallymark.challenges.challenge_check.answer_checks import (
    check_answers,
    check_repeats,
    check_scoring,
)
from tallymark.challenges.challenge_check.challenge_trial import SEEDS, Trial
from tallymark.challenges.challenge_check.secrecy import check_public, check_sandbox
from tallymark.challenges.challenge_file import validate_challenge
from tallymark.challenges.challenge_report import ChallengeReport, CheckFinding
from tallymark.challenges.evaluators import find_evaluator
from tallymark.challenges.plugins import load_plugin
from tallymark.challenges.versus.judges import judge_of
from tallymark.challenges.versus.pairings import Meeting, require_versus
from tallymark.errors import InvalidInput, PluginNotLoaded
from tallymark.sandbox import Sandbox
from tallymark.sandbox.policy import choose_policy
from tallymark.text import format_number

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge
    from tallymark.challenges.plugins import Plugin
    from tallymark.formula import Finding as FormulaFinding
    from tallymark.sandbox import Policy

SHORTEST_S = 10.0
LONGEST_S = 7 * 86_400.0
LARGEST_BYTES = 10_000_000
LONGEST_RUN_S = 60.0
MOST_MEMORY_MB = 4096
LONGEST_SCORING_MS = 30_000
_LIMITS = "limits"
_JUNK_TEXTS = ("", "x", "{}", "[1, 2", "null", "\N{PILE OF POO}" * 50, "lorem ipsum " * 100)
_JUNK_VALUES: tuple[Any, ...] = (None, True, 7, "x", [], {}, {"x": [None]}, [[1], {"y": ""}])


def check_challenge(
    folder: Path | str,
    *,
    policy: Policy | None = None,
    judge_model: str | None = None,
    samples: int = 20,
) -> ChallengeReport:
    """Try the challenge in a folder. `samples` is the number of random answers.

    A judge is called only with `judge_model`, because it may cost money. WorkFailed is raised if
    there is code to run and this machine cannot run it safely.
    """
    folder = Path(folder)
    try:
        challenge, notes = validate_challenge(folder)
    except InvalidInput as error:
        findings = tuple(CheckFinding("problem", "file", str(each)) for each in error.problems)
        return ChallengeReport(folder=str(folder), ok=False, findings=findings)
    found = [CheckFinding("ok", "file", _describe_kind(challenge))]
    found += _check_formula(challenge, notes)
    found += check_limits(challenge)
    if challenge.kind == "versus":
        found += check_versus(challenge, folder, policy, judge_model)
    else:
        found += _try_answers(challenge, folder, policy, judge_model, samples)
    return ChallengeReport(
        folder=str(folder),
        challenge=challenge.name,
        version=challenge.version,
        ok=all(each.level != "problem" for each in found),
        findings=tuple(found),
    )


def _try_answers(
    challenge: Challenge,
    folder: Path,
    policy: Policy | None,
    judge_model: str | None,
    samples: int,
) -> Iterator[CheckFinding]:
    """Checks that need submitted answers."""
    with ExitStack() as open_until_the_end:
        trial = Trial(
            challenge=challenge,
            folder=folder,
            policy=_find_policy(challenge, policy),
            judge_model=judge_model,
            plugin=_open_plugin(challenge, folder, policy, open_until_the_end),
        )
        try:
            data = trial.data(SEEDS[0])
        except InvalidInput as error:
            yield CheckFinding("problem", "data", str(error))
            return
        try:
            yield from check_scoring(trial)
            yield from check_answers(trial, samples)
            yield from check_repeats(trial, samples)
        except PluginNotLoaded as error:
            yield CheckFinding("problem", "scoring", str(error))
        yield from check_public(challenge, data)
        yield from check_sandbox(trial)


def _find_policy(challenge: Challenge, given: Policy | None) -> Policy | None:
    """The sandbox; opened before any check, so that nothing is half checked."""
    runs_code = find_evaluator(challenge.evaluator.type).runs_code or challenge.generate
    if given is None and (runs_code or (challenge.reference or "").endswith(".py")):
        return choose_policy()
    return given


def _open_plugin(
    challenge: Challenge, folder: Path, policy: Policy | None, stack: ExitStack
) -> Plugin | None:
    if challenge.scoring.plugin is None:
        return None
    return load_plugin(
        challenge.scoring.plugin,
        folder=folder,
        sandbox=lambda: stack.enter_context(Sandbox(policy)),
    )


def _check_formula(challenge: Challenge, notes: Iterable[FormulaFinding]) -> Iterator[CheckFinding]:
    if challenge.scoring.formula is None:
        return
    notes = list(notes)
    for each in notes:
        yield CheckFinding("warning" if each.level == "warning" else "ok", "formula", each.message)
    if not notes:
        yield CheckFinding("ok", "formula", challenge.scoring.formula)


def _describe_kind(challenge: Challenge) -> str:
    scoring, how = challenge.scoring, challenge.evaluator.type
    if challenge.versus is not None:
        categories = ", ".join(challenge.versus.categories)
        return f"red against blue in {categories}, by a {challenge.versus.judge.type}"
    if scoring.plugin or scoring.formula:
        return f"{how}, scored by {scoring.plugin or 'a formula'}"
    if scoring.dimensions:
        return f"{how}, scored by {', '.join(each.key for each in scoring.dimensions)}"
    return f"{how}, ordered by {scoring.strategy}"


def check_limits(challenge: Challenge, now: float | None = None) -> Iterator[CheckFinding]:
    """A warning for each limit that is probably not meant, or one word that all are fine."""
    odd = [
        *_find_odd_times(challenge, time.time() if now is None else now),
        *_find_odd_sizes(challenge),
        *_find_odd_constraints(challenge),
    ]
    for said in odd:
        yield CheckFinding("warning", _LIMITS, said)
    if not odd:
        limit = format_number(challenge.time_limit_s)
        detail = f"{limit} s for an attempt, {_describe_attempts(challenge)}"
        yield CheckFinding("ok", _LIMITS, detail)


def _find_odd_times(challenge: Challenge, now: float) -> Iterator[str]:
    limit, opens, closes = challenge.time_limit_s, challenge.opens_at, challenge.closes_at
    if limit < SHORTEST_S:
        yield f"an attempt has only {format_number(limit)} s, and requests take their time too"
    if limit > LONGEST_S:
        yield f"an attempt may stay open for {format_number(round(limit / 86_400, 1))} days"
    if closes is not None and closes <= now:
        yield "it is closed already, so no agent can enter"
    if closes is not None and opens is not None and closes - opens < limit:
        yield "it is open for less time than one attempt may take"


def _find_odd_constraints(challenge: Challenge) -> Iterator[str]:
    bounds = challenge.constraints
    if bounds.on_violation != "note" and not reaches(challenge.trajectory, "consistent"):
        yield (
            "who sends no trajectory passes no bound, and ranks;"
            " write trajectory: {least: consistent}"
        )


def _find_odd_sizes(challenge: Challenge) -> Iterator[str]:
    options, kind = challenge.evaluator.options, find_evaluator(challenge.evaluator.type)
    runs = [options, options.get("run") or {}]
    if challenge.submission.max_bytes > LARGEST_BYTES:
        yield f"a submission may have {challenge.submission.max_bytes:,} bytes"
    if kind.runs_code:
        for each in runs:
            if each.get("time", 0) > LONGEST_RUN_S:
                time = format_number(each["time"])
                yield f"one run may take {time} s, and every attempt can use them up"
            if each.get("memory", 0) > MOST_MEMORY_MB:
                yield f"one run may use {each['memory']:,} MB of memory"
    if challenge.scoring.timeout_ms > LONGEST_SCORING_MS:
        yield f"scoring may take {format_number(challenge.scoring.timeout_ms / 1000)} s"
    unlimited = challenge.attempts is None and challenge.attempts_per_day is None
    if unlimited and not kind.reported and challenge.kind == "solo":
        yield "attempts are not limited, so answers can be guessed; write attempts: NUMBER"


def _describe_attempts(challenge: Challenge) -> str:
    most = challenge.attempts
    in_all = "any number of attempts" if most is None else f"{most} attempts"
    daily = challenge.attempts_per_day
    return in_all if daily is None else f"{in_all}, {daily} a day"


def check_versus(
    challenge: Challenge, folder: Path, policy: Policy | None, judge_model: str | None
) -> Iterator[CheckFinding]:
    """A judge must answer every submission, the same way every time, in any order."""
    versus = require_versus(challenge)
    if versus.judge.type == "judge" and judge_model is None:
        said = "not run, because it may cost money; name a model with --judge"
        yield CheckFinding("ok", "judge", said)
        return
    judge = judge_of(challenge, folder, policy=policy, judge_model=judge_model)
    meetings = [
        Meeting(attack, defence, category)
        for attack, defence in _pair_junk(challenge.submission.format)
        for category in versus.categories
    ]
    first = judge.rule(meetings)
    failed = [each.error for each in first if each.error is not None]
    if failed:
        counted = f"{len(failed)} of {len(meetings)} meetings of nonsense have no verdict"
        yield CheckFinding("problem", "judge", f"{counted}: {failed[0]}")
    else:
        yield CheckFinding("ok", "judge", f"it judges all of {len(meetings)} meetings of nonsense")
    if judge.rule(meetings[::-1])[::-1] == first:
        yield CheckFinding("ok", "determinism", "the same again, in the other order")
    else:
        said = "judged again in another order, verdicts differ"
        yield CheckFinding("problem", "determinism", said)


def _pair_junk(form: str) -> Iterator[tuple[Any, Any]]:
    """Every kind of nonsense, once on each side."""
    kinds: tuple[Any, ...] = _JUNK_VALUES if form == "json" else _JUNK_TEXTS
    if form == "files":
        kinds = tuple({"main.py": text} for text in _JUNK_TEXTS)
    yield from zip(kinds, kinds[1:] + kinds[:1], strict=True)

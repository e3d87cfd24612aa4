"""`check_challenge`: everything that can be known of a challenge before anybody plays it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from tallymark.challenges.checking.answers import check_answers
from tallymark.challenges.checking.limits import check_limits
from tallymark.challenges.checking.repeating import check_repeats
from tallymark.challenges.checking.report import ChallengeReport, CheckFinding
from tallymark.challenges.checking.secrecy import check_public, check_sandbox
from tallymark.challenges.checking.trial import SEEDS, Trial
from tallymark.challenges.checking.versus import check_versus
from tallymark.challenges.file.loading import validate_challenge
from tallymark.challenges.plugins import find_plugin, prepare_plugin
from tallymark.errors import InvalidInput
from tallymark.sandbox import PluginCode, Sandbox
from tallymark.sandbox.policy import choose_policy as current_policy

if TYPE_CHECKING:
    from tallymark.challenges.definition import Challenge
    from tallymark.challenges.plugins import Plugin
    from tallymark.formula import Finding as FormulaFinding
    from tallymark.sandbox import Policy


def check_challenge(
    folder: Path | str,
    *,
    policy: Policy | None = None,
    judge_model: str | None = None,
    samples: int = 20,
) -> ChallengeReport:
    """Try the challenge in a folder. `samples` is how many random answers are tried.

    A judge is asked only when `judge_model` names one, because that may cost money. WorkFailed is
    raised when there is code to run, and this machine cannot run it safely.
    """
    folder = Path(folder)
    try:
        challenge, notes = validate_challenge(folder)
    except InvalidInput as error:
        findings = tuple(CheckFinding("problem", "file", str(each)) for each in error.problems)
        return ChallengeReport(str(folder), None, None, findings)
    found = [CheckFinding("ok", "file", _describe_kind(challenge))]
    found += _check_formula(challenge, notes)
    found += check_limits(challenge)
    if challenge.kind == "versus":
        found += check_versus(challenge, folder, policy, judge_model)
    else:
        found += _try_answers(challenge, folder, policy, judge_model, samples)
    return ChallengeReport(str(folder), challenge.name, challenge.version, tuple(found))


def _try_answers(
    challenge: Challenge,
    folder: Path,
    policy: Policy | None,
    judge_model: str | None,
    samples: int,
) -> Iterator[CheckFinding]:
    """What only shows when answers are submitted."""
    with ExitStack() as open_until_the_end:
        trial = Trial(
            challenge=challenge,
            folder=folder,
            policy=_choose_policy(challenge, policy),
            judge_model=judge_model,
            plugin=_open_plugin(challenge, folder, policy, open_until_the_end),
        )
        try:
            data = trial.data(SEEDS[0])
        except InvalidInput as error:
            yield CheckFinding("problem", "data", str(error))
            return
        yield from check_answers(trial, samples)
        yield from check_repeats(trial, samples)
        yield from check_public(challenge, data)
        yield from check_sandbox(trial)


def _choose_policy(challenge: Challenge, given: Policy | None) -> Policy | None:
    """How code is run here; asked before anything is tried, so that nothing is half checked."""
    runs_code = challenge.evaluator.type in ("tests", "script") or challenge.generate
    if given is None and (runs_code or (challenge.reference or "").endswith(".py")):
        return current_policy()
    return given


def _open_plugin(
    challenge: Challenge, folder: Path, policy: Policy | None, stack: ExitStack
) -> Plugin | None:
    if challenge.scoring.plugin is None:
        return None
    found = find_plugin(challenge.scoring.plugin, folder=folder)
    needed = isinstance(found, PluginCode)
    return prepare_plugin(found, stack.enter_context(Sandbox(policy)) if needed else None)


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

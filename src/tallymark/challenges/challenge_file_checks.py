"""What a challenge file says in one place and contradicts in another."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tallymark.challenges.attempt_formula import challenge_formula
from tallymark.challenges.dimension_scores import weighted_dimensions
from tallymark.challenges.evaluators import find_evaluator
from tallymark.challenges.evaluators.submission_intake import check_schema
from tallymark.challenges.plugins.plugin_lookup import find_plugin
from tallymark.challenges.versus.judges import check_judge
from tallymark.errors import InvalidInput, Problem, suggest
from tallymark.formula import Finding

if TYPE_CHECKING:
    from pathlib import Path

    from tallymark.challenges.challenge import Challenge
    from tallymark.documents.located_errors import LocatedErrors


def check_challenge_file(challenge: Challenge, folder: Path, at: LocatedErrors) -> list[Finding]:
    """Report every contradiction; gives what is allowed, but perhaps not meant.

    A section that has a mistake of its own is not compared with others.
    """
    findings: list[Finding] = []
    if at.is_sound("opens", "closes", "freezes"):
        _check_times(challenge, at)
    if at.is_sound("kind", "versus"):
        _check_versus(challenge, at)
    if at.is_sound("scoring", "constraints"):
        _check_dimensions(challenge, at)
    if at.is_sound("scoring"):
        _check_dimension_names(challenge, at)
        _check_plugin(challenge, folder, at)
        findings = _check_formula(challenge, at) if at.is_sound("evaluator") else []
    if at.is_sound("submission"):
        schema = challenge.submission.schema or {}
        at.report_errors_of(("submission", "schema"), lambda: check_schema(schema))
    if at.is_sound("data", "evaluator", "reference"):
        _check_files(challenge, at)
    if at.is_sound("data", "evaluator", "scoring", "submission", "versus"):
        at.report_errors_of(("evaluator",), lambda: _check_evaluator(challenge, folder))
    return findings


def _check_evaluator(challenge: Challenge, folder: Path) -> None:
    if challenge.kind == "versus":
        if challenge.versus is not None:
            check_judge(challenge, folder)
        return
    problems = find_evaluator(challenge.evaluator.type).check(challenge, folder)
    if problems:
        raise InvalidInput(problems)


def _check_times(challenge: Challenge, at: LocatedErrors) -> None:
    opens, closes, freezes = challenge.opens_at, challenge.closes_at, challenge.freezes_at
    if opens is not None and closes is not None and closes <= opens:
        at.wrong(("closes",), "it closes before it opens")
    if freezes is not None and opens is not None and freezes < opens:
        at.wrong(("freezes",), "the board would freeze before the challenge opens")
    if freezes is not None and closes is not None and freezes > closes:
        at.wrong(("freezes",), "the board would freeze after the challenge closes")


def _check_versus(challenge: Challenge, at: LocatedErrors) -> None:
    if challenge.kind == "versus" and challenge.versus is None:
        hint = "add versus: {categories: [...], judge: {...}}"
        at.wrong(("kind",), "a versus challenge needs the key 'versus'", hint)
    if challenge.kind == "solo" and challenge.versus is not None:
        at.wrong(("versus",), "only a challenge of kind: versus has this key")
    categories = challenge.versus.categories if challenge.versus is not None else ()
    for twice in sorted({each for each in categories if categories.count(each) > 1}):
        at.wrong(("versus", "categories"), f"the category '{twice}' is here twice")


def _check_dimensions(challenge: Challenge, at: LocatedErrors) -> None:
    weights = challenge.scoring.dimensions
    keys = [each.key for each in weights]
    here = ("scoring", "dimensions")
    if weights:
        at.report_errors_of(here, lambda: weighted_dimensions(weights), keys)
    for key, bound in (("token_efficiency", "tokens"), ("call_efficiency", "calls")):
        if key in keys and getattr(challenge.constraints, bound) is None:
            hint = f"write constraints: {{{bound}: ...}}"
            at.wrong((*here, key), f"{key} needs to know how many {bound} are allowed", hint)


def _check_dimension_names(challenge: Challenge, at: LocatedErrors) -> None:
    """Wherever a dimension is named, it is one that counts."""
    keys = [each.key for each in challenge.scoring.dimensions]
    named = [
        *at.find_texts("dimension", ("evaluator",)),
        *at.find_texts("schema_dimension", ("submission",)),
    ]
    for path, key in named:
        if keys and key not in keys:
            near = suggest(key, keys)
            hint = f"did you mean '{near}'?" if near else f"it weighs {', '.join(keys)}"
            at.wrong(path, f"the challenge does not weigh '{key}'", hint)


def _check_files(challenge: Challenge, at: LocatedErrors) -> None:
    """What must stay secret is not handed out."""
    named = find_evaluator(challenge.evaluator.type).secret_files(challenge)
    secret = {challenge.generate, challenge.reference, *named}
    for name in challenge.public:
        if name in secret:
            at.wrong(("data", "public"), f"{name} is not for competitors", "take it off the list")


def _check_plugin(challenge: Challenge, folder: Path, at: LocatedErrors) -> None:
    reference = challenge.scoring.plugin
    flat = "scoring_entrypoint" if at.node(("scoring_entrypoint",)) else "scoring_plugin_id"
    path = ("scoring", "plugin") if at.node(("scoring",)) is not None else (flat,)
    if reference is not None:
        at.report_errors_of(path, lambda: find_plugin(reference, folder=folder))


def _check_formula(challenge: Challenge, at: LocatedErrors) -> list[Finding]:
    key = ("scoring", "formula")
    if challenge.scoring.formula is None:
        return []
    try:
        found = challenge_formula(challenge).formula.lint().findings
    except InvalidInput as error:
        for problem in error.problems:
            place = at.within(key, problem.place)
            message = f"{', '.join(key)}: {problem.message}"
            at.reader.report(Problem(message, place, problem.hint))
        return []
    return [replace(each, place=at.within(key, each.place)) for each in found]

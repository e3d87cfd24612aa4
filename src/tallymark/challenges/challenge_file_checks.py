"""Contradictions within a challenge file."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tallymark.challenges.attempt_formula import challenge_formula
from tallymark.challenges.challenge import Constraints
from tallymark.challenges.dimension_scores import weighted_dimensions
from tallymark.challenges.evaluators import find_evaluator
from tallymark.challenges.evaluators.submission_intake import check_schema
from tallymark.challenges.plugins.plugin_lookup import find_plugin
from tallymark.challenges.versus.judges import check_judge
from tallymark.errors import InvalidInput, suggest
from tallymark.formula import Finding

if TYPE_CHECKING:
    from pathlib import Path

    from tallymark.challenges.challenge import Challenge
    from tallymark.documents.reader import Reader


def check_challenge_file(challenge: Challenge, folder: Path, reader: Reader) -> list[Finding]:
    """Report every contradiction; gives what is allowed, but perhaps not meant.

    A section that has a mistake of its own is not compared with others.
    """
    findings: list[Finding] = []
    if reader.is_sound("opens", "closes", "freezes"):
        _check_times(challenge, reader)
    if reader.is_sound("kind", "versus"):
        _check_versus(challenge, reader)
    if reader.is_sound("constraints", "trajectory", "evaluator", "kind"):
        _check_trajectory(challenge, reader)
    if reader.is_sound("scoring", "constraints"):
        _check_dimensions(challenge, reader)
    if reader.is_sound("scoring"):
        _check_dimension_names(challenge, reader)
        _check_plugin(challenge, folder, reader)
        findings = _check_formula(challenge, reader) if reader.is_sound("evaluator") else []
    if reader.is_sound("submission"):
        schema = challenge.submission.schema or {}
        with reader.errors_at("submission", "schema"):
            check_schema(schema)
    if reader.is_sound("data", "evaluator", "reference"):
        _check_files(challenge, reader)
    if reader.is_sound("data", "evaluator", "scoring", "submission", "versus"):
        with reader.errors_at("evaluator"):
            _check_evaluator(challenge, folder)
    return findings


def _check_evaluator(challenge: Challenge, folder: Path) -> None:
    if challenge.kind == "versus":
        if challenge.versus is not None:
            check_judge(challenge, folder)
        return
    problems = find_evaluator(challenge.evaluator.type).check(challenge, folder)
    if problems:
        raise InvalidInput(problems)


def _check_times(challenge: Challenge, reader: Reader) -> None:
    opens, closes, freezes = challenge.opens_at, challenge.closes_at, challenge.freezes_at
    if opens is not None and closes is not None and closes <= opens:
        reader.wrong_at(("closes",), "it closes before it opens")
    if freezes is not None and opens is not None and freezes < opens:
        reader.wrong_at(("freezes",), "the board would freeze before the challenge opens")
    if freezes is not None and closes is not None and freezes > closes:
        reader.wrong_at(("freezes",), "the board would freeze after the challenge closes")


def _check_versus(challenge: Challenge, reader: Reader) -> None:
    if challenge.kind == "versus" and challenge.versus is None:
        hint = "add versus: {categories: [...], judge: {...}}"
        reader.wrong_at(("kind",), "a versus challenge needs the key 'versus'", hint)
    if challenge.kind == "solo" and challenge.versus is not None:
        reader.wrong_at(("versus",), "only a challenge of kind: versus has this key")
    categories = challenge.versus.categories if challenge.versus is not None else ()
    for twice in sorted({each for each in categories if categories.count(each) > 1}):
        reader.wrong_at(("versus", "categories"), f"the category '{twice}' is here twice")


def _check_trajectory(challenge: Challenge, reader: Reader) -> None:
    bounds, least = challenge.constraints, challenge.trajectory
    if bounds == Constraints(on_violation=bounds.on_violation) != Constraints():
        here = ("constraints", "on_violation")
        reader.wrong_at(here, "there is no bound to pass", "add tokens, calls, cost or tools")
    reported = find_evaluator(challenge.evaluator.type).reported
    if least != "none" and (reported or challenge.kind == "versus"):
        message = "no trajectory is sent to this challenge, so no agent could rank"
        reader.wrong_at(("trajectory",), message, "take it out")


def _check_dimensions(challenge: Challenge, reader: Reader) -> None:
    weights = challenge.scoring.dimensions
    keys = [each.key for each in weights]
    here = ("scoring", "dimensions")
    if weights:
        with reader.errors_at(*here, named=keys):
            weighted_dimensions(weights)
    for key, bound in (("token_efficiency", "tokens"), ("call_efficiency", "calls")):
        if key in keys and getattr(challenge.constraints, bound) is None:
            hint = f"write constraints: {{{bound}: ...}}"
            reader.wrong_at((*here, key), f"{key} needs to know how many {bound} are allowed", hint)


def _check_dimension_names(challenge: Challenge, reader: Reader) -> None:
    """Refuse unknown dimensions wherever one is named."""
    keys = [each.key for each in challenge.scoring.dimensions]
    named = [
        *reader.find_texts("dimension", "evaluator"),
        *reader.find_texts("schema_dimension", "submission"),
    ]
    for path, key in named:
        if keys and key not in keys:
            near = suggest(key, keys)
            hint = f"did you mean '{near}'?" if near else f"it weighs {', '.join(keys)}"
            reader.wrong_at(path, f"the challenge does not weigh '{key}'", hint)


def _check_files(challenge: Challenge, reader: Reader) -> None:
    """Refuse secret files among the public ones."""
    named = find_evaluator(challenge.evaluator.type).secret_files(challenge)
    secret = {challenge.generate, challenge.reference, *named}
    for name in challenge.public:
        if name in secret:
            reader.wrong_at(
                ("data", "public"), f"{name} is not for competitors", "take it off the list"
            )


def _check_plugin(challenge: Challenge, folder: Path, reader: Reader) -> None:
    reference = challenge.scoring.plugin
    flat = "scoring_entrypoint" if reader.find("scoring_entrypoint") else "scoring_plugin_id"
    keys = ("scoring", "plugin") if reader.find("scoring") is not None else (flat,)
    if reference is not None:
        with reader.errors_at(*keys):
            find_plugin(reference, folder=folder)


def _check_formula(challenge: Challenge, reader: Reader) -> list[Finding]:
    keys = ("scoring", "formula")
    found: tuple[Finding, ...] = ()
    if challenge.scoring.formula is not None:
        try:
            found = challenge_formula(challenge).formula.lint().findings
        except InvalidInput as error:
            reader.report_within(error, *keys)
    return [replace(each, place=reader.place_within(each.place, *keys)) for each in found]

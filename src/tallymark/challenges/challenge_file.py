"""`load_challenge`: read a challenge folder, or report every mistake in its file at once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from tallymark.challenges.attempt_formula import challenge_formula
from tallymark.challenges.challenge import (
    MAX_NAME,
    Challenge,
    Constraints,
    DimensionWeight,
    Evaluator,
    ScoringRule,
    Submission,
    Versus,
    VersusJudge,
    make_slug,
)
from tallymark.challenges.challenge_folder import hash_folder
from tallymark.challenges.challenge_format import CHALLENGE, FLAT
from tallymark.challenges.dimension_scores import weighted_dimensions
from tallymark.challenges.evaluators import find_evaluator
from tallymark.challenges.evaluators.submission_intake import check_schema
from tallymark.challenges.plugins.plugin_lookup import find_plugin
from tallymark.challenges.versus.judges import check_judge
from tallymark.documents.reader import MISSING, Reader, open_document, read_plain
from tallymark.errors import InvalidInput, suggest
from tallymark.formula import Finding
from tallymark.sandbox.limits import DEFAULT_PLUGIN_TIMEOUT_S

NAMES = ("challenge.yaml", "challenge.yml", "challenge.json")


def load_challenge(folder: Path | str) -> Challenge:
    """The challenge in a folder; InvalidInput carries every mistake with its place."""
    return validate_challenge(folder)[0]


def validate_challenge(folder: Path | str) -> tuple[Challenge, list[Finding]]:
    """The challenge, and what its author should know of it."""
    folder = Path(folder)
    reader = open_document(_find_file(folder), "challenge")
    values = CHALLENGE.read(reader.root, reader)
    if values is MISSING or not reader.is_sound(""):  # a key may be there under another name
        reader.check()
    values = {key: value for key, value in values.items() if reader.is_sound(key)}
    for key in FLAT:
        if key in values and "scoring" in values:
            reader.wrong_at((key,), f"'{key}' repeats what 'scoring' sets", "keep one of them")
    challenge = _make_challenge(values, _read_scoring(values, reader), folder, reader)
    findings = _check_contradictions(challenge, folder, reader)
    reader.check()
    return challenge, findings


def _find_file(folder: Path) -> Path:
    if not folder.is_dir():
        raise InvalidInput(f"there is no folder {folder}", hint="check the path")
    found = [folder / name for name in NAMES if (folder / name).is_file()]
    if not found:
        raise InvalidInput(
            f"{folder} has no challenge.yaml", hint="a challenge is a folder with one"
        )
    if len(found) > 1:
        raise InvalidInput(f"{folder} has both {found[0].name} and {found[1].name}")
    return found[0]


def _read_scoring(values: dict[str, Any], reader: Reader) -> ScoringRule:
    flat = {
        "strategy": values.get("scoring_strategy"),
        "plugin": values.get("scoring_entrypoint", values.get("scoring_plugin_id")),
        "config": values.get("scoring_config"),
    }
    given = values.get("scoring", flat)
    dimensions = tuple(
        DimensionWeight(key=key, **(each if isinstance(each, dict) else {"weight": each}))
        for key, each in given.get("dimensions", {}).items()
    )
    scored = given.get("plugin") or given.get("formula") or dimensions
    scoring = ScoringRule(
        strategy=given.get("strategy") or ("custom" if scored else "first"),
        plugin=given.get("plugin"),
        formula=given.get("formula"),
        dimensions=dimensions,
        config=given.get("config") or {},
        timeout_ms=round(given.get("timeout", DEFAULT_PLUGIN_TIMEOUT_S) * 1000),
    )
    where = ("scoring",) if "scoring" in values else ("scoring_strategy",)
    if scoring.plugin and scoring.formula:
        reader.wrong_at(where, "there is a plugin and a formula, and one score", "keep one of them")
    elif scoring.strategy == "custom" and not scored:
        hint = "add dimensions, a formula or a plugin, or take another strategy"
        reader.wrong_at(where, "'custom' is by score, and nothing here gives one", hint)
    elif scoring.strategy != "custom" and (scoring.plugin or scoring.formula):
        what = "plugin" if scoring.plugin else "formula"
        message = f"the board is by '{scoring.strategy}', so the {what} would not matter"
        reader.wrong_at(where, message, "write strategy: custom")
    return scoring


def _make_challenge(
    values: dict[str, Any], scoring: ScoringRule, folder: Path, reader: Reader
) -> Challenge:
    attempts = values.get("attempts", {})
    attempts = attempts if isinstance(attempts, dict) else {"total": attempts}
    data = values.get("data", {})
    public = data.get("public", [])
    versus = _read_versus(values)
    name = _make_name(values["name"], reader)
    title = values.get("title", values["name"])
    constraints = values.get("constraints", {})
    trajectory = values.get("trajectory", "none")
    if isinstance(trajectory, dict):
        trajectory = trajectory.get("least", "none")
    if "tools" in constraints:
        constraints["tools"] = tuple(constraints["tools"])
    return Challenge(
        name=name,
        title=title,
        goal=values.get("goal", title),
        version=hash_folder(folder),
        difficulty=values.get("difficulty", "contender"),
        kind=values.get("kind", "solo"),
        rated=values.get("rated"),
        time_limit_s=values.get("time_limit", 3600.0),
        attempts=attempts.get("total"),
        attempts_per_day=attempts.get("per_day"),
        opens_at=values.get("opens"),
        closes_at=values.get("closes"),
        freezes_at=values.get("freezes"),
        constraints=Constraints(**constraints),
        trajectory=trajectory,
        submission=_read_submission(values.get("submission", {}), folder, reader),
        evaluator=Evaluator(**_split_options(values.get("evaluator", {"type": "reported"}))),
        scoring=scoring,
        generate=data.get("generate"),
        public=(public,) if isinstance(public, str) else tuple(public),
        reference=values.get("reference"),
        versus=versus,
        visibility=values.get("visibility", "private"),
        one_per=values.get("one_per", "agent"),
    )


def _make_name(text: str, reader: Reader) -> str:
    """The name as it is, or made from a title: Advanced Prompt -> advanced-prompt."""
    slug = make_slug(text)
    if not slug:
        message = f"a name has 1 to {MAX_NAME} letters, digits and hyphens"
        reader.wrong_at(("name",), message, "write a longer one as the title")
    return slug


def _read_submission(values: dict[str, Any], folder: Path, reader: Reader) -> Submission:
    schema = values.get("schema")
    if isinstance(schema, str):
        values = values | {"schema": _read_schema(folder / schema, reader)}
    return Submission(**values)


def _read_schema(path: Path, reader: Reader) -> Any:
    schema: Any = {}
    with reader.errors_at("submission", "schema"):
        schema = read_plain(path, "challenge")
    if isinstance(schema, dict):
        return schema
    message = f"{path.name} holds no JSON Schema, which is a mapping"
    reader.wrong_at(("submission", "schema"), message)
    return None


def _split_options(values: dict[str, Any]) -> dict[str, Any]:
    """The type, and apart from it that type's own options."""
    options = {key: value for key, value in values.items() if key != "type"}
    return {"type": values["type"], "options": options}


def _read_versus(values: dict[str, Any]) -> Versus | None:
    given = values.get("versus")
    if given is None:
        return None
    judge = VersusJudge(**_split_options(given["judge"]))
    return Versus(categories=tuple(given["categories"]), judge=judge)


def _check_contradictions(challenge: Challenge, folder: Path, reader: Reader) -> list[Finding]:
    """Report contradictions between keys as errors; return findings about the formula.

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

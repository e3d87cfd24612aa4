"""`load_challenge`: from a folder to a `Challenge`, or to every mistake in its file at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
from tallymark.challenges.challenge_file_checks import check_challenge_file
from tallymark.challenges.challenge_folder import hash_folder
from tallymark.challenges.challenge_format import CHALLENGE, FLAT
from tallymark.documents.reader import MISSING, Reader, open_document, read_plain
from tallymark.errors import InvalidInput
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
    findings = check_challenge_file(challenge, folder, reader)
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

"""`load_challenge`: from a folder to a `Challenge`, or to every mistake in its file at once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from tallymark.challenges.challenge import Challenge, ScoringRule
from tallymark.challenges.challenge_file_checks import check_challenge_file
from tallymark.challenges.challenge_folder import hash_folder
from tallymark.challenges.challenge_format import CHALLENGE, FLAT
from tallymark.documents.reader import MISSING, Reader, open_document, read_plain
from tallymark.errors import InvalidInput
from tallymark.formula import Finding

NAMES = ("challenge.yaml", "challenge.yml", "challenge.json")
MAX_NAME = 100
_FIELDS = {
    "time_limit": "time_limit_s",
    "opens": "opens_at",
    "closes": "closes_at",
    "freezes": "freezes_at",
}
"""Keys whose values have another name once they are seconds."""


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
            reader.wrong_at((key,), f"'{key}' says what 'scoring' says", "keep one of them")
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
    given = values.get("scoring", {name: each for name, each in flat.items() if each is not None})
    dimensions = [
        {"key": key, **(each if isinstance(each, dict) else {"weight": each})}
        for key, each in given.get("dimensions", {}).items()
    ]
    scored = "plugin" in given or "formula" in given or dimensions
    rule = {"strategy": "custom" if scored else "first", **given, "dimensions": dimensions}
    if "timeout" in given:
        rule["timeout_ms"] = round(given["timeout"] * 1000)
    scoring = msgspec.convert(rule, ScoringRule)
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
    attempts, data, versus = (values.get(key) for key in ("attempts", "data", "versus"))
    limits = attempts if isinstance(attempts, dict) else {"total": attempts}
    public = data.get("public", []) if data else []
    title = values.get("title", values["name"])
    submission = values.get("submission", {})
    if isinstance(schema := submission.get("schema"), str):
        submission = submission | {"schema": _read_schema(folder / schema, reader)}
    given = {
        "goal": title,
        **{_FIELDS.get(key, key): value for key, value in values.items()},
        **(data or {}),
        "name": _make_name(values["name"], reader),
        "title": title,
        "version": hash_folder(folder),
        "attempts": limits.get("total"),
        "attempts_per_day": limits.get("per_day"),
        "submission": submission,
        "evaluator": _split_options(values.get("evaluator", {"type": "reported"})),
        "scoring": scoring,
        "public": [public] if isinstance(public, str) else public,
        "versus": versus and versus | {"judge": _split_options(versus["judge"])},
    }
    return msgspec.convert(given, Challenge)


def _make_name(text: str, reader: Reader) -> str:
    """The name as it is, or made from a title: Advanced Prompt -> advanced-prompt."""
    slug = "-".join(re.findall(r"[a-z0-9]+", text.lower()))[: MAX_NAME + 1]
    if len(slug) > MAX_NAME or not slug:
        message = f"a name has 1 to {MAX_NAME} letters, digits and hyphens"
        reader.wrong_at(("name",), message, "write a longer one as the title")
    return slug


def _read_schema(path: Path, reader: Reader) -> Any:
    with reader.errors_at("submission", "schema"):
        schema = read_plain(path, "challenge")
        if isinstance(schema, dict):
            return schema
        raise InvalidInput(f"{path.name} holds no JSON Schema, which is a mapping")
    return None


def _split_options(values: dict[str, Any]) -> dict[str, Any]:
    """The type, and apart from it that type's own options."""
    options = {key: value for key, value in values.items() if key != "type"}
    return {"type": values["type"], "options": options}

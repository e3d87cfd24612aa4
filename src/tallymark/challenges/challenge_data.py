"""The data of a challenge: what competitors get, and the truth, which they never do.

`generate.py` makes both from an attempt's seed, in the sandbox; without it they are files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallymark.challenges.challenge_folder import find_name_problem
from tallymark.challenges.organiser_script import call_script
from tallymark.documents.bounded_json import read_json
from tallymark.documents.reader import read_plain
from tallymark.errors import InvalidInput, OrganiserFault
from tallymark.scoring.score import show_value

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge
    from tallymark.sandbox import Policy

MAX_BYTES = 10_000_000
"""Maximum size of public data and truth together."""
TIME_S = 30.0
MEMORY_MB = 1024


@dataclass(frozen=True, slots=True)
class ChallengeData:
    """A fresh copy for every caller, so that changes do not affect others."""

    public: dict[str, Any]
    """Texts or JSON values by name: all that a competitor gets."""
    truth: Any = None


def load_challenge_data(
    challenge: Challenge, folder: Path, seed: int, policy: Policy | None = None
) -> ChallengeData:
    """The data of an attempt; generating it is remembered per version and seed."""
    public: dict[str, Any] = {**_read_public(challenge.version, folder, tuple(challenge.public))}
    if challenge.generate is None:
        named = challenge.evaluator.options.get("truth")
        return ChallengeData(public, None if named is None else read_truth(folder / named))
    encoded = _generate(challenge.version, str(folder), challenge.generate, seed, policy)
    # The text is remembered, not the data: callers may change what they get.
    made = json.loads(encoded)
    if both := sorted(public.keys() & made["public"].keys()):
        raise InvalidInput(f"{challenge.generate} makes {both[0]}, which is also a public file")
    return ChallengeData(public | made["public"], made["truth"])


def make_attempt_data(
    challenge: Challenge, folder: Path, seed: int, policy: Policy | None = None
) -> ChallengeData:
    """Load data; errors may quote the truth and are for organisers only."""
    try:
        return load_challenge_data(challenge, folder, seed, policy)
    except InvalidInput as error:
        said = f"the data of an attempt at {challenge.name} cannot be made"
        raise OrganiserFault(said, str(error)) from None


def read_truth(path: Path) -> Any:
    """The truth in a JSON or YAML file, or a text for any other."""
    if path.suffix in (".yaml", ".yml"):
        return read_plain(path, "challenge")
    text = _read_text(path)
    try:
        return read_json(text) if path.suffix == ".json" else text
    except ValueError as error:
        raise InvalidInput(f"{path.name} is not valid JSON: {error}") from None


@lru_cache(maxsize=4)
def _read_public(version: str, folder: Path, names: tuple[str, ...]) -> Mapping[str, str]:  # noqa: ARG001 (a new version has new files)
    """The texts of public files, which may be 50 MB, and are wanted at each submission."""
    return {name: _read_text(folder / name) for name in names}


@lru_cache(maxsize=32)
def _generate(version: str, folder: str, script: str, seed: int, policy: Policy | None) -> str:  # noqa: ARG001 (a new version is new data)
    made = call_script(
        Path(folder),
        script,
        "generate",
        [seed],
        time_s=TIME_S,
        memory_mb=MEMORY_MB,
        policy=policy,
        most_bytes=2 * MAX_BYTES,
        most_values=MAX_BYTES,
    )
    encoded = json.dumps(made)
    wrong = _find_mistake(made)
    if wrong is None and len(encoded) > MAX_BYTES:
        wrong = f"makes more than {MAX_BYTES // 1_000_000} MB of data"
    if wrong is not None:
        raise InvalidInput(f"generate() of {script} {wrong}")
    return encoded


def _find_mistake(made: object) -> str | None:
    """Problem of generated data."""
    public = made.get("public") if isinstance(made, dict) else None
    if not isinstance(made, dict) or not isinstance(public, dict) or "truth" not in made:
        return f'must give {{"public": {{name: data}}, "truth": data}}, not {show_value(made)}'
    names = {name: problem for name in public if (problem := find_name_problem(name)) is not None}
    return next((f"makes a file {show_value(each)}: {why}" for each, why in names.items()), None)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InvalidInput(f"there is no file {path.name} in the challenge's folder") from None
    except OSError as error:
        raise InvalidInput(f"{path.name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{path.name} is not UTF-8 text", hint="save it as UTF-8") from None

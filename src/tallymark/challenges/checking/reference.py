"""The reference answer of a challenge: a file, a folder of files, or a program that finds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallymark.challenges.file.plain import read_plain
from tallymark.challenges.folder import read_files
from tallymark.challenges.program import call_script
from tallymark.errors import InvalidInput

if TYPE_CHECKING:
    from tallymark.challenges.checking.trial import Trial

SOLVE = "solve"
"""The function of a reference that is a program: from the public data to an answer."""
_TIME_S = 30.0
_MEMORY_MB = 1024
_DATA = (".json", ".yaml", ".yml")


def reference_answer(trial: Trial, seed: int) -> Any:
    """What ought to do well with the data of a seed; None when the challenge names nothing.

    It names a file, a folder of files, or a program that finds the answer.
    """
    if seed not in trial.references:
        trial.references[seed] = _find_answer(trial, seed)
    return trial.references[seed]


def _find_answer(trial: Trial, seed: int) -> Any:
    challenge = trial.challenge
    if challenge.reference is None:
        return None
    path = trial.folder / challenge.reference
    if path.is_dir():
        return {name: _decode(content, name) for name, content in read_files(path).items()}
    if path.suffix in _DATA:
        return read_plain(path, "challenge")
    if challenge.submission.format == "json" and path.suffix == ".py":
        return _solve(trial, seed)
    text = _decode(path.read_bytes(), path.name)
    return {path.name: text} if challenge.submission.format == "files" else text.strip()


def _solve(trial: Trial, seed: int) -> Any:
    return call_script(
        trial.folder,
        trial.challenge.reference or "",
        SOLVE,
        [trial.data(seed).public],
        time_s=_TIME_S,
        memory_mb=_MEMORY_MB,
        policy=trial.policy,
    )


def _decode(content: bytes, name: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InvalidInput(
            f"reference: {name} is not UTF-8 text", hint="save it as UTF-8"
        ) from None

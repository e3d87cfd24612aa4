"""What is looked at before any evaluator: format, size and schema of a submission."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tallymark.challenges.evaluators.evaluator import warning
from tallymark.challenges.evaluators.schema import schema_problems
from tallymark.challenges.folder import wrong_name
from tallymark.scoring.score import shown

if TYPE_CHECKING:
    from tallymark.challenges.definition import Submission, SubmissionFormat

MAX_LEVELS = 64
MAX_FILES = 200
MAX_AGENT = 500
"""Characters of a model's name."""
_LARGEST = 1024
"""Bits of a whole number; what is larger is infinite for everything that computes."""


@dataclass(frozen=True, slots=True)
class Received:
    """A submission as plain, finite JSON data, or why it is not one that can be judged."""

    answer: Any = None
    warnings: tuple[dict[str, Any], ...] = ()
    refused: str | None = None


class _Refused(Exception):
    """Why a submission cannot be judged; it never leaves this file."""


def receive(answer: object, submission: Submission) -> Received:
    """Look at what a competitor sent; nothing that it can be raises here."""
    taken = _Taken(submission.max_bytes)
    try:
        plain = taken.value(answer, 0)
        _FORMATS[submission.format](plain)
    except _Refused as refused:
        return Received(refused=str(refused))
    warnings = []
    if taken.infinite:
        warnings.append(warning("NaN, infinity and numbers too large to compute are taken as null"))
    if submission.schema is not None:
        key = submission.schema_dimension
        severity = "warning" if key is None else "error"
        warnings += [
            warning(f"the schema is not met: {message}", severity=severity, dimension=key)
            for message in schema_problems(plain, submission.schema)
        ]
    return Received(plain, tuple(warnings))


class _Taken:
    """Copies a value as JSON has it, and stops at what is too large or too deep."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.left = max_bytes
        self.infinite = False

    def value(self, value: object, level: int) -> Any:
        if level > MAX_LEVELS:
            raise _Refused(f"the submission is nested deeper than {MAX_LEVELS} levels")
        if isinstance(value, str):
            return self.text(value)
        self.spend(1)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return self.number(value)
        if isinstance(value, list | tuple):
            return [self.value(item, level + 1) for item in value]
        if isinstance(value, dict):
            return {self.key(key): self.value(each, level + 1) for key, each in value.items()}
        raise _Refused(f"the submission has {shown(value)}, which is no JSON value")

    def text(self, value: str) -> str:
        if len(value) > self.left:  # bytes are never fewer than characters: refused unencoded
            self.spend(len(value))
        raw = value.encode("utf-8", "replace")
        self.spend(len(raw) + 2)
        return raw.decode()

    def key(self, key: object) -> str:
        if not isinstance(key, str):
            raise _Refused(f"the submission has the key {shown(key)}, and keys are text")
        return self.text(key)

    def number(self, value: float) -> float | None:
        if isinstance(value, int):
            # By its bits: writing out the digits of a huge number takes their square in time.
            self.spend(value.bit_length() // 4)
            finite = value.bit_length() <= _LARGEST
        else:
            finite = math.isfinite(value)
        self.infinite = self.infinite or not finite
        return value if finite else None

    def spend(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise _Refused(f"the submission is larger than {self.max_bytes:,} bytes")


def _text(answer: object) -> None:
    if not isinstance(answer, str):
        raise _Refused(f"the submission must be text, not {shown(answer)}")


def _files(answer: object) -> None:
    if not isinstance(answer, dict) or not answer:
        raise _Refused(f"the submission must map file names to texts, not {shown(answer)}")
    if len(answer) > MAX_FILES:
        raise _Refused(f"the submission has more than {MAX_FILES} files")
    for name, text in answer.items():
        if (problem := wrong_name(name)) is not None:
            raise _Refused(f"the submission has a file {shown(name)}: {problem}")
        if not isinstance(text, str):
            raise _Refused(f"the file {name} must be text, not {shown(text)}")
    folders = {str(name)[:at] for name in answer for at in _slashes(name)}
    if both := sorted(folders & answer.keys()):
        raise _Refused(f"{both[0]} cannot be both a file and a folder")


def _slashes(name: str) -> list[int]:
    return [at for at, letter in enumerate(name) if letter == "/"]


def _agent(answer: object) -> None:
    if not isinstance(answer, str) or not answer.strip():
        raise _Refused(f"the submission must be the name of a model, not {shown(answer)}")
    if len(answer) > MAX_AGENT or not answer.isprintable():
        raise _Refused(f"a model's name is one line of at most {MAX_AGENT} characters")


_FORMATS: dict[SubmissionFormat, Callable[[object], None]] = {
    "json": lambda _: None,
    "text": _text,
    "files": _files,
    "agent": _agent,
}

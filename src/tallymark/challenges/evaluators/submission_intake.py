"""Checks before any evaluator: format, size and schema of a submission."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.challenges.challenge_folder import find_name_problem
from tallymark.challenges.evaluators.evaluator_kind import make_warning
from tallymark.challenges.trajectory import check_trajectory_size
from tallymark.errors import InvalidInput
from tallymark.scoring.score import show_value

if TYPE_CHECKING:
    from tallymark.challenges.attempt import Payload
    from tallymark.challenges.challenge import Submission, SubmissionFormat
    from tallymark.scorers.schema_validator import SchemaValidator

MAX_LEVELS = 64
MAX_FILES = 200
MAX_METADATA = 100_000
"""Maximum size of a competitor's metadata in bytes."""
STILL_OPEN = "nothing was stored; send another before the time is up"
MAX_FINDINGS = 100
"""Maximum number of schema mistakes that a check before submission lists."""
MAX_AGENT = 500
"""Characters of a model's name."""
_LARGEST = 1024
"""Bits of a whole number; what is larger is infinite for everything that computes."""


@dataclass(frozen=True, slots=True)
class ReceivedSubmission:
    """A submission as plain, finite JSON data, or why it is not one that can be judged."""

    answer: Any = None
    warnings: tuple[dict[str, Any], ...] = ()
    refused: str | None = None


class _SubmissionRefused(Exception):
    """Why a submission cannot be judged; it never leaves this file."""


def refuse_unusable(sent: Payload, submission: Submission) -> None:
    """Refuse a submission that can never be judged, before it is stored; this costs no attempt."""
    try:
        _copy_answer(_JsonCopy(submission.max_bytes), sent.submission, submission)
        _JsonCopy(MAX_METADATA, "the metadata").value(sent.metadata, 0)
    except _SubmissionRefused as refused:
        raise InvalidInput(str(refused), hint=STILL_OPEN) from None
    if sent.trajectory is not None:
        check_trajectory_size(sent.trajectory)


def receive_submission(answer: object, submission: Submission) -> ReceivedSubmission:
    """Look at what a competitor sent; nothing that it can be raises here."""
    if submission.format == "json" and submission.schema is None and _is_plain(answer, submission):
        return ReceivedSubmission(answer)
    taken = _JsonCopy(submission.max_bytes)
    try:
        plain = _copy_answer(taken, answer, submission)
    except _SubmissionRefused as refused:
        return ReceivedSubmission(refused=str(refused))
    warnings = []
    if taken.infinite:
        warnings.append(
            make_warning("NaN, infinity and numbers too large to compute are taken as null")
        )
    if submission.schema is not None:
        key = submission.schema_dimension
        severity = "warning" if key is None else "error"
        warnings += [
            make_warning(f"the schema is not met: {message}", severity=severity, dimension=key)
            for message in find_schema_problems(plain, submission.schema)
        ]
    return ReceivedSubmission(plain, tuple(warnings))


def _is_plain(answer: object, submission: Submission) -> bool:
    """True for a few numbers with short names, as in reports, which need no check."""
    return (
        type(answer) is dict
        and len(answer) <= _FEW
        and submission.max_bytes >= _FEW * _SHORT
        and all(
            value is None
            or value is True
            or value is False
            or (type(value) in (int, float) and -_MODEST < value < _MODEST)
            for value in answer.values()
        )
        and all(type(key) is str and len(key) < _SHORT // 2 and key.isascii() for key in answer)
    )


def _copy_answer(taken: _JsonCopy, answer: object, submission: Submission) -> Any:
    plain = taken.value(answer, 0)
    _FORMAT_CHECKS[submission.format](plain)
    return plain


_FEW, _SHORT, _MODEST = 20, 100, 1e15
"""Limits of `_is_plain`: number of values, bytes of each, magnitude."""


class _JsonCopy:
    """Copies a value as JSON has it, and stops at what is too large or too deep."""

    def __init__(self, max_bytes: int, what: str = "the submission") -> None:
        self.max_bytes = max_bytes
        self.what = what
        self.left = max_bytes
        self.infinite = False

    def value(self, value: object, level: int) -> Any:
        if level > MAX_LEVELS:
            raise _SubmissionRefused(f"{self.what} is nested deeper than {MAX_LEVELS} levels")
        if isinstance(value, str):
            return self.text(value)
        self.spend(1)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, (int, float)):
            return self.number(value)
        if isinstance(value, (list, tuple)):
            return [self.value(item, level + 1) for item in value]
        if isinstance(value, dict):
            return {self.key(key): self.value(each, level + 1) for key, each in value.items()}
        raise _SubmissionRefused(f"{self.what} has {show_value(value)}, which is no JSON value")

    def text(self, value: str) -> str:
        if len(value) > self.left:  # bytes are never fewer than characters: refused unencoded
            self.spend(len(value))
        if value.isascii():
            self.spend(len(value) + 2)
            return str(value)
        raw = value.encode("utf-8", "replace")
        self.spend(len(raw) + 2)
        return raw.decode()

    def key(self, key: object) -> str:
        if not isinstance(key, str):
            raise _SubmissionRefused(
                f"{self.what} has the key {show_value(key)}, and keys are text"
            )
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
            raise _SubmissionRefused(f"{self.what} is larger than {self.max_bytes:,} bytes")


def _check_text(answer: object) -> None:
    if not isinstance(answer, str):
        raise _SubmissionRefused(f"the submission must be text, not {show_value(answer)}")


def _check_files(answer: object) -> None:
    if not isinstance(answer, dict) or not answer:
        raise _SubmissionRefused(
            f"the submission must map file names to texts, not {show_value(answer)}"
        )
    if len(answer) > MAX_FILES:
        raise _SubmissionRefused(f"the submission has more than {MAX_FILES} files")
    for name, text in answer.items():
        if (problem := find_name_problem(name)) is not None:
            raise _SubmissionRefused(f"the submission has a file {show_value(name)}: {problem}")
        if not isinstance(text, str):
            raise _SubmissionRefused(f"the file {name} must be text, not {show_value(text)}")
    folders = {str(name)[:at] for name in answer for at in _find_slashes(name)}
    if both := sorted(folders & answer.keys()):
        raise _SubmissionRefused(f"{both[0]} cannot be both a file and a folder")


def _find_slashes(name: str) -> list[int]:
    return [at for at, letter in enumerate(name) if letter == "/"]


def _check_agent(answer: object) -> None:
    if not isinstance(answer, str) or not answer.strip():
        raise _SubmissionRefused(
            f"the submission must be the name of a model, not {show_value(answer)}"
        )
    if len(answer) > MAX_AGENT or not answer.isprintable():
        raise _SubmissionRefused(f"a model's name is one line of at most {MAX_AGENT} characters")


_FORMAT_CHECKS: dict[SubmissionFormat, Callable[[object], None]] = {
    "json": lambda _: None,
    "text": _check_text,
    "files": _check_files,
    "agent": _check_agent,
}


def find_schema_problems(value: object, schema: dict[str, Any]) -> list[str]:
    """The first few things in a value that a schema does not accept."""
    return _open_validator(msgspec.json.encode(schema)).problems(value)


def list_schema_findings(value: object, schema: dict[str, Any]) -> list[tuple[str, str]]:
    """All of them that anybody would read, each with its place."""
    return _open_validator(msgspec.json.encode(schema)).findings(value, MAX_FINDINGS)


def check_schema(schema: dict[str, Any]) -> None:
    """InvalidInput when it is no JSON Schema."""
    _open_validator(msgspec.json.encode(schema))


@lru_cache(maxsize=32)
def _open_validator(encoded: bytes) -> SchemaValidator:
    # The package jsonschema is heavy, and most submissions are received without a schema.
    from tallymark.scorers.schema_validator import SchemaValidator  # noqa: PLC0415

    return SchemaValidator(msgspec.json.decode(encoded))

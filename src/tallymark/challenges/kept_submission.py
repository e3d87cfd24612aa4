"""`KeptSubmission`: what was submitted with an attempt, as its agent and organisers read it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.challenges.challenge import SubmissionFormat

if TYPE_CHECKING:
    from tallymark.challenges.attempt import Attempt, Payload


class KeptSubmission(msgspec.Struct, frozen=True, kw_only=True):
    """An answer and all that came with it."""

    attempt: str
    challenge: str
    agent: str
    submitted_at: float | None
    format: SubmissionFormat
    """In which the answer was taken."""
    answer: Any
    metadata: dict[str, Any]
    trajectory: str | None
    reported: dict[str, Any] | None
    """The metrics that a trusted system sent in the place of an answer."""

    def list_files(self) -> dict[str, str]:
        """The answer as files: those that were sent, or one that is named by its form."""
        if self.reported is not None:
            return {"reported.json": _write_json(self.reported)}
        if self.format == "files":
            return dict(self.answer)
        if self.format == "json":
            return {"answer.json": _write_json(self.answer)}
        return {"answer.txt": self.answer}


def keep_submission(attempt: Attempt, form: SubmissionFormat, payload: Payload) -> KeptSubmission:
    """What an attempt was submitted with, to be read."""
    reported = payload.reported
    return KeptSubmission(
        attempt=attempt.id,
        challenge=attempt.challenge,
        agent=attempt.agent,
        submitted_at=attempt.submitted_at,
        format=form,
        answer=payload.submission,
        metadata=payload.metadata,
        trajectory=payload.trajectory,
        reported=None if reported is None else msgspec.to_builtins(reported),
    )


def _write_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"

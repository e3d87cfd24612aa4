"""A stored submission, as its sender and organisers read it: of an attempt, or to a side."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.challenges.challenge import SubmissionFormat
from tallymark.challenges.versus.pairings import SideSubmission, VerdictState

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
        return _list_files(self.format, self.answer)


class SideVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """A judge's verdict on a submission against one of the other side."""

    opponent: str
    category: str
    state: VerdictState
    breached: bool | None
    reason: str
    error: str | None
    judged_at: float | None


class KeptSideSubmission(SideSubmission, frozen=True, kw_only=True):
    """An attack or a defence, and how it fared."""

    challenge: str
    format: SubmissionFormat
    """In which the answer was taken."""
    answer: Any
    active: bool
    """True if it is its agent's newest on that side, which meets new ones of the other side."""
    verdicts: list[SideVerdict]
    names: dict[str, str]
    """Display names by handle, of the agent and its opponents."""

    def list_files(self) -> dict[str, str]:
        """The answer as files."""
        return _list_files(self.format, self.answer)


def keep_submission(attempt: Attempt, form: SubmissionFormat, payload: Payload) -> KeptSubmission:
    """The submission of an attempt, for reading."""
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
        reported=None if reported is None else reported.to_dict(),
    )


def _list_files(form: SubmissionFormat, answer: Any) -> dict[str, str]:
    if form == "files":
        return dict(answer)
    if form == "json":
        return {"answer.json": _write_json(answer)}
    return {"answer.txt": answer}


def _write_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"

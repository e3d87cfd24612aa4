"""Page of an open attempt: its data, the time left, and the form for the answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.challenges.attempt import Attempt, Payload
from tallymark.challenges.submitted_files import parse_json, parse_sent
from tallymark.challenges.trajectory import MAX_BYTES
from tallymark.errors import Conflict, InvalidInput, NotAllowed
from tallymark.service.callers import COMPETITORS
from tallymark.service.submissions import (
    Finding,
    find_most_bytes,
    submit_answer,
)
from tallymark.text import format_utc_moment
from tallymark.web.challenge_files import ARCHIVE, DataFile, list_files, pick_file
from tallymark.web.challenge_terms import ChallengeTerms, describe_terms
from tallymark.web.page import Moved, Outcome, Page, View
from tallymark.web.page_request import PageRequest

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Submission
    from tallymark.service.attempts import StoredAttempt


class AnswerView(View, frozen=True, kw_only=True):
    """An attempt that waits for its answer."""

    id: str
    number: int
    agent: str
    challenge: str
    memoryless: bool
    entered_at: float
    expires_at: float
    open: bool
    terms: ChallengeTerms
    files: list[DataFile]
    archive: str
    longest_trajectory: int
    findings: list[Finding] | None = None
    """Findings of a check; None if the answer was not checked."""
    held: bool = False
    """True if a submission was held back until the findings are read."""

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each file."""
        return ({"file": each.name, "bytes": each.size} for each in self.files)


def gather(request: PageRequest) -> View:
    """Gather the open attempt in the URL or one of its files; redirect if it ended."""
    attempt = _find_own(request).attempt
    open_ = attempt.state == "entered" and request.now < attempt.expires_at
    if not open_:
        if request.problem is None:
            raise Moved(f"/attempts/{attempt.id}")
        return _describe(request, attempt, {})
    data = request.services.competition.open_entry(attempt.id, attempt.agent).data
    wanted = request.get("file")
    return pick_file(data, wanted) if wanted else _describe(request, attempt, data)


def _find_own(request: PageRequest) -> StoredAttempt:
    """Return an attempt that the visitor may answer; others look as if they did not exist."""
    request.visitor.require_known("only the agent that entered can submit an answer")
    if request.caller.role not in COMPETITORS:
        raise NotAllowed(f"a key of the role {request.caller.role} cannot compete")
    return request.tally.attempts.find_own(request.params["attempt"])


def _describe(request: PageRequest, attempt: Attempt, data: Mapping[str, Any]) -> AnswerView:
    challenge = request.services.competition.challenge_cache.find_version(attempt)
    return AnswerView(
        title=f"Attempt {attempt.number} at {challenge.title}",
        id=attempt.id,
        number=attempt.number,
        agent=attempt.agent,
        challenge=attempt.challenge,
        memoryless=attempt.memoryless,
        entered_at=attempt.entered_at,
        expires_at=attempt.expires_at,
        open=attempt.state == "entered" and request.now < attempt.expires_at,
        terms=describe_terms(msgspec.structs.replace(challenge, rated=challenge.match_rule)),
        files=list_files(data),
        archive=ARCHIVE if len(data) > 1 else "",
        longest_trajectory=MAX_BYTES,
    )


def _find_most_bytes(request: PageRequest) -> int:
    challenge = request.services.competition.challenge_cache.find_version(
        _find_own(request).attempt
    )
    return find_most_bytes(challenge.submission)


def _read_sent(request: PageRequest, submission: Submission) -> Payload:
    """Read the answer from the form; a file takes precedence over text."""
    form = request.form
    uploaded, typed = form.get_file("answer_file"), form.get_text("answer") or ""
    if uploaded is None and not typed.strip():
        raise InvalidInput("there is no answer yet", hint="type it, or choose a file")
    if uploaded is None:
        answer = parse_sent(typed.encode(), None, submission)
    else:
        answer = parse_sent(uploaded, form.get_file_name("answer_file") or "file", submission)
    claimed = form.get("metadata")
    metadata = parse_json(claimed, "the metadata") if claimed else {}
    if not isinstance(metadata, dict):
        raise InvalidInput("the metadata is no JSON object", hint='as in {"tokens": 1200}')
    sent = form.get_file("trajectory_file")
    steps = (form.get_text("trajectory") or "").strip() or None
    if sent is not None:
        steps = sent.decode("utf-8", "replace")
    return Payload(submission=answer, metadata=metadata, trajectory=steps)


def _look(request: PageRequest) -> tuple[StoredAttempt, Payload, Sequence[Finding]]:
    """Read the sent answer and check it."""
    known = _find_own(request)
    attempt = known.attempt
    if attempt.state == "entered" and request.now >= attempt.expires_at:
        raise Conflict(
            f"the time was up at {format_utc_moment(attempt.expires_at)}",
            hint="your text is still below; enter again for another attempt",
        )
    challenge = request.services.competition.challenge_cache.find_version(attempt)
    sent = _read_sent(request, challenge.submission)
    return known, sent, request.tally.attempts.check_payload(known, sent).findings


def check(request: PageRequest) -> Outcome:
    """Show the findings of an answer without storing it."""
    known, _, findings = _look(request)
    return _show_findings(request, known.attempt, findings)


def submit(request: PageRequest) -> Outcome:
    """Submit the answer; hold it once if its form would lose points."""
    known, sent, findings = _look(request)
    attempt = known.attempt
    refused = any(each.severity == "error" for each in findings)
    warned = any(each.severity == "warning" for each in findings)
    if attempt.state == "entered" and (refused or (warned and request.form.get("do") != "anyway")):
        return _show_findings(request, attempt, findings, held=True)
    job = submit_answer(request.services, request.caller, known, sent).job
    return Outcome(address=f"/attempts/{attempt.id}", job=None if job is None else job.id)


def _show_findings(
    request: PageRequest, attempt: Attempt, findings: Sequence[Finding], *, held: bool = False
) -> Outcome:
    entry = request.services.competition.open_entry(attempt.id, attempt.agent)
    view = _describe(request, attempt, entry.data)
    view = msgspec.structs.replace(view, findings=list(findings), held=held)
    return Outcome(view=view, template=PAGE.template)


def withdraw(request: PageRequest) -> Outcome:
    """Withdraw the attempt, which is a loss."""
    attempt = _find_own(request).attempt
    reason = request.form.get("reason") or None
    request.tally.attempts.withdraw(attempt.id, attempt.agent, reason)
    return Outcome(address=f"/attempts/{attempt.id}")


PAGE = Page(
    "/attempts/{attempt}/answer",
    "answer.html",
    gather,
    actions={"check": check, "submit": submit, "anyway": submit, "withdraw": withdraw},
    find_most_bytes=_find_most_bytes,
    own_transactions=True,
)

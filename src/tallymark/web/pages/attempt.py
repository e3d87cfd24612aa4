"""Page of an attempt: why it has this score, and what would raise it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.challenges.strategies import STRATEGIES
from tallymark.challenges.trajectory import read_trajectory
from tallymark.errors import NotFound, TallymarkError
from tallymark.service.attempts import AttemptDetails
from tallymark.text import format_digits
from tallymark.web.attempt_score import (
    Above,
    Source,
    Sum,
    TriedRule,
    Warned,
    describe_above,
    explain_formula,
    list_fields,
    list_sources,
    list_warnings,
    try_on_attempt,
    write_details,
    write_sums,
)
from tallymark.web.board_rows import DimensionShare, list_dimensions, write_value
from tallymark.web.challenge_files import ARCHIVE, MOST_SUBMITTED, DataFile, list_files, pick_file
from tallymark.web.formula_tree import FormulaTree
from tallymark.web.page import Page, View
from tallymark.web.page_request import PageRequest
from tallymark.web.span_lines import SpanLine, Waterfall, lay_out_spans

if TYPE_CHECKING:
    from tallymark.challenges.attempt import Attempt, Outcome
    from tallymark.challenges.challenge import Challenge
    from tallymark.challenges.kept_submission import KeptSubmission
    from tallymark.service.visibility import AttemptView as VisibleAttempt

LEVELS = {
    "none": "No trajectory was submitted.",
    "claimed": "A trajectory was submitted; nothing confirms it.",
    "consistent": "Times, counts and tokens are consistent, also with the server's clock.",
    "witnessed": "Its steps reached the server while the attempt ran.",
}
FURTHER = {
    "none": "A consistent one would earn efficiency points and a bonus.",
    "claimed": "It earns no efficiency points and no bonus.",
    "consistent": "It earns efficiency points and a bonus, but could still be fabricated.",
    "witnessed": "It cannot have been fabricated afterwards.",
}
"""Value and limits of each trajectory level."""


class AttemptView(View, frozen=True, kw_only=True):
    """An attempt with the evidence for its score."""

    attempt: AttemptDetails
    challenge_title: str
    name: str
    """Name of its agent."""
    frozen: bool
    mine: bool
    """True if the visitor may answer it, or could have."""
    seconds: float | None
    limit: float
    shown: str
    agents: int
    parts: list[DimensionShare]
    tree: FormulaTree | None
    tried: TriedRule | None
    """Score under the rule in the URL, from a what-if board."""
    above: Above | None
    sums: list[Sum]
    rating_hidden: bool
    level_says: str
    level_means: str
    told: bool
    """Whether the visitor may read comments on the answer."""
    warnings: list[Warned]
    fields: list[tuple[str, float]]
    details: str
    sources: list[Source]
    spans: list[SpanLine]
    """Spans of the trajectory, for its competitor and organisers only."""
    span_seconds: float
    submitted: list[DataFile]
    """Files of the answer, for the same."""
    archive: str
    said: str
    """The competitor's own notes."""
    scorer: str

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each dimension, or for each number."""
        for each in self.parts:
            yield {
                "dimension": each.key,
                "score": each.score,
                "weight": each.weight,
                "weighted": each.weighted,
            }
        if not self.parts:
            yield from (
                {"metric": name, "value": value} for name, value in self.attempt.metrics.items()
            )


def gather(request: PageRequest) -> View:
    """Gather the attempt in the URL, or one of its submitted files."""
    view = request.tally.attempts.view(request.params["attempt"], not request.public)
    wanted = request.get("file")
    if wanted:
        sent = request.tally.attempts.submission(view.attempt.id)
        return pick_file(sent.list_files(), wanted)
    return _describe(request, view)


def _describe(request: PageRequest, shown: VisibleAttempt) -> AttemptView:
    told, attempt = shown.shows_words, shown.attempt
    standing = request.tally.attempts.find_standing(shown)
    challenge, outcome, place = standing.challenge, attempt.outcome, standing.place
    details = {} if outcome is None else outcome.details
    origin = None if outcome is None else outcome.origin
    mine = request.visitor.agent == attempt.agent
    sent = _find_submission(request, attempt) if mine or request.visitor.may_organise else None
    falls = _lay_out_trajectory(sent)
    files = {} if sent is None else sent.list_files()
    parts = _list_parts(challenge, outcome)
    level = "none" if outcome is None else outcome.trajectory_level
    names = request.tally.agents.find_names([attempt.agent])
    return AttemptView(
        title=f"Attempt {attempt.number} by {attempt.agent}",
        attempt=request.tally.attempts.describe(shown, place),
        challenge_title=challenge.title,
        name=names.get(attempt.agent, attempt.agent),
        frozen=standing.is_frozen,
        mine=mine or request.visitor.may_organise,
        seconds=_find_seconds(attempt),
        limit=challenge.time_limit_s,
        shown=_write_score(challenge, outcome),
        agents=standing.agents,
        parts=parts,
        tree=explain_formula(challenge, attempt),
        tried=try_on_attempt(request, challenge, attempt),
        above=describe_above(request, challenge, place),
        sums=[] if standing.change is None else list(write_sums(*standing.change)),
        rating_hidden=standing.hides_rating,
        level_says=LEVELS[level],
        level_means=FURTHER[level],
        told=told,
        warnings=list(list_warnings(details)),
        fields=list_fields(details),
        details=write_details(details),
        sources=list_sources(challenge, attempt, parts),
        spans=falls.lines,
        span_seconds=falls.seconds,
        submitted=list_files(files, MOST_SUBMITTED),
        archive=ARCHIVE if len(files) > 1 else "",
        said=""
        if sent is None or not sent.metadata
        else json.dumps(sent.metadata, indent=2, ensure_ascii=False),
        scorer=STRATEGIES[challenge.scoring.strategy].name if origin is None else origin.scorer,
    )


def _find_seconds(attempt: Attempt) -> float | None:
    """Return the measured time, else the time from entry to submission."""
    if attempt.outcome is not None and attempt.outcome.metrics.elapsed_ms is not None:
        return attempt.outcome.metrics.elapsed_ms / 1000
    return None if attempt.submitted_at is None else attempt.submitted_at - attempt.entered_at


def _write_score(challenge: Challenge, outcome: Outcome | None) -> str:
    if outcome is None or outcome.score is None:
        return "none"
    if STRATEGIES[challenge.scoring.strategy].metric is None:
        return write_value(challenge, outcome.score)
    return format_digits(outcome.score)


def _list_parts(challenge: Challenge, outcome: Outcome | None) -> list[DimensionShare]:
    """List dimensions by the weights of its breakdown."""
    if outcome is None or not challenge.scoring.dimensions or outcome.score is None:
        return []
    breakdown: Mapping[str, Any] = outcome.details.get("score_breakdown") or {}
    scores = {key: part["score"] for key, part in breakdown.items()} or outcome.dimensions
    if not scores:
        return []
    return [
        msgspec.structs.replace(each, weight=breakdown.get(each.key, {}).get("weight", each.weight))
        for each in list_dimensions(challenge, scores)
    ]


def _find_submission(request: PageRequest, attempt: Attempt) -> KeptSubmission | None:
    """Find the submission; None if there is none yet, or it was scored elsewhere."""
    try:
        return request.tally.attempts.submission(attempt.id)
    except NotFound:  # nothing was as yet, or it was scored elsewhere
        return None


def _lay_out_trajectory(sent: KeptSubmission | None) -> Waterfall:
    text = None if sent is None else sent.trajectory
    try:
        return lay_out_spans(None if text is None else read_trajectory(text))
    except TallymarkError:  # unreadable; its level says so
        return lay_out_spans(None)


PAGE = Page("/attempts/{attempt}", "attempt.html", gather, mailed="attempt_mailed.html")

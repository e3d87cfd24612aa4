"""One attempt: why this score, and why not one higher?"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.challenges.strategies import STRATEGIES
from tallymark.challenges.trajectory import read_trajectory
from tallymark.errors import NotFound, TallymarkError
from tallymark.service.visibility import (
    find_submission,
    name_visible,
    sees_words,
    tell_audit,
    withhold_errors,
    withhold_words,
)
from tallymark.text import clean_line, format_digits
from tallymark.web.attempt_above import Above, find_above
from tallymark.web.attempt_words import Warned, list_fields, list_warnings, write_details
from tallymark.web.board_rows import DimensionShare, list_dimensions, write_value
from tallymark.web.file_list import ARCHIVE, MOST_SUBMITTED, DataFile, list_files, pick_file
from tallymark.web.page import Page
from tallymark.web.rating_sums import Sum, write_sums
from tallymark.web.score_parts import FormulaTree
from tallymark.web.score_sources import Source, list_sources
from tallymark.web.span_lines import SpanLine, Waterfall, lay_out_spans
from tallymark.web.tried_rule import TriedRule, explain_formula, try_on_attempt
from tallymark.web.view import View
from tallymark.web.visit import Visit

if TYPE_CHECKING:
    from tallymark.challenges.attempt import Attempt, Outcome
    from tallymark.challenges.challenge import Challenge
    from tallymark.challenges.kept_submission import KeptSubmission

LEVELS = {
    "none": "No trajectory was sent.",
    "claimed": "It was sent along; nothing bears it out.",
    "consistent": "Times, counts and tokens agree with each other and with our clock.",
    "witnessed": "Its steps reached the server while the attempt ran.",
}
FURTHER = {
    "none": "One that agrees with itself and with our clock would earn efficiency and a bonus.",
    "claimed": "It earns neither efficiency nor a bonus.",
    "consistent": "It earns efficiency and a bonus, and could still be made up.",
    "witnessed": "Nothing of it could be made up afterwards.",
}
"""What the level is worth, and what it leaves open."""


class PastScore(msgspec.Struct, frozen=True, kw_only=True):
    """A score that the attempt has had."""

    at: float
    score: float | None
    error: str | None
    by: str


class Happened(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the log."""

    at: float
    event: str
    actor: str
    reason: str


class AttemptView(View, frozen=True, kw_only=True):
    """An attempt with all that bears its score out."""

    id: str
    challenge: str
    challenge_title: str
    agent: str
    name: str
    number: int
    state: str
    waiting: str | None
    voided_at: float | None
    frozen: bool
    mine: bool
    """Whether the visitor may answer it, or could have."""
    entered_at: float
    submitted_at: float | None
    expires_at: float
    seconds: float | None
    limit: float
    shown: str
    score: float | None
    result: str | None
    error: str | None
    ranks: bool
    place: int | None
    agents: int
    is_best: bool
    """Whether it is the one on the board."""
    parts: list[DimensionShare]
    tree: FormulaTree | None
    tried: TriedRule | None
    """By the rule of the address, as a what-if board sends it along."""
    metrics: dict[str, Any]
    above: Above | None
    sums: list[Sum]
    rating_hidden: bool
    level: str
    level_says: str
    level_means: str
    problems: list[str]
    verified: bool
    memoryless: bool
    told: bool
    """Whether what was said of the answer is for the visitor."""
    warnings: list[Warned]
    fields: list[tuple[str, float]]
    details: str
    sources: list[Source]
    spans: list[SpanLine]
    """Of the trajectory, which only its competitor and organisers see."""
    span_seconds: float
    submitted: list[DataFile]
    """The answer as files, for the same."""
    archive: str
    said: str
    """What its competitor says of it."""
    scorer: str
    scorer_version: str
    version: str
    seed: str | None
    history: list[PastScore]
    log: list[Happened]

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
            yield from ({"metric": name, "value": value} for name, value in self.metrics.items())


def gather(visit: Visit) -> View:
    """The attempt that the address names, or a file that was submitted with it."""
    found = visit.find_attempt(visit.params["attempt"])
    wanted = visit.get("file")
    if wanted:
        sent = find_submission(visit.services, visit.caller, found.id)
        return pick_file(sent.list_files(), wanted)
    return _describe(visit, found)


def _describe(visit: Visit, found: Attempt) -> AttemptView:
    store, public = visit.app.store, visit.public
    told = sees_words(visit.services, visit.caller, found)
    attempt = found if told else withhold_words(found)
    kept = store.challenges.find(attempt.challenge)
    challenge, outcome = kept.challenge, attempt.outcome
    standing = store.boards.standing(attempt.challenge, attempt.agent, public=public)
    is_best = standing is not None and standing.attempt == attempt.id
    strategy = STRATEGIES[challenge.scoring.strategy]
    details = {} if outcome is None else outcome.details
    frozen = public and kept.is_frozen(visit.now)
    only = name_visible(visit.services, visit.caller)
    hides_ratings = _hides_ratings(visit, only)
    change = None if hides_ratings else store.figures.change_by(attempt, only)
    origin = None if outcome is None else outcome.origin
    mine = visit.visitor.agent == attempt.agent
    history = store.attempts.history(attempt.id, public=public and not mine)
    sent = _find_sent(visit, attempt) if mine or visit.visitor.may_organise else None
    falls = _lay_out_trajectory(sent)
    files = {} if sent is None else sent.list_files()
    parts = _list_parts(challenge, outcome)
    level = "none" if outcome is None else outcome.trajectory_level
    return AttemptView(
        title=f"Attempt {attempt.number} by {attempt.agent}",
        id=attempt.id,
        challenge=attempt.challenge,
        challenge_title=challenge.title,
        agent=attempt.agent,
        name=store.agents.names([attempt.agent]).get(attempt.agent, attempt.agent),
        number=attempt.number,
        state=attempt.state,
        waiting=attempt.waiting,
        voided_at=attempt.voided_at,
        frozen=frozen,
        mine=mine or visit.visitor.may_organise,
        entered_at=attempt.entered_at,
        submitted_at=attempt.submitted_at,
        expires_at=attempt.expires_at,
        seconds=_find_seconds(attempt),
        limit=challenge.time_limit_s,
        shown=_write_score(challenge, outcome),
        score=None if outcome is None else outcome.score,
        result=None if outcome is None else outcome.result,
        error=None if outcome is None else outcome.error,
        ranks=outcome is not None and outcome.ranks,
        place=None if standing is None else standing.rank,
        agents=store.boards.size(attempt.challenge, public=public),
        is_best=is_best,
        parts=parts,
        tree=explain_formula(challenge, attempt),
        tried=try_on_attempt(visit, challenge, attempt),
        metrics=_list_metrics(attempt),
        above=find_above(visit, challenge, attempt) if is_best else None,
        sums=[] if change is None else list(write_sums(*change)),
        rating_hidden=hides_ratings,
        level=level,
        level_says=LEVELS[level],
        level_means=FURTHER[level],
        problems=_list_problems(outcome),
        verified=attempt.verified,
        memoryless=attempt.memoryless,
        told=told,
        warnings=list(list_warnings(details)),
        fields=list_fields(details),
        details=write_details(details),
        sources=list_sources(challenge, attempt, parts),
        spans=falls.lines,
        span_seconds=falls.seconds,
        submitted=list_files(files, MOST_SUBMITTED),
        archive=ARCHIVE if len(files) > 1 else "",
        said="" if sent is None else _write_said(sent.metadata),
        scorer=strategy.name if origin is None else origin.scorer,
        scorer_version="" if origin is None else origin.version[:12],
        version=attempt.version[:12],
        seed=None if outcome is None else str(attempt.seed),
        history=[
            PastScore(
                at=each.at,
                score=each.score,
                error=each.error,
                by="" if each.origin is None else f"{each.origin.scorer} {each.origin.version[:8]}",
            )
            for each in reversed(history if told else withhold_errors(history))
        ],
        log=_list_log(visit, attempt),
    )


def _find_seconds(attempt: Attempt) -> float | None:
    """How long it took: as it was measured, where it was; else from entry to submission."""
    if attempt.outcome is not None and attempt.outcome.metrics.elapsed_ms is not None:
        return attempt.outcome.metrics.elapsed_ms / 1000
    return None if attempt.submitted_at is None else attempt.submitted_at - attempt.entered_at


def _write_score(challenge: Challenge, outcome: Outcome | None) -> str:
    if outcome is None or outcome.score is None:
        return "none"
    if STRATEGIES[challenge.scoring.strategy].metric is None:
        return write_value(challenge, outcome.score)
    return format_digits(outcome.score)


def _list_metrics(attempt: Attempt) -> dict[str, Any]:
    """What was measured, the challenge's own metrics among the others."""
    metrics: dict[str, Any] = dict(attempt.to_public().get("metrics", {}))
    own: dict[str, Any] = metrics.pop("more", {})
    return metrics | own


def _list_parts(challenge: Challenge, outcome: Outcome | None) -> list[DimensionShare]:
    """By the weights that it was scored with, which its breakdown has."""
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


def _find_sent(visit: Visit, attempt: Attempt) -> KeptSubmission | None:
    """What was sent with an attempt is for its competitor and for organisers, for good."""
    try:
        return find_submission(visit.services, visit.caller, attempt.id)
    except NotFound:  # nothing was as yet, or it was scored elsewhere
        return None


def _lay_out_trajectory(sent: KeptSubmission | None) -> Waterfall:
    text = None if sent is None else sent.trajectory
    try:
        return lay_out_spans(None if text is None else read_trajectory(text))
    except TallymarkError:  # not to be read: its level says so
        return lay_out_spans(None)


def _write_said(metadata: Mapping[str, Any]) -> str:
    return json.dumps(metadata, indent=2, ensure_ascii=False) if metadata else ""


def _list_problems(outcome: Outcome | None) -> list[str]:
    """Why a trajectory is not believed further; that there is none has been said."""
    if outcome is None or outcome.trajectory_level == "none":
        return []
    return [str(each) for each in outcome.details.get("unverified") or ()]


def _hides_ratings(visit: Visit, only: Collection[str] | None) -> bool:
    """A rating before and after would tell what a frozen board hides."""
    frozen = visit.app.store.challenges.frozen(visit.now)
    return visit.public and any(only is None or each in only for each in frozen)


def _list_log(visit: Visit, attempt: Attempt) -> list[Happened]:
    public = visit.public and visit.visitor.agent != attempt.agent
    entries = visit.app.store.attempts.audit(attempt.id, public=public)
    found = []
    for entry in tell_audit(visit.caller, attempt, entries):
        note = entry.note or {}
        told = note.get("hidden") or note.get("reason") or ""
        found.append(
            Happened(
                at=entry.at, event=entry.event, actor=entry.actor, reason=clean_line(str(told), 300)
            )
        )
    return found


PAGE = Page("/attempts/{attempt}", "attempt.html", gather, mailed="attempt_mailed.html")

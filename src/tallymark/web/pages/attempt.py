"""One attempt: why this score, and why not one higher?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.app.rivals import find_rival
from tallymark.challenges.attempt_formula import challenge_formula
from tallymark.challenges.strategies import STRATEGIES
from tallymark.errors import TallymarkError
from tallymark.ratings import elo
from tallymark.ratings.match_results import tier_rating, worth
from tallymark.text import clean_line, format_digits, format_number
from tallymark.web.board_rows import DimensionShare, list_dimensions
from tallymark.web.page import Page, View, Visit
from tallymark.web.score_parts import FormulaTree, take_apart

if TYPE_CHECKING:
    from tallymark.challenges.attempt import Attempt, Outcome
    from tallymark.challenges.challenge import Challenge
    from tallymark.ratings import EloChange, Match

LEVELS = {
    "none": "No trajectory was sent.",
    "claimed": "It was sent along; nothing bears it out.",
    "consistent": "Times, counts and tokens agree with each other and with our clock.",
    "witnessed": "Its steps reached the server while the attempt ran.",
}
_OWN_DETAILS = {
    *("score_breakdown", "submission_warnings", "constraint_violations", "harness_warning"),
    *("unverified", "unranked", "warning", "sandbox"),
}
_MOST_DETAILS = 20_000
_TIMES = "\N{MULTIPLICATION SIGN}"


class Warned(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a competitor should know."""

    message: str
    about: str
    tone: str


class Lead(msgspec.Struct, frozen=True, kw_only=True):
    """A dimension here, and with the one above."""

    label: str
    color: str
    again: bool
    mine: float
    theirs: float
    points: float
    """What they are ahead by, weighed."""


class Above(msgspec.Struct, frozen=True, kw_only=True):
    """The next better place."""

    agent: str
    name: str
    attempt: str
    shown: str
    gap: float | None
    leads: list[Lead]
    reach: float
    """The largest lead, for bars."""


class Sum(msgspec.Struct, frozen=True):
    """A step of the arithmetic of a rating."""

    what: str
    how: str
    result: str


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
    metrics: dict[str, Any]
    above: Above | None
    sums: list[Sum]
    rating_hidden: bool
    level: str
    level_says: str
    problems: list[str]
    verified: bool
    memoryless: bool
    warnings: list[Warned]
    details: str
    scorer: str
    scorer_version: str
    version: str
    seed: str | None
    history: list[PastScore]
    log: list[Happened]

    @property
    def total(self) -> float:
        return sum(each.weighted for each in self.parts)

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


def gather(visit: Visit) -> AttemptView:
    """The attempt that the address names."""
    store, public = visit.app.store, visit.public
    wanted = visit.params["attempt"]
    attempt = visit.find_attempt(wanted)
    kept = store.challenges.find(attempt.challenge)
    challenge, outcome = kept.challenge, attempt.outcome
    standing = store.boards.standing(attempt.challenge, attempt.agent, public=public)
    is_best = standing is not None and standing.attempt == attempt.id
    metrics = {} if outcome is None else msgspec.to_builtins(outcome.metrics)
    strategy = STRATEGIES[challenge.scoring.strategy]
    details = {} if outcome is None else outcome.details
    frozen = public and kept.is_frozen(visit.now)
    sums = [] if _hides_ratings(visit) else _list_sums(visit, attempt)
    origin = None if outcome is None else outcome.origin
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
        entered_at=attempt.entered_at,
        submitted_at=attempt.submitted_at,
        expires_at=attempt.expires_at,
        seconds=None if attempt.submitted_at is None else attempt.submitted_at - attempt.entered_at,
        limit=challenge.time_limit_s,
        shown=_write_score(challenge, outcome),
        score=None if outcome is None else outcome.score,
        result=None if outcome is None else outcome.result,
        error=None if outcome is None else outcome.error,
        ranks=outcome is not None and outcome.ranks,
        place=None if standing is None else standing.rank,
        agents=store.boards.size(attempt.challenge, public=public),
        is_best=is_best,
        parts=_list_parts(challenge, outcome),
        tree=_explain_formula(challenge, attempt),
        metrics={**metrics, **metrics.pop("more", {})},
        above=_find_above(visit, challenge, attempt) if is_best else None,
        sums=sums,
        rating_hidden=_hides_ratings(visit),
        level="none" if outcome is None else outcome.trajectory_level,
        level_says=LEVELS["none" if outcome is None else outcome.trajectory_level],
        problems=_list_problems(outcome),
        verified=attempt.verified,
        memoryless=attempt.memoryless,
        warnings=list(_list_warnings(details)),
        details=_write_details(visit, attempt, details),
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
            for each in reversed(store.attempts.history(attempt.id, public=public))
        ],
        log=_list_log(visit, attempt),
    )


def _write_score(challenge: Challenge, outcome: Outcome | None) -> str:
    if outcome is None or outcome.score is None:
        return "none"
    if challenge.scoring.dimensions:
        return format_digits(outcome.score)
    return format_number(outcome.score)


def _list_parts(challenge: Challenge, outcome: Outcome | None) -> list[DimensionShare]:
    """By the weights that it was scored with, which its breakdown has."""
    if outcome is None or not challenge.scoring.dimensions or outcome.score is None:
        return []
    breakdown: Mapping[str, Any] = outcome.details.get("score_breakdown") or {}
    scores = {key: part["score"] for key, part in breakdown.items()} or outcome.dimensions
    return [
        msgspec.structs.replace(each, weight=breakdown.get(each.key, {}).get("weight", each.weight))
        for each in list_dimensions(challenge, scores)
    ]


def _explain_formula(challenge: Challenge, attempt: Attempt) -> FormulaTree | None:
    """The formula with the attempt's values; None where something else decided the score."""
    outcome = attempt.outcome
    decided = outcome is None or outcome.score is None or "constraint_effect" in outcome.details
    if not challenge.scoring.formula or decided:
        return None
    try:
        rule = challenge_formula(challenge)
        values = rule.values_of(challenge, attempt)
    except TallymarkError:
        return None
    return take_apart(rule.formula, rule.formula.declared, values)


def _find_above(visit: Visit, challenge: Challenge, attempt: Attempt) -> Above | None:
    """The next better place, dimension by dimension: numbers alone, no words about an answer."""
    store = visit.app.store
    rival = find_rival(store, challenge, attempt.agent, public=visit.public)
    if rival is None:
        return None
    looks = {each.key: each for each in list_dimensions(challenge)}
    leads = [
        Lead(
            label=each.label,
            color=looks[each.key].color,
            again=looks[each.key].again,
            mine=each.mine,
            theirs=each.theirs,
            points=each.points,
        )
        for each in rival.leads
    ]
    theirs = rival.standing
    return Above(
        agent=theirs.agent,
        name=store.agents.names([theirs.agent]).get(theirs.agent, theirs.agent),
        attempt=theirs.attempt,
        shown=STRATEGIES[challenge.scoring.strategy].write(theirs.value),
        gap=rival.gap,
        leads=leads,
        reach=max((abs(each.points) for each in leads), default=0.0) or 1.0,
    )


def _list_problems(outcome: Outcome | None) -> list[str]:
    """Why a trajectory is not believed further; that there is none has been said."""
    if outcome is None or outcome.trajectory_level == "none":
        return []
    return [str(each) for each in outcome.details.get("unverified") or ()]


def _hides_ratings(visit: Visit) -> bool:
    """A rating before and after would tell what a frozen board hides."""
    return visit.public and bool(visit.app.store.challenges.frozen(visit.now))


def _list_sums(visit: Visit, attempt: Attempt) -> list[Sum]:
    found = visit.app.store.figures.change_by(attempt)
    return [] if found is None else list(_write_sums(*found))


def _write_sums(match: Match, change: EloChange) -> Iterable[Sum]:
    """The arithmetic of a rating, step by step."""
    opponent, value = tier_rating(match.tier), worth(match.result)
    did = {1.0: "Won", 0.5: "Drew", 0.0: "Lost"}[value]
    plain = change.k * (value - change.expected)
    rounded = elo.half_up(plain)
    yield Sum(
        f"Expected against tier {match.tier}",
        f"1 / (1 + 10^(({opponent} - {change.before}) / 400))",
        format_number(change.expected, 3, 3),
    )
    yield Sum(
        f"{did}, so the change is",
        f"{change.k} {_TIMES} ({format_number(value)} - {format_number(change.expected, 3, 3)})"
        f" = {format_number(plain, 2)}, rounded",
        f"{rounded:+d}",
    )
    if change.bonus != 1.0:
        more = (rounded * round(change.bonus * 10) + 5) // 10
        yield Sum(
            "Verified win",
            f"{rounded} {_TIMES} {format_number(change.bonus)}, rounded",
            f"{more:+d}",
        )
    floor = " (not below 100)" if change.after == elo.FLOOR else ""
    yield Sum(
        "Elo",
        f"{change.before} {'-' if change.change < 0 else '+'} {abs(change.change)}{floor}",
        f"{change.after}",
    )


def _list_warnings(details: Mapping[str, Any]) -> Iterable[Warned]:
    for each in details.get("submission_warnings") or ():
        severe = each.get("severity") == "error"
        about = (
            f"scores 0 in {each.get('dimension')}"
            if severe
            else "advice, which itself costs nothing"
        )
        yield Warned(
            message=str(each.get("message")), about=about, tone="bad" if severe else "warn"
        )
    effect = details.get("constraint_effect")
    for violation in details.get("constraint_violations") or ():
        yield Warned(
            message=str(violation),
            about=f"a limit was broken{f': {effect}' if effect else ', which is noted'}",
            tone="bad",
        )
    for name, about in (
        ("harness_warning", "by the harness"),
        ("warning", "about how it was scored"),
        ("unranked", "why it is not on the board"),
    ):
        if details.get(name):
            yield Warned(message=str(details[name]), about=about, tone="warn")


def _write_details(visit: Visit, attempt: Attempt, details: Mapping[str, Any]) -> str:
    """What the evaluator told, for its competitor and for organisers."""
    mine = visit.visitor.agent == attempt.agent
    if not (mine or visit.visitor.may_see_live):
        return ""
    kept = {key: value for key, value in details.items() if key not in _OWN_DETAILS}
    if not kept:
        return ""
    text = msgspec.json.format(msgspec.json.encode(kept), indent=2).decode()
    return text[:_MOST_DETAILS]


def _list_log(visit: Visit, attempt: Attempt) -> list[Happened]:
    entries = visit.app.store.attempts.audit(attempt.id, public=visit.public)
    found = []
    for each in entries:
        entry = each if visit.visitor.may_organise else each.without_hidden()
        note = entry.note or {}
        told = note.get("hidden") or note.get("reason") or ""
        found.append(
            Happened(
                at=entry.at, event=entry.event, actor=entry.actor, reason=clean_line(str(told), 300)
            )
        )
    return found


PAGE = Page("/attempts/{attempt}", "attempt.html", gather)

"""Why an attempt has its score: sources of numbers, warnings, rating change, the place above."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.challenges.attempt_formula import challenge_formula, is_by_rule_of
from tallymark.challenges.evaluators import find_evaluator
from tallymark.errors import InvalidInput, TallymarkError
from tallymark.ratings import elo
from tallymark.ratings.matches import tier_rating, worth
from tallymark.text import format_count, format_digits, format_money, format_number
from tallymark.web.board_rows import DimensionShare, explain_value, list_dimensions, write_value
from tallymark.web.formula_tree import FormulaTree, take_apart
from tallymark.web.what_if_board import change_by_address

if TYPE_CHECKING:
    from tallymark.challenges.attempt import Attempt, Metrics, Outcome
    from tallymark.challenges.challenge import Challenge
    from tallymark.ratings import EloChange, Match
    from tallymark.service.next_rank import Place
    from tallymark.service.ratings import EloStep
    from tallymark.web.board_rows import DimensionShare
    from tallymark.web.page_request import PageRequest

_SHOWN_APART = {
    *("score_breakdown", "dimension_score", "submission_warnings", "constraint_violations"),
    *("constraint_effect", "harness_warning", "unverified", "unranked", "warning", "sandbox"),
}
_LONGEST_DETAILS = 20_000


class Warned(msgspec.Struct, frozen=True, kw_only=True):
    """A warning or a violation, as a competitor sees it."""

    message: str
    about: str
    tone: str


def list_warnings(details: Mapping[str, Any]) -> Iterable[Warned]:
    """List warnings of the evaluator, of the limits and of the scoring."""
    for each in details.get("submission_warnings") or ():
        severe = each.get("severity") == "error"
        about = f"scores 0 in {each.get('dimension')}" if severe else "advice; it costs no points"
        yield Warned(
            message=str(each.get("message")), about=about, tone="bad" if severe else "warn"
        )
    effect = details.get("constraint_effect")
    for violation in details.get("constraint_violations") or ():
        yield Warned(
            message=str(violation),
            about=f"a limit was exceeded{f': {effect}' if effect else ' (noted only)'}",
            tone="bad",
        )
    for name, about in (
        ("harness_warning", "by the harness"),
        ("warning", "about how it was scored"),
        ("unranked", "why it is not on the board"),
    ):
        if details.get(name):
            yield Warned(message=str(details[name]), about=about, tone="warn")


def list_fields(details: Mapping[str, Any]) -> list[tuple[str, float]]:
    """List scores by field, if the evaluator compares field by field."""
    found = (details.get("evaluation") or {}).get("fields")
    if not isinstance(found, Mapping):
        return []
    return [
        (str(name), float(value))
        for name, value in found.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]


def write_details(details: Mapping[str, Any]) -> str:
    """Format the other details that the evaluator and the scorer returned."""
    kept = {key: value for key, value in details.items() if key not in _SHOWN_APART}
    evaluation = kept.get("evaluation")
    if isinstance(evaluation, Mapping) and evaluation.keys() == {"fields"}:
        kept.pop("evaluation")
    if not kept:
        return ""
    text = msgspec.json.format(msgspec.json.encode(kept), indent=2).decode()
    return text[:_LONGEST_DETAILS]


class Lead(msgspec.Struct, frozen=True, kw_only=True):
    """A dimension of this attempt and of the one above."""

    label: str
    color: str
    again: bool
    mine: float
    theirs: float
    points: float
    """Weighted lead of the one above."""


class Above(msgspec.Struct, frozen=True, kw_only=True):
    """The attempt that holds the place above."""

    agent: str
    name: str
    attempt: str
    shown: str
    mine: str
    gap: float | None
    tied: bool
    """True if it has the same value, or none either, and was earlier."""
    scored: bool
    """False if this attempt has no value to compare."""
    leads: list[Lead]
    reach: float
    """Largest lead, the full length of a bar."""
    told: bool
    """Whether the visitor may read comments on their answer."""
    warnings: list[Warned]
    details: str

    @property
    def total(self) -> float:
        """Their lead in points over all dimensions."""
        return sum(each.points for each in self.leads)


def describe_above(request: PageRequest, challenge: Challenge, place: Place) -> Above | None:
    """Describe the attempt directly above, on the board that the visitor sees."""
    rival, mine = place.above, place.mine
    if rival is None or mine is None:
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
    other = request.tally.attempts.view(str(rival.attempt), not request.public)
    told, outcome = other.shows_words, other.attempt.outcome
    details = outcome.details if told and outcome is not None else {}
    return Above(
        agent=rival.agent,
        name=request.tally.agents.find_names([rival.agent]).get(rival.agent, rival.agent),
        attempt=str(rival.attempt),
        shown=write_value(challenge, rival.value),
        mine=write_value(challenge, mine.value),
        gap=rival.gap,
        tied=mine.value == rival.value,
        scored=mine.value is not None,
        leads=leads,
        reach=max((abs(each.points) for each in leads), default=0.0) or 1.0,
        told=told,
        warnings=list(list_warnings(details)),
        details=write_details(details),
    )


_TIMES = "\N{MULTIPLICATION SIGN}"


class Sum(msgspec.Struct, frozen=True):
    """One step of a rating calculation."""

    what: str
    how: str
    result: str


def write_sums(match: Match, change: EloChange) -> Iterable[Sum]:
    """Write the steps from the expected score to the new rating."""
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


def write_step(step: EloStep) -> str:
    """Write the change of an Elo rating on one line."""
    bonus = f" {_TIMES} {format_number(step.bonus)}" if step.bonus != 1.0 else ""
    won, expected = format_number(step.won), format_number(step.expected, 3, 3)
    return f"{step.k} {_TIMES} ({won} - {expected}){bonus}"


_TIMES = "\N{MULTIPLICATION SIGN}"
_MINUS = "\N{MINUS SIGN}"


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A number and how it was computed."""

    what: str
    value: str
    how: str


def list_sources(
    challenge: Challenge, attempt: Attempt, parts: Sequence[DimensionShare]
) -> list[Source]:
    """List the sources of the score, of each dimension and of each metric."""
    outcome = attempt.outcome
    if outcome is None:
        return []
    return [
        *_explain_score(challenge, outcome, parts),
        *(
            Source(
                what=each.label,
                value=format_digits(each.score),
                how=explain_dimension(challenge, outcome.metrics, each.key),
            )
            for each in parts
        ),
        *_list_measured(challenge, outcome),
    ]


def _explain_score(
    challenge: Challenge, outcome: Outcome, parts: Sequence[DimensionShare]
) -> Iterable[Source]:
    if outcome.score is None:
        return
    if "constraint_effect" in outcome.details:
        how = "a limit of the challenge was broken, which scores 0"
    elif not is_by_rule_of(challenge, outcome) and (challenge.scoring.formula or not parts):
        how = "by an earlier rule of the challenge"
    else:
        how = explain_value(challenge, parts)
    yield Source(what="Score", value=format_digits(outcome.score), how=how)


def explain_dimension(challenge: Challenge, metrics: Metrics, key: str) -> str:
    """Explain how a dimension got its raw score."""
    bounds = challenge.constraints
    if key == "speed" and metrics.elapsed_ms is not None:
        used = format_number(metrics.elapsed_ms / 1000)
        limit = format_number(challenge.time_limit_s)
        whose = "its reporter's" if _is_reported(challenge) else "our"
        return f"1000 {_TIMES} (1 {_MINUS} {used} s / {limit} s), by {whose} clock"
    for name, spent, allowed in (
        ("token_efficiency", metrics.tokens_total, bounds.tokens),
        ("call_efficiency", metrics.calls, bounds.calls),
    ):
        if key == name and allowed:
            if spent is None:
                return "0: no verified trajectory shows what was used"
            return f"1000 {_TIMES} (1 {_MINUS} {spent:,} / {allowed:,}), of a verified trajectory"
    return f"by the evaluator {challenge.evaluator.type!r}, limited to 0 to 1000"


def _list_measured(challenge: Challenge, outcome: Outcome) -> Iterable[Source]:
    metrics = outcome.metrics
    by_trajectory = f"summed over the trajectory, which is {outcome.trajectory_level}"
    spent = "reported by the trusted system" if _is_reported(challenge) else by_trajectory
    timed = (
        "reported by the trusted system"
        if _is_reported(challenge)
        else "from entry to submission, by our clock"
    )
    if metrics.elapsed_ms is not None:
        seconds = f"{format_number(metrics.elapsed_ms / 1000)} s"
        yield Source(what="Time", value=seconds, how=timed)
    if metrics.tokens_total is not None:
        yield Source(what="Tokens", value=format_count(metrics.tokens_total, "token"), how=spent)
    if metrics.calls is not None:
        yield Source(what="Calls", value=format_count(metrics.calls, "call"), how=spent)
    if metrics.cost is not None:
        yield Source(what="Cost", value=format_money(metrics.cost), how=spent)


def _is_reported(challenge: Challenge) -> bool:
    return find_evaluator(challenge.evaluator.type).reported


_LARGEST_TOTAL = 1000.0
"""Highest total of all dimensions."""


class TriedRule(msgspec.Struct, frozen=True, kw_only=True):
    """Score of an attempt under the rule in the URL, or why there is none."""

    shown: str
    tree: FormulaTree | None = None
    parts: list[DimensionShare] = []
    problem: str = ""


def explain_formula(challenge: Challenge, attempt: Attempt) -> FormulaTree | None:
    """Expand the formula with the attempt's values; None if something else set the score."""
    outcome = attempt.outcome
    if outcome is None or not is_by_rule_of(challenge, outcome):
        return None
    return _apply_formula(challenge, attempt)


def _apply_formula(challenge: Challenge, attempt: Attempt) -> FormulaTree | None:
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


def try_on_attempt(
    request: PageRequest, challenge: Challenge, attempt: Attempt
) -> TriedRule | None:
    """Apply the formula or the weights in the URL; None if there are none."""
    try:
        new = change_by_address(request, challenge)
    except InvalidInput as error:
        return TriedRule(shown="", problem=error.problems[0].message)
    if new is None:
        return None
    if new.scoring.formula:
        tree = _apply_formula(new, attempt)
        if tree is not None:
            return TriedRule(shown=write_value(new, tree.value), tree=tree)
    elif attempt.outcome is not None and attempt.outcome.dimensions:
        parts = list_dimensions(new, attempt.outcome.dimensions)
        whole = min(_LARGEST_TOTAL, sum(each.weighted for each in parts))
        # Sums of thousandths: further digits are rounding errors.
        return TriedRule(shown=f"{int(round(whole, 6))}", parts=parts)
    return TriedRule(
        shown="", problem="this attempt has no metrics to which a rule could be applied"
    )

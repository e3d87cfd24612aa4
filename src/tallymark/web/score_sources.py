"""Where the numbers of an attempt come from, each in one line that can be checked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from tallymark.challenges.attempt_formula import is_by_rule_of
from tallymark.challenges.evaluators import find_evaluator
from tallymark.challenges.strategies import STRATEGIES
from tallymark.text import format_count, format_digits, format_money, format_number

if TYPE_CHECKING:
    from tallymark.challenges.attempt import Attempt, Metrics, Outcome
    from tallymark.challenges.challenge import Challenge, PublicChallenge
    from tallymark.web.board_rows import DimensionShare

_TIMES = "\N{MULTIPLICATION SIGN}"
_MINUS = "\N{MINUS SIGN}"


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A number, and what made it."""

    what: str
    value: str
    how: str


def list_sources(
    challenge: Challenge, attempt: Attempt, parts: Sequence[DimensionShare]
) -> list[Source]:
    """Of the score, of each dimension, and of what was measured."""
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


def explain_value(challenge: PublicChallenge, parts: Sequence[DimensionShare]) -> str:
    """What makes a score, or what a board goes by: the sum itself where it is one."""
    scoring = challenge.scoring
    if scoring.plugin:
        return f"given by the plugin {scoring.plugin}"
    if scoring.formula:
        return f"the formula {scoring.formula}"
    if parts:
        points = " + ".join(f"{format_number(each.weighted)} {each.label}" for each in parts)
        whole = format_number(sum(each.weighted for each in parts))
        return f"{points} = {whole}, rounded down"
    return f"{STRATEGIES[scoring.strategy].heading.lower()}, as it was measured"


def explain_dimension(challenge: Challenge, metrics: Metrics, key: str) -> str:
    """How a raw score came about: measured by us, or found by the evaluator."""
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
                return "0: no verified trajectory tells what was used"
            return f"1000 {_TIMES} (1 {_MINUS} {spent:,} / {allowed:,}), of a verified trajectory"
    return f"by the evaluator {challenge.evaluator.type!r}, kept within 0 and 1000"


def _list_measured(challenge: Challenge, outcome: Outcome) -> Iterable[Source]:
    metrics = outcome.metrics
    by_trajectory = f"summed over the trajectory, which is {outcome.trajectory_level}"
    spent = "told by the system that reported it" if _is_reported(challenge) else by_trajectory
    timed = (
        "told by the system that reported it"
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

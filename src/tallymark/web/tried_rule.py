"""An attempt by a rule that somebody tries: what the number of a what-if board is made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from tallymark.challenges.attempt_formula import challenge_formula, is_by_rule_of
from tallymark.errors import InvalidInput, TallymarkError
from tallymark.web.board_rows import DimensionShare, list_dimensions, write_value
from tallymark.web.score_parts import FormulaTree, take_apart
from tallymark.web.what_if_board import change_by_address

if TYPE_CHECKING:
    from tallymark.challenges.attempt import Attempt
    from tallymark.challenges.challenge import Challenge
    from tallymark.web.visit import Visit

_MOST = 1000.0
"""What dimensions can come to together."""


class TriedRule(msgspec.Struct, frozen=True, kw_only=True):
    """What an attempt would score by the rule of the address, or why that cannot be told."""

    shown: str
    tree: FormulaTree | None = None
    parts: list[DimensionShare] = []
    problem: str = ""


def explain_formula(challenge: Challenge, attempt: Attempt) -> FormulaTree | None:
    """The formula with the attempt's values; None where something else decided the score."""
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


def try_on_attempt(visit: Visit, challenge: Challenge, attempt: Attempt) -> TriedRule | None:
    """By the formula or the weights of the address; None where it has neither."""
    try:
        new = change_by_address(visit, challenge)
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
        whole = min(_MOST, sum(each.weighted for each in parts))
        # Sums of thousandths: what is left after so many digits is dust.
        return TriedRule(shown=f"{int(round(whole, 6))}", parts=parts)
    return TriedRule(shown="", problem="this attempt has no numbers that a rule could be tried on")

"""Rescoring: a challenge by another rule, what that takes, and who would move because of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from tallymark.challenges.attempt import Attempt, Evaluation, Outcome
from tallymark.challenges.attempt_formula import challenge_formula
from tallymark.challenges.attempt_scores import FindBroken, origin_of, score_attempts
from tallymark.challenges.challenge import Challenge, ScoringRule
from tallymark.challenges.evaluators import find_evaluator
from tallymark.errors import InvalidInput
from tallymark.scoring import Origin

if TYPE_CHECKING:
    from tallymark.challenges.plugins.plugin import Plugin

Need = Literal["formula", "score", "evaluate"]
"""Work of a new rule: arithmetic on stored numbers, or scoring again."""
Rescored: TypeAlias = tuple[Evaluation, Outcome]
Page: TypeAlias = Sequence[tuple[Attempt, Evaluation]]
RescorePages: TypeAlias = Callable[[Iterable[Page]], Iterator[tuple[Page, list[Rescored]]]]
"""Scores pages of attempts again, and gives each with its outcomes, in their order."""
Rescorer: TypeAlias = Callable[[Page], list[Rescored]]
Evaluate: TypeAlias = Callable[[Attempt], Evaluation]


@dataclass(frozen=True, slots=True)
class RescorePlan:
    """A rescoring: from which version to which, and how attempts are scored again."""

    old: Challenge
    new: Challenge
    need: Need
    origin: Origin
    rescorer: Rescorer
    packed: bytes | None = None
    """The files of the new version; None where they are the old one's."""
    deaths: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """Number of process crashes by agent; known once all are scored."""
    rescore_pages: RescorePages | None = None
    """Scores many attempts; None for the rescorer, page by page."""

    @classmethod
    def of(  # noqa: PLR0913 (each says one thing about the plan)
        cls,
        old: Challenge,
        new: Challenge,
        *,
        packed: bytes | None = None,
        plugin: Plugin | None = None,
        evaluate: Evaluate | None = None,
        find_broken: FindBroken | None = None,
        tenant: str = "default",
    ) -> RescorePlan:
        """`evaluate` judges a stored submission again; it is called only where that is needed.

        So is `find_broken`, which looks at a stored trajectory by the new constraints.
        """
        need = find_need(old, new, same_files=packed is None)
        if need == "evaluate" and evaluate is None:
            raise InvalidInput(
                f"the new version of challenge {new.name!r} judges submissions in another way",
                hint="evaluate them again",
            )
        again = evaluate if need == "evaluate" else None
        broken_again = None if old.constraints == new.constraints else find_broken
        return cls(
            old,
            new,
            need,
            origin_of_all(new, plugin),
            make_rescorer(new, plugin, again, broken_again, tenant=tenant),
            packed,
            getattr(plugin, "deaths", {}),
        )

    def rescore_all(self, pages: Iterable[Page]) -> Iterator[tuple[Page, list[Rescored]]]:
        """Each page with its outcomes, in their order."""
        if self.rescore_pages is not None:
            return self.rescore_pages(pages)
        return ((page, self.rescorer(page)) for page in pages)


def origin_of_all(challenge: Challenge, plugin: Plugin | None) -> Origin:
    """The origin of many scores by one rule: seeds are the attempts' own, all else is the same."""
    made_by = origin_of(challenge, 0, plugin)
    shared = {name: value for name, value in made_by.config.items() if name != "seed"}
    return msgspec.structs.replace(made_by, config=shared)


def change_scoring(challenge: Challenge, **changes: Any) -> Challenge:
    """The challenge with another formula, plugin, config or strategy: a version of its own.

    A formula takes the place of a plugin, and a plugin of a formula.
    """
    if changes.get("formula") is not None:
        changes = {"plugin": None, **changes}
    elif changes.get("plugin") is not None:
        changes = {"formula": None, **changes}
    scoring = msgspec.structs.replace(challenge.scoring, **changes)
    if scoring.formula is not None and scoring.plugin is not None:
        raise InvalidInput("a challenge is scored by a formula or by a plugin", hint="give one")
    if scoring == challenge.scoring:
        raise InvalidInput(f"challenge {challenge.name!r} is scored so already")
    # Of the old version and the rule, so that the same change always gives the same version.
    rule = challenge.version.encode() + msgspec.json.encode(scoring, order="sorted")
    version = hashlib.sha256(rule).hexdigest()
    new = msgspec.structs.replace(challenge, scoring=scoring, version=version)
    if scoring.formula is not None:
        challenge_formula(new)  # refuses what is none
    return new


def find_need(old: Challenge, new: Challenge, *, same_files: bool) -> Need:
    """The work needed to score the attempts of the old version by the new one."""
    judged = ("evaluator", "submission", "generate")
    reported = find_evaluator(new.evaluator.type).reported
    if not reported and not (same_files and _has_same(old, new, judged)):
        return "evaluate"
    weighed = ("evaluator", "time_limit_s", "constraints", "trajectory")
    plain = (
        new.scoring.formula is not None
        and new.scoring.plugin is None
        and old.scoring.plugin is None
        and old.scoring.dimensions == new.scoring.dimensions
        # A replaced undefined score has a note in its details, which SQL does not change.
        and "undefined" not in old.scoring.config
        # A 0 for a broken constraint is no formula's.
        and new.constraints.on_violation == "note"
    )
    return "formula" if plain and _has_same(old, new, weighed) else "score"


def make_rescorer(
    challenge: Challenge,
    plugin: Plugin | None = None,
    evaluate: Evaluate | None = None,
    find_broken: FindBroken | None = None,
    *,
    tenant: str = "default",
) -> Rescorer:
    """Scores stored attempts by a challenge; with `evaluate`, from their submissions on."""

    def rescore(pairs: Sequence[tuple[Attempt, Evaluation]]) -> list[Rescored]:
        found = [
            (attempt, known if evaluate is None else evaluate(attempt)) for attempt, known in pairs
        ]
        outcomes = score_attempts(challenge, found, plugin, find_broken=find_broken, tenant=tenant)
        return [(pair[1], outcome) for pair, outcome in zip(found, outcomes, strict=True)]

    return rescore


def evaluation_of(outcome: Outcome) -> Evaluation:
    """Evaluation of an attempt that was scored elsewhere."""
    return Evaluation(
        metrics=outcome.metrics,
        dimensions=outcome.dimensions,
        warnings=tuple(outcome.details.get("submission_warnings", ())),
        details=outcome.details.get("evaluation", {}),
    )


def describe_rule(scoring: ScoringRule) -> str:
    """A rule in few words."""
    if scoring.plugin is not None:
        return f"plugin {scoring.plugin}"
    if scoring.formula is not None:
        return scoring.formula
    return "dimensions" if scoring.dimensions else scoring.strategy


def formula_terms(challenge: Challenge, attempt: Attempt) -> dict[str, float]:
    """Contribution of each term of the challenge's formula to a score."""
    if challenge.scoring.formula is None or attempt.outcome is None:
        return {}
    rule = challenge_formula(challenge)
    explained = rule.formula.explain(rule.values_of(challenge, attempt))
    known = ((term.text, term.contribution) for term in explained.terms)
    return {text: value for text, value in known if value is not None}


def _has_same(old: Challenge, new: Challenge, fields: tuple[str, ...]) -> bool:
    return all(getattr(old, name) == getattr(new, name) for name in fields)

"""Terms of a challenge in words, for competitors."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from tallymark.challenges.constraints import list_bounds
from tallymark.challenges.evaluators import find_evaluator
from tallymark.challenges.strategies import STRATEGIES
from tallymark.ratings.matches import tier_rating
from tallymark.text import format_count
from tallymark.web.board_rows import DimensionShare, list_dimensions
from tallymark.web.rendering import format_duration

if TYPE_CHECKING:
    from tallymark.challenges.challenge import Challenge as Definition
    from tallymark.challenges.challenge import PublicChallenge, Versus
    from tallymark.service.challenges import Challenge

_EFFECTS = {"note": "is noted", "zero": "scores 0", "fail": "has no score"}
_RATED = {
    "every": "every attempt is a match",
    "until_won": "every attempt until one is won is a match",
    "first": "the first attempt is a match",
}
_FORMS = {
    "json": "JSON",
    "text": "text",
    "files": "files",
    "agent": "the name of a model to run",
}


class Term(msgspec.Struct, frozen=True):
    """A term and its explanation."""

    name: str
    says: str


class ChallengeTerms(msgspec.Struct, frozen=True, kw_only=True):
    """All terms, the same before and after entering."""

    title: str
    goal: str
    format: str
    max_bytes: int
    schema: str
    terms: list[Term]
    dimensions: list[DimensionShare]


def describe_terms(challenge: Challenge | Definition) -> ChallengeTerms:
    """Describe a challenge without anything that gives answers away, such as evaluator options."""
    sent = challenge.submission
    return ChallengeTerms(
        title=challenge.title,
        goal=challenge.goal,
        format=sent.format,
        max_bytes=sent.max_bytes,
        schema="" if sent.schema is None else json.dumps(sent.schema, indent=2),
        terms=list(_list_terms(challenge)),
        dimensions=list_dimensions(challenge),
    )


def is_reported(challenge: PublicChallenge) -> bool:
    """Return True if only a trusted system reports attempts."""
    return challenge.kind != "versus" and find_evaluator(challenge.evaluator.type).reported


def write_command(challenge: PublicChallenge, agent: str = "NAME") -> str:
    """Return the command that makes an attempt or submits to a side."""
    if challenge.kind == "versus":
        return f"tally versus submit {challenge.name} FILE --agent {agent} --side red"
    if is_reported(challenge):
        return f"tally attempt report {challenge.name} --agent {agent} --metric succeeded=true"
    return f"tally attempt enter {challenge.name} --agent {agent}"


def list_rules(challenge: Challenge | Definition) -> Iterable[Term]:
    """List the public terms of a challenge, its order and its visibility."""
    yield from _list_terms(challenge)
    if challenge.versus is not None:
        yield from _list_sight(challenge, "submissions")
        return
    strategy = STRATEGIES[challenge.scoring.strategy]
    way = "highest first" if strategy.highest_first else "lowest first"
    yield Term("Order", f"by {strategy.heading.lower()}, {way}; a tie goes to the earlier attempt")
    yield from _list_sight(challenge, "answers")


def _list_terms(challenge: Challenge | Definition) -> Iterable[Term]:
    if challenge.versus is not None:
        yield from _list_versus_terms(challenge, challenge.versus)
        return
    sent, scoring = challenge.submission, challenge.scoring
    quota = Term("Attempts", _describe_quota(challenge))
    if is_reported(challenge):
        yield Term("Entry", "a trusted system reports attempts; they cannot be entered here")
        yield quota
    else:
        yield Term(
            "Time",
            f"{format_duration(challenge.time_limit_s)} from entering, by the server's clock",
        )
        yield quota
        most = format_count(sent.max_bytes, "byte")
        yield Term("Answer", f"{_FORMS[sent.format]}, at most {most}")
    if challenge.generated:
        yield Term("Data", "generated for every attempt from a seed")
    yield Term("Judged by", challenge.evaluator.type)
    if scoring.formula:
        yield Term("Score", scoring.formula)
    elif scoring.plugin:
        yield Term("Score", f"by the plugin {scoring.plugin}")
    elif not scoring.dimensions:
        yield Term("Score", STRATEGIES[scoring.strategy].heading.lower())
    if sent.schema_dimension:
        yield Term("Schema", f"an invalid answer scores 0 in {sent.schema_dimension}")
    if bounds := list_bounds(challenge.constraints):
        effect = _EFFECTS[challenge.constraints.on_violation]
        yield Term("Limits", f"{', '.join(bounds)}; an attempt beyond {effect}")
    if challenge.trajectory != "none":
        yield Term("Trajectory", f"at least {challenge.trajectory}, or it does not rank")
    if rule := challenge.rated:
        tier = challenge.difficulty
        yield Term("Rating", f"against tier {tier}, {tier_rating(tier)}; {_RATED[rule]}")


def _list_versus_terms(challenge: PublicChallenge, versus: Versus) -> Iterable[Term]:
    sent = challenge.submission
    yield Term(
        "Sides",
        "red attacks, blue defends; a new submission meets all active ones of the other side",
    )
    yield Term("Categories", ", ".join(versus.categories))
    yield Term("Judged by", versus.judge.type)
    yield Term("Order", "by the lower bound of the strength")
    yield Term("Submissions", _describe_quota(challenge))
    yield Term("Form", f"{_FORMS[sent.format]}, at most {format_count(sent.max_bytes, 'byte')}")


def _list_sight(challenge: PublicChallenge, what: str) -> Iterable[Term]:
    private = f"{what} are visible to their agent and organisers only"
    if challenge.visibility == "public":
        seen = "public: anyone may read this page and its board without signing in"
    else:
        seen = "private: signed-in users only"
    yield Term("Visibility", f"{seen}; {private}")
    yield Term("Version", challenge.version[:12])


def _describe_quota(challenge: PublicChallenge) -> str:
    most = "unlimited" if challenge.attempts is None else f"{challenge.attempts:,}"
    daily = challenge.attempts_per_day
    return most if daily is None else f"{most}, at most {daily:,} a day"

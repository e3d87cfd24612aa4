"""What a competitor must know of a challenge: its terms in words, its data, its dimensions."""

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
    "agent": "the name of a model that is then asked",
}


class Term(msgspec.Struct, frozen=True):
    """Something that competitors must know."""

    name: str
    says: str


class ChallengeTerms(msgspec.Struct, frozen=True, kw_only=True):
    """All of it, the same before and after entering."""

    title: str
    goal: str
    format: str
    max_bytes: int
    schema: str
    terms: list[Term]
    dimensions: list[DimensionShare]


def describe_terms(challenge: Challenge | Definition) -> ChallengeTerms:
    """Nothing here tells how an answer is found: no options of the evaluator, no files."""
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
    """Whether attempts come by reports of a trusted system alone."""
    return challenge.kind != "versus" and find_evaluator(challenge.evaluator.type).reported


def write_command(challenge: PublicChallenge, agent: str = "NAME") -> str:
    """What to type for an attempt, or a submission to a side."""
    if challenge.kind == "versus":
        return f"tally versus submit {challenge.name} FILE --agent {agent} --side red"
    if is_reported(challenge):
        return f"tally attempt report {challenge.name} --agent {agent} --metric succeeded=true"
    return f"tally attempt enter {challenge.name} --agent {agent}"


def list_rules(challenge: Challenge | Definition) -> Iterable[Term]:
    """What anybody may know of a challenge: its terms, its order, and who sees it."""
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
        yield Term("Taking part", "a trusted system reports attempts; none is entered here")
        yield quota
    else:
        yield Term("Time", f"{format_duration(challenge.time_limit_s)} from entering, by our clock")
        yield quota
        most = format_count(sent.max_bytes, "byte")
        yield Term("Answer", f"{_FORMS[sent.format]}, at most {most}")
    if challenge.generated:
        yield Term("Data", "made anew for every attempt, from a seed")
    yield Term("Judged by", challenge.evaluator.type)
    if scoring.formula:
        yield Term("Score", scoring.formula)
    elif scoring.plugin:
        yield Term("Score", f"by the plugin {scoring.plugin}")
    elif not scoring.dimensions:
        yield Term("Score", STRATEGIES[scoring.strategy].heading.lower())
    if sent.schema_dimension:
        yield Term("Schema", f"an answer that does not fit scores 0 in {sent.schema_dimension}")
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
    yield Term("Sides", "red attacks, blue defends; a new submission meets all that stand")
    yield Term("Categories", ", ".join(versus.categories))
    yield Term("Judged by", versus.judge.type)
    yield Term("Order", "by the least strength that verdicts bear out")
    yield Term("Submissions", _describe_quota(challenge))
    yield Term("Form", f"{_FORMS[sent.format]}, at most {format_count(sent.max_bytes, 'byte')}")


def _list_sight(challenge: PublicChallenge, what: str) -> Iterable[Term]:
    private = f"{what} are shown to their agent and to organisers alone"
    if challenge.visibility == "public":
        seen = "public: anybody may read this page and its board, without signing in"
    else:
        seen = "private: those who are signed in; to others it does not exist"
    yield Term("Who sees it", f"{seen}; {private}")
    yield Term("Version", challenge.version[:12])


def _describe_quota(challenge: PublicChallenge) -> str:
    most = "as many as you like" if challenge.attempts is None else f"{challenge.attempts:,}"
    daily = challenge.attempts_per_day
    return most if daily is None else f"{most}, at most {daily:,} a day"

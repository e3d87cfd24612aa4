"""Who moves by a rescoring, as pages draw it: old and new score on one line."""

from __future__ import annotations

import msgspec

from tallymark.challenges.rescoring import BoardPlace, Rescoring
from tallymark.web.visit import Visit


class MovedLine(msgspec.Struct, frozen=True, kw_only=True):
    """An agent whose place is another; None where it has none."""

    agent: str
    name: str
    rank: int | None
    was: int | None
    by: int | None
    """Places won; less than 0 are lost."""
    score: float | None
    score_was: float | None
    result: str | None
    result_was: str | None
    at: float | None
    at_was: float | None
    """The scores as shares of the drawn line."""
    attempt: str
    """The one that counts, or counted."""


class RatingLine(msgspec.Struct, frozen=True, kw_only=True):
    """An agent whose Elo is another."""

    agent: str
    name: str
    was: float
    rating: float


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """The ends of the drawn line."""

    least: float
    most: float


def list_moves(visit: Visit, rescoring: Rescoring) -> list[MovedLine]:
    """The agents that move, by their new places; who leaves the board comes last."""
    scale = find_scale(rescoring)
    names = visit.tally.agents.find_names(each.agent for each in rescoring.moves)
    lines = []
    for each in rescoring.moves:
        before, after = each.before, each.after
        ranks = (before.rank, after.rank) if before and after else None
        place = after or before
        lines.append(
            MovedLine(
                agent=each.agent,
                name=names.get(each.agent, each.agent),
                rank=after.rank if after else None,
                was=before.rank if before else None,
                by=ranks[0] - ranks[1] if ranks else None,
                score=after.score if after else None,
                score_was=before.score if before else None,
                result=after.result if after else None,
                result_was=before.result if before else None,
                at=_find_share(after, scale),
                at_was=_find_share(before, scale),
                attempt=place.attempt if place else "",
            )
        )
    return sorted(lines, key=lambda line: (line.rank is None, line.rank or line.was or 0))


def list_rating_lines(visit: Visit, rescoring: Rescoring) -> list[RatingLine]:
    """What the Elo of agents becomes, by the fold that applying it would do."""
    names = visit.tally.agents.find_names(each.agent for each in rescoring.ratings)
    return [
        RatingLine(
            agent=each.agent,
            name=names.get(each.agent, each.agent),
            was=each.before,
            rating=each.after,
        )
        for each in rescoring.ratings
    ]


def find_scale(rescoring: Rescoring) -> Scale:
    """From 0 to 1000 where that holds all scores, as those of dimensions do."""
    places = [place for each in rescoring.moves for place in (each.before, each.after)]
    scores = [each.score for each in places if each is not None and each.score is not None]
    least, most = min(scores, default=0.0), max(scores, default=0.0)
    if any(each is not None and each.result is not None for each in places) and most <= 1000:
        most = 1000.0
    return Scale(least=min(0.0, least), most=most if most > min(0.0, least) else least + 1)


def _find_share(place: BoardPlace | None, scale: Scale) -> float | None:
    if place is None or place.score is None:
        return None
    return (place.score - scale.least) / (scale.most - scale.least)

"""Points, ratios and strengths of red and blue, from tallies of verdicts.

A breach is a point for red, a defence that held is one for blue. Strengths come from the joint fit
(`tallymark.ratings`) with attackers as agents and defenders as challenges, every verdict a match.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import fsum

import msgspec

from tallymark.challenges.versus.pairings import BreachVerdict, Side, SideSubmission
from tallymark.ratings import Pair, RatingEstimate, fit
from tallymark.ratings.joint_fit import make_estimate


class VersusTally(msgspec.Struct, frozen=True, kw_only=True):
    """How one player's attacks fared against another's defences in one category."""

    red: str
    blue: str
    category: str
    breached: int = 0
    held: int = 0
    unjudged: int = 0
    """Pending or failed: no point for anyone."""


class Points(msgspec.Struct, frozen=True):
    """Own points, and those of the opponents in the same verdicts."""

    own: int = 0
    other: int = 0

    def __add__(self, more: Points) -> Points:
        return Points(self.own + more.own, self.other + more.other)

    @property
    def ratio(self) -> float | None:
        """Own / both; None before the first verdict."""
        both = self.own + self.other
        return self.own / both if both else None


class VersusStanding(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a board: a player on one side, or on both together."""

    rank: int
    player: str
    side: Side | None
    points: int
    against: int
    ratio: float | None
    categories: dict[str, Points]
    unjudged: int
    strength: RatingEstimate | None
    """None before the first verdict. Of both sides together: the mean of the two strengths, with
    the mean of the two errors, which is at least its own error."""


def tally(
    verdicts: Iterable[BreachVerdict], submissions: Iterable[SideSubmission]
) -> list[VersusTally]:
    """Verdicts counted by players and category, superseded submissions included."""
    player = {each.id: each.player for each in submissions}
    counted: dict[tuple[str, str, str], Counter[str]] = {}
    for each in verdicts:
        what = "unjudged" if each.breached is None else "breached" if each.breached else "held"
        key = (player[each.red], player[each.blue], each.category)
        counted.setdefault(key, Counter())[what] += 1
    return [
        VersusTally(red=red, blue=blue, category=category, **numbers)
        for (red, blue, category), numbers in sorted(counted.items())
    ]


def versus_standings(
    tallies: Iterable[VersusTally], side: Side | None = None
) -> list[VersusStanding]:
    """The board of a side, or of all players with both sides added up.

    Most points first; ties go to who has fewer against, then by name.
    """
    known = list(tallies)
    records: dict[str, _PlayerRecord] = {}
    for each in known:
        if side != "blue":
            records.setdefault(each.red, _PlayerRecord()).add(
                each, Points(each.breached, each.held)
            )
        if side != "red":
            records.setdefault(each.blue, _PlayerRecord()).add(
                each, Points(each.held, each.breached)
            )
    strengths = _fit_strengths(known, side)
    lines = [
        _make_line(player, side, record, strengths.get(player, ()))
        for player, record in records.items()
    ]
    lines.sort(key=lambda line: (-line.points, line.against, line.player))
    return [msgspec.structs.replace(line, rank=at) for at, line in enumerate(lines, start=1)]


class _PlayerRecord:
    """What is counted of a player."""

    def __init__(self) -> None:
        self.categories: dict[str, Points] = {}
        self.unjudged = 0

    def add(self, tally: VersusTally, points: Points) -> None:
        known = self.categories.get(tally.category, Points())
        self.categories[tally.category] = known + points
        self.unjudged += tally.unjudged


def _make_line(
    player: str, side: Side | None, record: _PlayerRecord, strengths: Sequence[RatingEstimate]
) -> VersusStanding:
    total = sum(record.categories.values(), Points())
    return VersusStanding(
        rank=0,
        player=player,
        side=side,
        points=total.own,
        against=total.other,
        ratio=total.ratio,
        categories=dict(sorted(record.categories.items())),
        unjudged=record.unjudged,
        strength=_mean(strengths) if strengths else None,
    )


def _fit_strengths(
    tallies: Iterable[VersusTally], side: Side | None
) -> dict[str, list[RatingEstimate]]:
    """By player: as an attacker, as a defender, or both."""
    fitted = fit(Pair(each.red, each.blue, each.breached, 0, each.held) for each in tallies)
    found: dict[str, list[RatingEstimate]] = {}
    for on, strengths in (("red", fitted.strengths), ("blue", fitted.difficulties)):
        if side in (None, on):
            for player, strength in strengths.items():
                found.setdefault(player, []).append(strength)
    return found


def _mean(found: Sequence[RatingEstimate]) -> RatingEstimate:
    """Of an attacker's and a defender's strength; of one alone, itself."""
    value, error, robust, floor = (
        fsum(getattr(each, name) for each in found) / len(found)
        for name in ("value", "error", "robust_error", "floor")
    )
    return make_estimate(value, error, robust, sum(each.matches for each in found), floor)

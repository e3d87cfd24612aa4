"""Points, ratios and strengths of red and blue, from tallies of verdicts.

A breach is a point for red, a defence that held is one for blue. Strengths come from the joint fit
(`tallymark.ratings`) with attackers as agents and defenders as challenges, every verdict a match.
Ranks go by the floor of the strength: points can be had from the weak, and by meeting more of them.

Who plays both sides meets everyone but itself, and gives its rivals one more to meet. So that this
neither costs nor gains anything, its rank on a side is what it would be if it had not played the
other, and over both sides the better of the two (docs/decisions/0022-both-sides.md). Ranks can
therefore be shared.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from tallymark.challenges.versus.pairings import (
    BreachVerdict,
    Side,
    SideSubmission,
)
from tallymark.ratings import Counts, Fit, Pair, RatingEstimate, fit
from tallymark.ratings.joint_fit import SortKey

_LAST: SortKey = (1, 0, 0.0)
"""After every key that there is."""

_FEWEST_BROKEN = 3
"""Opponents whose word against one who came before them is believed."""


class VersusTally(msgspec.Struct, frozen=True, kw_only=True):
    """Results of one player's attacks against another's defences in one category."""

    red: str
    blue: str
    category: str
    breached: int = 0
    held: int = 0
    unjudged: int = 0
    """Pending or failed: no point for anyone."""
    broken: int = 0
    """Failed verdicts: one of the two made the judge fail."""
    completed_by_red: int = 0
    """Failed verdicts where the attack came after the defence."""


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
    """None before the first verdict. Of both sides together: that of the side with the higher
    floor."""


def tally(
    verdicts: Iterable[BreachVerdict], submissions: Iterable[SideSubmission]
) -> list[VersusTally]:
    """Verdicts counted by players and category, superseded submissions included."""
    player = {each.id: each.agent for each in submissions}
    counted: dict[tuple[str, str, str], Counter[str]] = {}
    for each in verdicts:
        what = "unjudged" if each.breached is None else "breached" if each.breached else "held"
        key = (player[each.red], player[each.blue], each.category)
        counted.setdefault(key, Counter())[what] += 1
        if each.state == "failed":
            counted[key]["broken"] += 1
            counted[key]["completed_by_red"] += each.red > each.blue
    return [
        VersusTally(red=red, blue=blue, category=category, **numbers)
        for (red, blue, category), numbers in sorted(counted.items())
    ]


def versus_standings(
    tallies: Iterable[VersusTally], side: Side | None = None
) -> list[VersusStanding]:
    """The board of a side, or of all players by their better one, with points added up.

    Strongest first, by floors; who has no verdict yet comes last.
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
    counts = Counts.of(_count_matches(known))
    fitted = fit(counts)
    strengths = _find_strengths(fitted, side)
    ranks = _rank_players(sorted(records), side, counts, fitted)
    lines = [
        _make_line(ranks[player], player, side, record, strengths.get(player))
        for player, record in records.items()
    ]
    lines.sort(key=lambda line: (line.rank, -_get_floor(line.strength), line.player))
    return lines


class _PlayerRecord:
    """Counts of a player."""

    def __init__(self) -> None:
        self.categories: dict[str, Points] = {}
        self.unjudged = 0

    def add(self, tally: VersusTally, points: Points) -> None:
        known = self.categories.get(tally.category, Points())
        self.categories[tally.category] = known + points
        self.unjudged += tally.unjudged


def _make_line(
    rank: int,
    player: str,
    side: Side | None,
    record: _PlayerRecord,
    strength: RatingEstimate | None,
) -> VersusStanding:
    total = sum(record.categories.values(), Points())
    return VersusStanding(
        rank=rank,
        player=player,
        side=side,
        points=total.own,
        against=total.other,
        ratio=total.ratio,
        categories=dict(sorted(record.categories.items())),
        unjudged=record.unjudged,
        strength=strength,
    )


def _count_matches(tallies: Sequence[VersusTally]) -> Iterator[Pair]:
    """Verdicts as matches, including failed ones: failing the judge must not pay more than losing.

    A failed verdict is lost by the later of the two, who saw the judge fail and can submit again.
    So no one can make an established submission lose, unless that is clearly the worse of the two.
    """
    reds: dict[str, _JudgeRecord] = {}
    blues: dict[str, _JudgeRecord] = {}
    for each in tallies:
        reds.setdefault(each.red, _JudgeRecord()).add(each, each.blue)
        blues.setdefault(each.blue, _JudgeRecord()).add(each, each.red)
    for each in tallies:
        by_red = each.completed_by_red
        if each.broken:
            red = reds[each.red].without(each.blue)
            blue = blues[each.blue].without(each.red)
            if red.is_clearly_worse(blue):
                by_red = each.broken
            elif blue.is_clearly_worse(red):
                by_red = 0
        breached = each.breached + each.broken - by_red
        yield Pair(each.red, each.blue, breached, 0, each.held + by_red)


@dataclass(frozen=True, slots=True)
class _JudgeRecord:
    """Against which players the judge failed, and against which it answered at all."""

    broken: set[str] = field(default_factory=set)
    judged: set[str] = field(default_factory=set)

    def add(self, tally: VersusTally, opponent: str) -> None:
        if tally.broken:
            self.broken.add(opponent)
        if tally.breached or tally.held:
            self.judged.add(opponent)

    def without(self, opponent: str) -> _JudgeRecord:
        """Verdicts of others: those of a pairing are no evidence on themselves."""
        return _JudgeRecord(self.broken - {opponent}, self.judged - {opponent})

    @property
    def share(self) -> float:
        """Share of opponents against which it broke the judge; 1 if it was never judged."""
        met = self.broken | self.judged
        return len(self.broken) / len(met) if self.judged else 1.0

    def is_clearly_worse(self, other: _JudgeRecord) -> bool:
        """It was never judged, or it broke the judge with most opponents, and three at least."""
        enough = not self.judged or len(self.broken) >= _FEWEST_BROKEN
        return enough and self.share > max(0.5, other.share)


def _find_strengths(fitted: Fit, side: Side | None) -> dict[str, RatingEstimate]:
    """By player, as an attacker or a defender, or as what has the higher floor."""
    found: dict[str, RatingEstimate] = {}
    for on, strengths in (("red", fitted.strengths), ("blue", fitted.difficulties)):
        if side in (None, on):
            for player, strength in strengths.items():
                if strength.floor > _get_floor(found.get(player)):
                    found[player] = strength
    return found


def _get_floor(strength: RatingEstimate | None) -> float:
    return -math.inf if strength is None else strength.floor


def _rank_players(
    players: Sequence[str], side: Side | None, counts: Counts, fitted: Fit
) -> dict[str, int]:
    """Each by the fit of all verdicts; who plays both sides by one without its other side."""
    ranks = _number(players, _find_keys(fitted, side))
    for player in fitted.strengths.keys() & fitted.difficulties.keys():
        worlds = []
        if side != "blue":
            worlds.append(counts.without(challenge=player))
        if side != "red":
            worlds.append(counts.without(agent=player))
        ranks[player] = min(
            _number(players, _find_keys(fit(world), side))[player] for world in worlds
        )
    return ranks


def _find_keys(fitted: Fit, side: Side | None) -> dict[str, SortKey]:
    """Sort key of the board by player; over both sides the better of the two."""
    found: dict[str, SortKey] = {}
    if side != "blue":
        found |= fitted.sort_keys("strengths")
    if side != "red":
        for player, key in fitted.sort_keys("difficulties").items():
            found[player] = min(key, found.get(player, key))
    return found


def _number(players: Sequence[str], keys: Mapping[str, SortKey]) -> dict[str, int]:
    """Places from 1 on; who has no key comes last, and equal ones go by name."""
    ordered = sorted(players, key=lambda player: (keys.get(player, _LAST), player))
    return {player: at for at, player in enumerate(ordered, start=1)}

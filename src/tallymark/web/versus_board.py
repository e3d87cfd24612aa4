"""Red against blue as a page shows it: both sides' standings, and who breached whom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.challenges.versus.standings import VersusStanding, versus_standings
from tallymark.service.side_places import read_tallies

if TYPE_CHECKING:
    from tallymark.store.contests.challenges import StoredChallenge
    from tallymark.web.visit import Visit

_MOST_SHOWN = 40
"""Players of a side in the matrix: more would be no picture any more."""


class VersusCell(msgspec.Struct, frozen=True, kw_only=True):
    """An attacker against a defender, over all categories or in one."""

    breached: int
    held: int
    unjudged: int

    @property
    def judged(self) -> int:
        return self.breached + self.held

    @property
    def share(self) -> float | None:
        """Of verdicts that the attacker won."""
        return self.breached / self.judged if self.judged else None


class VersusBoard(msgspec.Struct, frozen=True, kw_only=True):
    """Standings of both sides, and the matrix of one category or of all."""

    red: list[VersusStanding]
    blue: list[VersusStanding]
    names: dict[str, str]
    categories: list[str]
    category: str
    attackers: list[str]
    defenders: list[str]
    cells: list[list[VersusCell | None]]
    """A row for each attacker, in it a cell for each defender; None where they never met."""
    left_out: int

    @property
    def choices(self) -> list[tuple[str, str]]:
        """The categories to choose from, and how each is called."""
        return [("", "All"), *((each, each) for each in self.categories)]

    def name(self, player: str) -> str:
        """What a player is shown as."""
        return self.names.get(player, player)

    def list_rows(self) -> Iterator[Mapping[str, Any]]:
        """A row for each player on each side."""
        for standing in (*self.red, *self.blue):
            row = msgspec.structs.asdict(standing)
            strength = row.pop("strength")
            del row["categories"]
            yield row | {
                "strength": None if strength is None else strength.value,
                "low": None if strength is None else strength.low,
                "high": None if strength is None else strength.high,
            }


def make_versus_board(visit: Visit, kept: StoredChallenge) -> VersusBoard:
    """What the visitor may see: the public's stops at the freeze."""
    store = visit.app.store
    tallies = read_tallies(store, kept, at=visit.now, public=visit.public)
    red, blue = versus_standings(tallies, "red"), versus_standings(tallies, "blue")
    categories = list(kept.challenge.versus.categories) if kept.challenge.versus else []
    category = visit.choose("category", ("", *categories))
    counted: dict[tuple[str, str], list[int]] = {}
    for each in tallies:
        if category in ("", each.category):
            cell = counted.setdefault((each.red, each.blue), [0, 0, 0])
            for at, more in enumerate((each.breached, each.held, each.unjudged)):
                cell[at] += more
    attackers = [each.player for each in red][:_MOST_SHOWN]
    defenders = [each.player for each in blue][:_MOST_SHOWN]
    cells = [
        [
            None
            if (found := counted.get((attacker, defender))) is None
            else VersusCell(breached=found[0], held=found[1], unjudged=found[2])
            for defender in defenders
        ]
        for attacker in attackers
    ]
    return VersusBoard(
        red=red,
        blue=blue,
        names=store.agents.names({each.player for each in (*red, *blue)}),
        categories=categories,
        category=category,
        attackers=attackers,
        defenders=defenders,
        cells=cells,
        left_out=len(red) + len(blue) - len(attackers) - len(defenders),
    )

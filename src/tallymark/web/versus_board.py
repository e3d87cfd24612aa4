"""Board of red against blue: standings of both sides and the matrix of breaches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.challenges.strategies import Standing

if TYPE_CHECKING:
    from tallymark.service.challenges import Challenge
    from tallymark.web.page_request import PageRequest

_MOST_ROWS = 1_000
_MOST_SHOWN = 40
"""Most players of a side in the matrix."""


class VersusCell(msgspec.Struct, frozen=True, kw_only=True):
    """Verdicts of an attacker against a defender."""

    breached: int
    held: int
    unjudged: int

    @property
    def judged(self) -> int:
        return self.breached + self.held

    @property
    def share(self) -> float | None:
        """Share of verdicts that the attacker won."""
        return self.breached / self.judged if self.judged else None


class VersusBoard(msgspec.Struct, frozen=True, kw_only=True):
    """Standings of both sides, and the matrix of one category or of all."""

    red: list[Standing]
    blue: list[Standing]
    names: dict[str, str]
    seq: int
    """Sequence number of the last change shown; 0 on a frozen board."""
    categories: list[str]
    category: str
    attackers: list[str]
    defenders: list[str]
    cells: list[list[VersusCell | None]]
    """Rows of attackers with a cell for each defender; None if they never met."""
    left_out: int

    @property
    def choices(self) -> list[tuple[str, str]]:
        """Categories to choose from, with titles."""
        return [("", "All"), *((each, each) for each in self.categories)]

    def name(self, player: str) -> str:
        """Return the name of a player."""
        return self.names.get(player, player)

    def list_rows(self) -> Iterator[Mapping[str, Any]]:
        """Yield a row for each player of each side."""
        for standing in (*self.red, *self.blue):
            row: dict[str, Any] = msgspec.to_builtins(standing)
            strength = row.pop("strength") or {}
            for name in ("categories", "attempt", "trajectory_level"):
                del row[name]
            yield row | {
                "strength": strength.get("value"),
                "low": strength.get("low"),
                "high": strength.get("high"),
            }


def make_versus_board(request: PageRequest, challenge: Challenge) -> VersusBoard:
    """Make the board that the visitor may see."""
    name, live, boards = challenge.name, not request.public, request.tally.boards
    left = boards.get(name, side="red", limit=_MOST_ROWS, live=live)
    right = boards.get(name, side="blue", limit=_MOST_ROWS, live=live)
    tallies = request.tally.versus.tallies(name, live=live)
    red, blue = left.items, right.items
    categories = list(challenge.versus.categories) if challenge.versus else []
    category = request.choose("category", ("", *categories))
    counted: dict[tuple[str, str], list[int]] = {}
    for each in tallies:
        if category in ("", each.category):
            cell = counted.setdefault((each.red, each.blue), [0, 0, 0])
            for at, more in enumerate((each.breached, each.held, each.unjudged)):
                cell[at] += more
    attackers = [each.agent for each in red][:_MOST_SHOWN]
    defenders = [each.agent for each in blue][:_MOST_SHOWN]
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
        names=left.names | right.names,
        seq=left.seq,
        categories=categories,
        category=category,
        attackers=attackers,
        defenders=defenders,
        cells=cells,
        left_out=len(red) + len(blue) - len(attackers) - len(defenders),
    )

"""Counts per pair: all that P(win) = logistic(strength - difficulty) needs of a log (Rasch 1960).

Wins, draws and losses are sufficient for the fit, so a match is added in constant time, and the fit
of counts kept up to date equals the fit of the whole log, to the bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

from tallymark.ratings.match import Match, whole, worth


@dataclass(frozen=True, slots=True)
class Pair:
    """How one agent fared at one challenge."""

    agent: str
    challenge: str
    wins: int = 0
    draws: int = 0
    losses: int = 0

    def __post_init__(self) -> None:
        for name in ("wins", "draws", "losses"):
            what = f"{name} of agent {self.agent!r} at challenge {self.challenge!r}"
            whole(getattr(self, name), what, least=0)


class Counts:
    """Wins, draws and losses per agent and challenge, kept up to date one match at a time."""

    __slots__ = ("_cells",)

    def __init__(self) -> None:
        self._cells: dict[tuple[str, str], list[int]] = {}

    @classmethod
    def of(cls, log: Iterable[Match | Pair]) -> Self:
        """The counts of a log, or of pairs already counted; pairs given twice are added up."""
        counts = cls()
        for entry in log:
            if isinstance(entry, Pair):
                counts.add_pair(entry)
            else:
                counts.add(entry)
        return counts

    def add(self, match: Match) -> None:
        """Count one match."""
        lost = 2 - int(2 * worth(match.result))
        self._cell(match.agent, match.challenge)[lost] += 1

    def add_pair(self, pair: Pair) -> None:
        """Count all matches of a pair; a pair without any match leaves no trace."""
        if pair.wins or pair.draws or pair.losses:
            cell = self._cell(pair.agent, pair.challenge)
            for at, number in enumerate((pair.wins, pair.draws, pair.losses)):
                cell[at] += number

    def __iter__(self) -> Iterator[Pair]:
        return (Pair(*key, *cell) for key, cell in self._cells.items())

    def cells(self) -> Iterator[tuple[tuple[str, str], list[int]]]:
        """Agent and challenge, with wins, draws and losses; quicker than pairs."""
        return iter(self._cells.items())

    def _cell(self, agent: str, challenge: str) -> list[int]:
        return self._cells.setdefault((agent, challenge), [0, 0, 0])

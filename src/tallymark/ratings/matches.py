"""Matches, and their counts per pair of agent and challenge.

S is 1 for a win, 1/2 for a draw, 0 for a loss (Elo 1978, "The Rating of Chessplayers"). The attempt
log is an ordered iterable of matches, in the order in which they ended. Wins, draws and losses of
pairs are sufficient for the joint fit (Rasch 1960), so a match is added in constant time, and the
fit of counts kept up to date equals the fit of the whole log, to the bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import compress
from types import MappingProxyType
from typing import NamedTuple, Self, TypeAlias, TypeVar

from tallymark.errors import InvalidInput, suggest

_Value = TypeVar("_Value")

RESULTS: Mapping[str, float] = MappingProxyType(
    {"win": 1.0, "draw": 0.5, "loss": 0.0, "expired": 0.0}
)
"""Points of each result; a match left to expire is a loss."""
TIERS: Mapping[str, int] = MappingProxyType(
    {"newcomer": 800, "contender": 1000, "veteran": 1200, "legendary": 1400}
)
"""The rating of the opponent that a challenge of each difficulty is."""


@dataclass(frozen=True, slots=True)
class Match:
    """One finished attempt of an agent at a challenge.

    `tier` is the challenge's difficulty when the match was played, so that a challenge moved to
    another tier does not rewrite the past.
    """

    agent: str
    challenge: str
    tier: str
    result: str
    verified: bool = False
    memoryless: bool = False
    first: bool | None = None
    """True for the agent's first entry to the challenge; None reads it from the log."""

    def __post_init__(self) -> None:
        worth(self.result)
        tier_rating(self.tier)


def worth(result: str) -> float:
    """S of a result; an unknown one is refused."""
    return _look_up(result, RESULTS, "result")


def tier_rating(tier: str) -> int:
    """The opponent's rating of a tier; an unknown one is refused."""
    return _look_up(tier, TIERS, "difficulty tier")


def require_whole(value: object, what: str, *, least: int) -> int:
    """The value, if it is a whole number of at least `least`."""
    # True is an int to Python, but it is no count.
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidInput(f"{what} is {value!r}", hint=f"give a whole number of at least {least}")
    return value


def _look_up(word: object, table: Mapping[str, _Value], what: str) -> _Value:
    found = table.get(word) if isinstance(word, str) else None
    if found is None:
        close = suggest(word, table) if isinstance(word, str) else None
        hint = f"did you mean {close!r}?" if close else f"known are {', '.join(table)}"
        raise InvalidInput(f"{word!r} is not a {what}", hint=hint)
    return found


_Numbered: TypeAlias = tuple[dict[str, int], list[int]]
"""Names with their places, and who is meant, cell by cell."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Results of one agent at one challenge."""

    agent: str
    challenge: str
    wins: int = 0
    draws: int = 0
    losses: int = 0

    def __post_init__(self) -> None:
        for name in ("wins", "draws", "losses"):
            what = f"{name} of agent {self.agent!r} at challenge {self.challenge!r}"
            require_whole(getattr(self, name), what, least=0)


class CountColumns(NamedTuple):
    """All pairs side by side: who (places in `agents` and `challenges`) and with which results."""

    agents: list[str]
    challenges: list[str]
    rows: list[int]
    columns: list[int]
    results: tuple[list[int], list[int], list[int]]
    """Wins, draws and losses."""


class Counts:
    """Wins, draws and losses per agent and challenge, updated one match at a time.

    Stored as columns, which a fit of a million pairs takes over as they are.
    """

    __slots__ = ("_agents", "_challenges", "_columns", "_places", "_results", "_rows")

    def __init__(self) -> None:
        self._agents: dict[str, int] = {}
        self._challenges: dict[str, int] = {}
        self._places: dict[tuple[int, int], int] = {}
        self._rows: list[int] = []
        self._columns: list[int] = []
        self._results: tuple[list[int], list[int], list[int]] = ([], [], [])

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
        # A win is worth 1, a draw 1/2, a loss 0: the columns 0, 1 and 2.
        lost = 2 - int(2 * worth(match.result))
        self._results[lost][self._find_place(match.agent, match.challenge)] += 1

    def add_pair(self, pair: Pair) -> None:
        """Count all matches of a pair; a pair without any match leaves no trace."""
        if pair.wins or pair.draws or pair.losses:
            place = self._find_place(pair.agent, pair.challenge)
            for column, number in zip(
                self._results, (pair.wins, pair.draws, pair.losses), strict=True
            ):
                column[place] += number

    def without(self, *, agent: str | None = None, challenge: str | None = None) -> Counts:
        """Counts as if an agent or a challenge had never been there."""
        gone = self._agents.get(agent or "", -1), self._challenges.get(challenge or "", -1)
        met = zip(self._rows, self._columns, strict=True)
        kept = [row != gone[0] and column != gone[1] for row, column in met]
        left = Counts()
        left._take_columns(
            _renumber(self._agents, compress(self._rows, kept)),
            _renumber(self._challenges, compress(self._columns, kept)),
            [list(compress(each, kept)) for each in self._results],
        )
        return left

    def _take_columns(
        self, agents: _Numbered, challenges: _Numbered, results: list[list[int]]
    ) -> None:
        self._agents, self._rows = agents
        self._challenges, self._columns = challenges
        met = zip(self._rows, self._columns, strict=True)
        self._places = {pair: at for at, pair in enumerate(met)}
        self._results = results[0], results[1], results[2]

    def __iter__(self) -> Iterator[Pair]:
        return (Pair(*key, *cell) for key, cell in self.cells())

    def cells(self) -> Iterator[tuple[tuple[str, str], tuple[int, int, int]]]:
        """Agent and challenge, with wins, draws and losses; quicker than pairs."""
        agents, challenges = list(self._agents), list(self._challenges)
        for row, column, *cell in zip(self._rows, self._columns, *self._results, strict=True):
            yield (agents[row], challenges[column]), (cell[0], cell[1], cell[2])

    def columns(self) -> CountColumns:
        """All of it at once: what is quickest for many."""
        return CountColumns(
            list(self._agents), list(self._challenges), self._rows, self._columns, self._results
        )

    def _find_place(self, agent: str, challenge: str) -> int:
        row = self._agents.setdefault(agent, len(self._agents))
        column = self._challenges.setdefault(challenge, len(self._challenges))
        place = self._places.setdefault((row, column), len(self._rows))
        if place == len(self._rows):
            self._rows.append(row)
            self._columns.append(column)
            for results in self._results:
                results.append(0)
        return place


def _renumber(names: dict[str, int], places: Iterable[int]) -> _Numbered:
    """Only the names that are used, and the new places for the old ones."""
    used = list(places)
    new = {old: at for at, old in enumerate(sorted(set(used)))}
    return {name: new[old] for name, old in names.items() if old in new}, [new[at] for at in used]

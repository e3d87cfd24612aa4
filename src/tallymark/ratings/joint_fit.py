"""P(win) = 1 / (1 + 10^((difficulty - strength) / 400)), fitted jointly (Rasch 1960, with a prior).

Draws are half wins. Strengths and difficulties have one Gaussian prior. The results alone tell only
differences: adding the same number to all changes nothing. The prior settles this, and exactly: at
the optimum the mean of all strengths and difficulties of a group is its centre. It also keeps an
agent that won everything finite. It is too wide to pull: an agent that meets only opponents of its
own strength has only small gaps, and pulls would add up (docs/decisions/0017). Agents and
challenges that no chain of matches joins are in different groups, and values of different groups
cannot be compared. Matches of one pair are alike, and count for less the more there are
(`weigh_repeats`).

Errors are relative to the mean of a value's group: the variance that the prior leaves to
that mean, a convention and not a finding, is taken out. `error`, and the interval with it, comes
from the Hessian; `robust_error` is the sandwich (White 1982), which draws make smaller.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from tallymark.errors import InvalidInput
from tallymark.ratings.matches import Counts, Match, Pair

if TYPE_CHECKING:
    from tallymark.ratings.joint_fit_solver import FloorTerm, Meetings

SCALE = 400 / math.log(10)
"""Elo points to one unit of the logistic function: 173.7."""
Z95 = 1.959963984540054
"""Errors to either side of a Gaussian's mean that hold 95 % of it."""
PRIOR_SD = 2000.0
SURE_WITHIN = 200.0
"""Half of an interval that is under this is no longer provisional."""
SortKey: TypeAlias = tuple[int, int, float]
"""Agents of the group, floor and value, each with its sign changed: the least goes first."""


@dataclass(frozen=True, slots=True)
class RatingEstimate:
    """A strength or a difficulty on the Elo scale, with its 95 % interval."""

    value: float
    low: float
    high: float
    error: float
    robust_error: float
    matches: int
    floor: float
    """The least value that the results bear out; tables are ordered by it."""
    provisional: bool
    """True until half of the interval is under 200."""


@dataclass(frozen=True, slots=True)
class Group:
    """Agents and challenges that matches join, directly or through others."""

    agents: tuple[str, ...]
    challenges: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """An agent's place among the agents with which it can be compared."""

    place: int
    tied: bool
    """Another agent has the same place."""
    group: int
    """1 is the largest."""
    group_size: int


@dataclass(frozen=True, slots=True)
class Fit:
    """Strengths of agents and difficulties of challenges, by name in alphabetical order."""

    strengths: Mapping[str, RatingEstimate]
    difficulties: Mapping[str, RatingEstimate]
    groups: tuple[Group, ...]
    repeat_correlation: float | None = None
    """Correlation of repeated matches of a pair; None where there was no match."""
    met: Meetings | None = field(default=None, repr=False, compare=False)
    """The matches of the agents, numbered in alphabetical order, as the lower bounds need them."""

    def list_floor_terms(self, agent: str, centre: float = 1000.0) -> list[FloorTerm]:
        """The terms of an agent's floor, by the number of each challenge that it met."""
        from tallymark.ratings.joint_fit_solver import list_floor_terms  # noqa: PLC0415 - brings in numpy

        assert self.met is not None  # noqa: S101 (it has an agent)
        floor = (self.strengths[agent].floor - centre) / SCALE
        return list_floor_terms(self.met, list(self.strengths).index(agent), floor)

    @property
    def connected(self) -> bool:
        """True if all values can be compared with each other."""
        return len(self.groups) <= 1

    def order(self, what: Literal["strengths", "difficulties"]) -> list[str]:
        """The names as a table should list them: highest floor first, group by group."""
        keys = self.sort_keys(what)
        return [
            name
            for group in self._list_groups()
            for name in sorted(
                group.agents if what == "strengths" else group.challenges,
                key=lambda name: (keys[name], name),
            )
        ]

    def places(self) -> dict[str, GroupPlace]:
        """By agent, as `order` lists them: where each stands in its group."""
        keys, found = self.sort_keys("strengths"), {}
        for number, group in enumerate(self._list_groups(), 1):
            alike = Counter(keys[name] for name in group.agents)
            first: dict[SortKey, int] = {}
            members = sorted(group.agents, key=lambda name: (keys[name], name))
            for nth, name in enumerate(members, 1):
                place = first.setdefault(keys[name], nth)
                found[name] = GroupPlace(place, alike[keys[name]] > 1, number, len(members))
        return found

    def _list_groups(self) -> list[Group]:
        """The groups that have agents, the largest first."""
        return sorted(self.groups, key=lambda group: -len(group.agents))

    def sort_keys(self, what: Literal["strengths", "difficulties"]) -> dict[str, SortKey]:
        """By name, the key that orders a table; the least key goes first.

        Values of different groups cannot be compared; the group of most agents goes first, so that
        no agent gains by avoiding the others.
        """
        estimates: Mapping[str, RatingEstimate] = getattr(self, what)
        found: dict[str, SortKey] = {}
        for group in self.groups:
            for name in group.agents if what == "strengths" else group.challenges:
                each = estimates[name]
                found[name] = (-len(group.agents), -round(each.floor), -each.value)
        return found

    def chance(self, agent: str, challenge: str) -> float | None:
        """The expected share of points; None where no chain of matches joins the two."""
        strength, difficulty = self.strengths[agent], self.difficulties[challenge]
        if not any(agent in each.agents and challenge in each.challenges for each in self.groups):
            return None
        gap = strength.value - difficulty.value
        # The logistic function, in a form that no gap can overflow.
        return 0.5 * (1 + math.tanh(gap / SCALE / 2))


def fit(
    log: Counts | Iterable[Match | Pair],
    *,
    centre: float = 1000.0,
    prior_sd: float = PRIOR_SD,
    repeat_correlation: float | None = None,
) -> Fit:
    """Fit a log, pairs or counts; the order of what is given does not matter, to the bit.

    `prior_sd` is how far from the centre strengths and difficulties are expected to lie, in Elo
    points, before any match is seen; `repeat_correlation` is the correlation of matches of one
    pair, from 0 to 1; None estimates it from the matches.
    """
    if not math.isfinite(centre):
        raise InvalidInput(f"the centre is {centre!r}", hint="give a finite number, such as 1000")
    if not (math.isfinite(prior_sd) and prior_sd > 0):
        raise InvalidInput(f"prior_sd is {prior_sd!r}", hint="give a number above 0, such as 2000")
    if repeat_correlation is not None and not 0 <= repeat_correlation <= 1:
        hint = "give a number from 0 to 1, or none"
        raise InvalidInput(f"repeat_correlation is {repeat_correlation!r}", hint=hint)
    counts = (log if isinstance(log, Counts) else Counts.of(log)).columns()
    if not counts.rows:
        return Fit({}, {}, ())
    from tallymark.ratings.joint_fit_solver import MatchTable, solve  # noqa: PLC0415 - brings in numpy

    # In the order of the solver, which sorts so that the order of the log cannot matter.
    agents, challenges = sorted(counts.agents), sorted(counts.challenges)
    precision = (SCALE / prior_sd) ** 2
    solution = solve(MatchTable.of(counts), precision=precision, correlation=repeat_correlation)
    estimates = [
        make_estimate(
            centre + SCALE * value,
            SCALE * error,
            SCALE * robust,
            int(matches),
            centre + SCALE * floor,
        )
        for value, error, robust, floor, matches in solution.rows()
    ]
    labels = solution.groups.tolist()
    return Fit(
        dict(zip(agents, estimates[: len(agents)], strict=True)),
        dict(zip(challenges, estimates[len(agents) :], strict=True)),
        _collect_groups(labels, agents, challenges),
        solution.correlation,
        solution.met[0],
    )


def make_estimate(
    value: float, error: float, robust: float, matches: int, floor: float
) -> RatingEstimate:
    """An estimate with its 95 % interval."""
    reach = Z95 * error
    return RatingEstimate(
        value, value - reach, value + reach, error, robust, matches, floor, reach >= SURE_WITHIN
    )


def _collect_groups(
    labels: Sequence[int], agents: Sequence[str], challenges: Sequence[str]
) -> tuple[Group, ...]:
    found: dict[int, tuple[list[str], list[str]]] = {}
    for at, label in enumerate(labels):
        members = found.setdefault(label, ([], []))
        if at < len(agents):
            members[0].append(agents[at])
        else:
            members[1].append(challenges[at - len(agents)])
    return tuple(Group(tuple(first), tuple(second)) for first, second in found.values())

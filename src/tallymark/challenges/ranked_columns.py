"""The order of `strategies.py` over columns: many attempts in, every agent's best one out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.intp]


def rank_by_score(
    scores: NDArray[np.float64],
    agent: NDArray[np.int32],
    agents: int,
    *,
    absent: Rows,
    left_out: NDArray[np.bool_] | None = None,
) -> Rows:
    """The rows that stand on a board ordered by these scores, the best one first.

    Rows come in the order in which ties are broken; a score that is NaN is missing, and so last.
    `agent` is a number below `agents`; the `absent` stand nowhere, nor do rows `left_out`.
    """
    places = np.negative(scores)
    np.copyto(places, np.inf, where=np.isnan(places))
    best = np.full(agents, np.inf)
    if left_out is None:
        np.minimum.at(best, agent, places)
        first = np.flatnonzero(places == best[agent])
    else:
        np.minimum.at(best, agent[~left_out], places[~left_out])
        first = np.flatnonzero((places == best[agent]) & ~left_out)
    winners = _find_first_of_each(first, agent, agents, absent)
    # Stable: of equal places, the earlier row comes first.
    return winners[np.argsort(places[winners], kind="stable")]


def _find_first_of_each(rows: Rows, agent: NDArray[np.int32], agents: int, absent: Rows) -> Rows:
    """Of each agent that is there the first of these rows, in their order."""
    found = np.full(agents, -1, dtype=np.intp)
    backward = rows[::-1]
    found[agent[backward]] = backward  # of several, the last that is assigned stays
    found[absent] = -1
    return np.sort(found[found >= 0])


def find_first_of_owners(agents_in_order: NDArray[np.int32], owner: Rows) -> Rows:
    """The places in an order of agents that show the first of each owner, and all without one.

    `owner` is a number for each agent, from 0 on; one without an owner has less.
    """
    owners = owner[agents_in_order]
    places = np.arange(len(owners))
    first = np.full(int(owners.max(initial=-1)) + 1, -1, dtype=np.intp)
    owned = places[owners >= 0][::-1]
    first[owners[owned]] = owned  # of several, the last that is assigned stays
    shown = owners < 0
    shown[first[first >= 0]] = True
    return np.flatnonzero(shown)

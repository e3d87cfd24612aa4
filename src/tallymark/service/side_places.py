"""Where an agent stands in red against blue; the public's boards stop at the freeze."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple, get_args

from tallymark.challenges.versus.pairings import Side
from tallymark.challenges.versus.standings import VersusStanding, versus_standings

if TYPE_CHECKING:
    from tallymark.challenges.versus.standings import VersusTally
    from tallymark.store import Store
    from tallymark.store.contests.challenges import StoredChallenge


class SidePlace(NamedTuple):
    """A place on one side."""

    name: str
    title: str
    line: VersusStanding
    players: int
    tries: int
    """How often the agent submitted to that side."""


def list_side_places(store: Store, agent: str, *, at: float, public: bool) -> list[SidePlace]:
    """All places of an agent, by the challenge's name, red first."""
    found = []
    for kept in store.challenges.all():
        name = kept.challenge.name
        sent = store.versus.newest(name, player=agent) if kept.challenge.kind == "versus" else []
        if not sent:
            continue
        until = _find_end(kept, at=at, public=public)
        tallies = read_tallies(store, kept, at=at, public=public)
        for side in get_args(Side):
            lines = versus_standings(tallies, side)
            tries = sum(each.side == side and each.at < (until or inf) for each in sent)
            found += [
                SidePlace(name, kept.challenge.title, line, len(lines), tries)
                for line in lines
                if line.player == agent
            ]
    return sorted(found, key=lambda each: each.name)


def read_tallies(
    store: Store, kept: StoredChallenge, *, at: float, public: bool
) -> list[VersusTally]:
    """Verdicts as they count now, or for the public of a frozen board as they counted then."""
    return store.versus.tallies(kept.challenge.name, before=_find_end(kept, at=at, public=public))


def _find_end(kept: StoredChallenge, *, at: float, public: bool) -> float | None:
    """When the public's board stood still; None where it is live."""
    return kept.freezes_at if public and kept.is_frozen(at) else None

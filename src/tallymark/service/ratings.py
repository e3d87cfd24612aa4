"""Ratings of agents and difficulties of challenges, gathered for who shows them.

They take long to make, so a server keeps them while what they were made of is the same.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from tallymark.ratings import Counts, attempt_rates, fit, suggest_tier
from tallymark.service.visibility import name_visible

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from tallymark.ratings import AttemptRates, EloRating, Fit, Pair
    from tallymark.service.callers import Caller
    from tallymark.service.tenant import TenantServices
    from tallymark.store import Store


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RatingTable:
    """Elo, the joint fit and pass rates of one moment."""

    elo: dict[str, EloRating]
    pairs: list[Pair]
    """How everybody fared, to which the fit was made."""
    fitted: Fit
    rates: dict[str, AttemptRates]
    tiers: dict[str, str]
    names: dict[str, str]
    """Of agents that are shown by others than their handles."""
    waiting: set[str]
    """Agents of which attempts wait to be scored or to expire: their Elo is provisional."""
    frozen: list[str]
    """Challenges of which later attempts do not show."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        agents = {
            agent: {
                "elo": asdict(self.elo[agent]) | {"provisional": agent in self.waiting},
                "strength": asdict(self.fitted.strengths[agent]),
                "attempts": asdict(self.rates[agent]),
                **asdict(place),
            }
            for agent, place in self.fitted.places().items()
        }
        challenges = {
            name: asdict(value)
            | asdict(suggest_tier(value))
            | {"declared_tier": self.tiers.get(name)}
            for name, value in self.fitted.difficulties.items()
        }
        return {
            "agents": agents,
            "challenges": challenges,
            "comparable": self.fitted.connected,
            "frozen": self.frozen,
            **({"names": self.names} if self.names else {}),
        }


def keep_ratings(
    services: TenantServices,
    caller: Caller,
    make: Callable[[RatingTable], T],
    *,
    k: int,
    public: bool,
) -> T:
    """What `make` gives for the ratings that a caller sees; kept while they are the same."""
    store, at = services.store, services.now
    only = name_visible(services, caller)
    made_of = (
        store.ratings.newest(),
        tuple(store.challenges.frozen(at)) if public else (),
        frozenset(store.ratings.provisional(at, only)),
        None if only is None else frozenset(only),
    )
    key = (make.__qualname__, k, public, only is None)
    read = partial(read_ratings, store, at=at, k=k, public=public, only=only)
    return services.find_table(caller, key, made_of, lambda: make(read()))


def read_ratings(
    store: Store,
    *,
    at: float,
    k: int = 3,
    public: bool = True,
    only: Collection[str] | None = None,
) -> RatingTable:
    """What the log of attempts comes to; `public` as it was known where boards are frozen.

    With `only`, of these challenges and whoever played them, as if there were no others.
    """
    elo = dict(store.ratings.elo(public=public, only=only))
    pairs = store.ratings.pairs(public=public)
    frozen = store.challenges.frozen(at) if public else []
    if only is not None:
        pairs = [each for each in pairs if each.challenge in only]
        frozen = [each for each in frozen if each in only]
    return RatingTable(
        elo=elo,
        pairs=pairs,
        fitted=fit(pairs),
        rates=attempt_rates(Counts.of(pairs), k),
        tiers={each.challenge.name: each.challenge.difficulty for each in store.challenges.all()},
        names=store.agents.names(elo),
        waiting=store.ratings.provisional(at, only) & elo.keys(),
        frozen=frozen,
    )

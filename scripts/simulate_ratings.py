"""Simulated worlds with known strengths: coverage of rating intervals, gain from deliberate losses.

An agent meets challenges at random or near its own strength. In worlds with repeats it meets ten of
them one to twenty times each, and luck with a challenge lasts: a pair has a chance of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from tallymark.ratings import Fit, Pair, RatingEstimate, fit

Array: TypeAlias = "np.typing.NDArray[np.float64]"
Places: TypeAlias = "np.typing.NDArray[np.int64]"
UNIT = 400 / math.log(10)
CHALLENGES, MATCHES = 50, 20
LEAST_COVERAGE = 0.92
POOLS = (20, 60, 200)
"""How many agents a world has; worlds take turns."""


@dataclass(frozen=True, slots=True)
class World:
    """What is true, and how often each agent met each challenge and won."""

    strengths: Array
    difficulties: Array
    met: Array
    won: Array

    def pairs(self) -> Iterator[Pair]:
        """The counts of all who met."""
        for agent, challenge in zip(*np.nonzero(self.met), strict=True):
            met, won = int(self.met[agent, challenge]), int(self.won[agent, challenge])
            yield Pair(f"a{agent:04}", f"c{challenge:04}", won, 0, met - won)

    def truths(
        self, fitted: Fit, what: Literal["strengths", "difficulties"]
    ) -> list[tuple[str, RatingEstimate, float]]:
        """Names, estimates and what is true, relative to the mean of the group as they are."""
        means: dict[str, float] = {}
        for group in fitted.groups:
            true = [self.strengths[int(name[1:])] for name in group.agents]
            true += [self.difficulties[int(name[1:])] for name in group.challenges]
            means |= dict.fromkeys((*group.agents, *group.challenges), float(np.mean(true)))
        known: Array = getattr(self, what)
        found: dict[str, RatingEstimate] = getattr(fitted, what)
        return [
            (name, each, 1000 + float(known[int(name[1:])]) - means[name])
            for name, each in found.items()
        ]


def draw_world(
    rng: np.random.Generator, agents: int, spread: float, *, chosen: bool, repeats: bool
) -> World:
    """A world of one kind."""
    strengths, difficulties = (spread * rng.standard_normal(n) for n in (agents, CHALLENGES))
    met = np.zeros((agents, CHALLENGES))
    for agent in range(agents):
        weights = np.ones(CHALLENGES)
        if chosen:
            off = difficulties - strengths[agent] - rng.normal(0, 100)
            weights = np.exp(-(off**2 - (off**2).min()) / (2 * 150**2)) + 1e-9
        weights /= weights.sum()
        if repeats:
            some = rng.choice(CHALLENGES, 10, replace=False, p=weights)
            met[agent, some] = rng.integers(1, 21, 10)
        else:
            np.add.at(met[agent], rng.choice(CHALLENGES, MATCHES, p=weights), 1)
    chances = win_chance(strengths[:, None] - difficulties)
    if repeats:  # Beta with the same mean, and a correlation of 0.3 within the pair
        chances = rng.beta(np.maximum(chances, 1e-6) / 0.43, np.maximum(1 - chances, 1e-6) / 0.43)
    return World(
        strengths, difficulties, met, rng.binomial(met.astype(int), chances).astype(np.float64)
    )


def win_chance(gap: Array) -> Array:
    """P(win) for a gap in Elo points."""
    return np.asarray(0.5 * (1 + np.tanh(gap / UNIT / 2)))


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's, of numbers without ties."""
    first, second = (np.argsort(np.argsort(each)) for each in (one, other))
    return float(np.corrcoef(first, second)[0, 1])


@dataclass(frozen=True, slots=True)
class CoverageRow:
    """How often intervals held the truth in worlds of one kind, and how well floors ranked."""

    spread: int
    chosen: bool
    repeats: bool
    strengths: float
    difficulties: float
    ranks: float
    """Floors and truth, over the agents that are not provisional; NaN where these are few."""
    earlier: float
    """The same for the values of a fit with a prior of 400 that counts every match fully."""
    ranked: float
    """The share of those agents."""
    everyone: float
    """Floors and truth, over all agents."""
    everyone_earlier: float


def measure_coverage(worlds: int, seed: int = 1) -> Iterator[CoverageRow]:
    """A row for each spread, way of choosing, and with and without repeats."""
    for spread in (100, 200, 400, 800):
        for chosen in (True, False):
            for repeats in (False, True):
                rng = np.random.default_rng((seed, spread, chosen, repeats))
                hits: tuple[list[bool], list[bool]] = ([], [])
                ranks, ranked, everyone = [], [], []
                for number in range(worlds):
                    agents = POOLS[number % len(POOLS)]
                    world = draw_world(rng, agents, spread, chosen=chosen, repeats=repeats)
                    pairs = list(world.pairs())
                    fitted = fit(pairs)
                    agents_first = [
                        world.truths(fitted, names) for names in ("strengths", "difficulties")
                    ]
                    for hit, told in zip(hits, agents_first, strict=True):
                        hit += [each.low <= truth <= each.high for _, each, truth in told]
                    sure = [told for told in agents_first[0] if not told[1].provisional]
                    ranked.append(len(sure) / agents)
                    pulled = fit(pairs, prior_sd=400, repeat_correlation=0).strengths
                    everyone.append(_correlate(agents_first[0], pulled))
                    if len(sure) > 9:
                        ranks.append(_correlate(sure, pulled))
                now, before = np.mean(ranks, axis=0).tolist() if ranks else (math.nan, math.nan)
                yield CoverageRow(
                    spread=spread,
                    chosen=chosen,
                    repeats=repeats,
                    strengths=float(np.mean(hits[0])),
                    difficulties=float(np.mean(hits[1])),
                    ranks=now,
                    earlier=before,
                    ranked=float(np.mean(ranked)),
                    everyone=float(np.mean([each for each, _ in everyone])),
                    everyone_earlier=float(np.mean([each for _, each in everyone])),
                )


def _correlate(
    told: Sequence[tuple[str, RatingEstimate, float]], pulled: Mapping[str, RatingEstimate]
) -> tuple[float, float]:
    """How well floors rank by the truth, and how well the values of an earlier fit do."""
    truth = [true for *_, true in told]
    floors = [each.floor for _, each, _ in told]
    values = [pulled[name].value for name, *_ in told]
    return rank_correlation(floors, truth), rank_correlation(values, truth)


@dataclass(slots=True)
class Losing:
    """Wins turned into losses, and what became of those who lost."""

    tried: int = 0
    value: float = -math.inf
    """The most that a value rose by that."""
    floor: float = -math.inf
    raised: int = 0
    """How often the floor rose."""
    risen: int = 0
    """How often the agent's place in the table became a better one."""


def measure_losing(worlds: int, seed: int = 2) -> Losing:
    """Turns one win after another into a loss."""
    rng = np.random.default_rng(seed)
    found = Losing()
    for number in range(worlds):
        world = draw_world(rng, 20, 400, chosen=number % 2 > 0, repeats=number % 4 > 1)
        before = fit(world.pairs())
        for agent in range(5):
            winners = np.nonzero(world.won[agent])[0]
            if not len(winners):
                continue
            won = world.won.copy()
            won[agent, rng.choice(winners)] -= 1
            after = fit(World(world.strengths, world.difficulties, world.met, won).pairs())
            name = f"a{agent:04}"
            old, new = before.strengths[name], after.strengths[name]
            places = [each.order("strengths").index(name) for each in (before, after)]
            found.tried += 1
            found.value = max(found.value, new.value - old.value)
            found.floor = max(found.floor, new.floor - old.floor)
            found.raised += new.floor > old.floor
            found.risen += places[1] < places[0]
    return found


CHOICES: dict[str, Callable[[Array], Places]] = {
    "at random": lambda gaps: np.arange(MATCHES) * 7 % len(gaps),
    "near its strength": lambda gaps: np.argsort(np.abs(gaps))[:MATCHES],
    "the easiest ten, twice": lambda gaps: np.repeat(np.argsort(gaps)[:10], 2),
    "the easiest one, twenty times": lambda gaps: np.repeat(np.argsort(gaps)[:1], MATCHES),
    "the hardest ten, twice": lambda gaps: np.repeat(np.argsort(gaps)[-10:], 2),
    "the hardest one, twenty times": lambda gaps: np.repeat(np.argsort(gaps)[-1:], MATCHES),
    "easy ones that nobody else met": lambda gaps: len(gaps) + np.arange(MATCHES),
    "one that nobody else met, twenty times": lambda gaps: np.full(MATCHES, len(gaps)),
}
"""Ways to choose twenty matches, given how far challenges lie above the agent.

After those come as many that nobody else meets."""


def measure_choosing(worlds: int, seed: int = 3) -> dict[str, float]:
    """For each way to choose: how far the floor lies above the truth, in the mean."""
    rng = np.random.default_rng(seed)
    found: dict[str, list[float]] = {name: [] for name in CHOICES}
    for _ in range(worlds):
        world = _add_easy(draw_world(rng, 60, 400, chosen=False, repeats=False))
        gaps = world.difficulties[:CHALLENGES] - world.strengths[0]
        for name, choose in CHOICES.items():
            world.met[0] = 0
            np.add.at(world.met[0], choose(gaps), 1)
            chances = win_chance(world.strengths[0] - world.difficulties)
            world.won[0] = rng.binomial(world.met[0].astype(int), chances)
            fitted = fit(world.pairs())
            _, own, truth = world.truths(fitted, "strengths")[0]
            found[name].append(own.floor - truth)
    return {name: float(np.mean(gaps)) for name, gaps in found.items()}


def _add_easy(world: World) -> World:
    """With challenges far below the first agent, which nobody has met."""
    more = np.full(MATCHES, world.strengths[0] - 600)
    nothing = np.zeros((len(world.strengths), MATCHES))
    return World(
        world.strengths,
        np.concatenate((world.difficulties, more)),
        np.hstack((world.met, nothing)),
        np.hstack((world.won, nothing)),
    )


def judge_ratings(worlds: int = 200) -> tuple[bool, str]:
    """Whether intervals hold the truth and nobody gains by losing or choosing; in Markdown."""
    rows = list(measure_coverage(worlds))
    covered = all(min(row.strengths, row.difficulties) >= LEAST_COVERAGE for row in rows)
    seen = [row for row in rows if not math.isnan(row.ranks)]
    ranked = np.mean([row.ranks for row in seen]) >= np.mean([row.earlier for row in seen])
    body = (
        f"{worlds} worlds a row, of {', '.join(map(str, POOLS))} agents and {CHALLENGES} "
        "challenges. 95 % intervals that hold the truth, of strengths and of difficulties; rank "
        "correlation with the truth over agents that are not provisional, by floors and, before, "
        "by values pulled to the mean; the share of those agents; and the same over all agents.\n\n"
        "| spread | chosen | repeats | strengths | difficulties | ranks | before | ranked | all "
        "| before |\n|---|---|---|---|---|---|---|---|---|---|\n"
    )
    for row in rows:
        words = "near" if row.chosen else "at random", "yes" if row.repeats else "no"
        shares = f"{100 * row.strengths:.1f} % | {100 * row.difficulties:.1f} %"
        ranks = f"{row.ranks:.3f} | {row.earlier:.3f} | {100 * row.ranked:.0f} %"
        ranks += f" | {row.everyone:.3f} | {row.everyone_earlier:.3f}"
        body += f"| {row.spread} | {' | '.join(words)} | {shares} | {ranks} |\n"
    losing = measure_losing(worlds)
    body += (
        f"\nOf {losing.tried:,} wins turned into losses, {losing.risen} gave their agent a better "
        f"place and {losing.raised} a higher floor; the kindest moved a value by "
        f"{losing.value:.2f} and a floor by {losing.floor:.2f}.\n\n"
        "| twenty matches chosen | floor above the truth |\n|---|---|\n"
    )
    chosen = measure_choosing(worlds)
    body += "".join(f"| {name} | {mean:.0f} |\n" for name, mean in chosen.items())
    honest = (
        losing.value <= 0
        and not losing.risen
        and max(chosen, key=chosen.__getitem__) == "near its strength"
    )
    return bool(covered and ranked and honest), body

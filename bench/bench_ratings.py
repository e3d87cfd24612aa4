"""The joint fit with intervals: 200 agents, 50 challenges, a million attempts, from counts.

Beside it, on the same outcomes: the same model fitted the plain way (gradient steps over the single
attempts with numpy, then one Hessian for the errors), arena-rank, given its own aggregated form and
a warm compiler, and evalica, which gives no intervals; all must agree. openskill rates one match
after another, and is given some. Then pools of up to 100,000 agents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import evalica
import numpy as np
from bench.measurement import OURS, Bench, Promise, Side, Sides
from openskill.models import PlackettLuce

from tallymark.ratings import Counts, Fit, Pair, fit

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[np.float64]"
Places: TypeAlias = "NDArray[np.intp]"
AGENTS, CHALLENGES, POOL_CHALLENGES = 200, 50, 200
MATCHES = 500
SCALE = 400 / np.log(10)
PRIOR_SD = 400.0
PRIOR = float(SCALE / PRIOR_SD) ** 2
SMALL = 1e-6
WEAK_PRIOR = 10_000.0
"""Peers have no prior: with so wide a one the fits differ by what is left of it alone."""


class Log(NamedTuple):
    """Who tried what, and with which result: 1, 0.5 or 0."""

    agents: Places
    challenges: Places
    results: Array
    shape: tuple[int, int]


def draw(agents: int, challenges: int, attempts: int) -> Log:
    rng = np.random.default_rng(20)
    strengths, difficulties = rng.normal(0, 1, agents), rng.normal(0, 1, challenges)
    rows = rng.integers(0, agents, attempts)
    columns = rng.integers(0, challenges, attempts)
    chances = 1 / (1 + np.exp(difficulties[columns] - strengths[rows]))
    results = (rng.random(attempts) < chances).astype(float)
    results[rng.random(attempts) < 0.1] = 0.5
    return Log(rows.astype(np.intp), columns.astype(np.intp), results, (agents, challenges))


def aggregated(log: Log) -> tuple[Places, Places]:
    """Agent, challenge and result (0 a win, 1 a draw, 2 a loss) of every kind of match; numbers."""
    kinds = (log.agents * log.shape[1] + log.challenges) * 3 + (2 - 2 * log.results).astype(int)
    kinds, numbers = np.unique(kinds, return_counts=True)
    pairs, results = np.divmod(kinds, 3)
    return np.column_stack((*np.divmod(pairs, log.shape[1]), results)), numbers


def count(log: Log) -> Counts:
    kinds, numbers = aggregated(log)
    counts = Counts()
    for (agent, challenge, result), number in zip(kinds.tolist(), numbers.tolist(), strict=True):
        counted = {("wins", "draws", "losses")[result]: number}
        counts.add_pair(Pair(f"agent-{agent:06}", f"challenge-{challenge:03}", **counted))
    return counts


def plain(log: Log) -> tuple[Array, Array]:
    """Values and errors, by gradient steps scaled to each unknown's own number of attempts."""
    agents, size = log.agents, sum(log.shape)
    columns = log.challenges + log.shape[0]
    tries = np.bincount(agents, minlength=size) + np.bincount(columns, minlength=size)
    values = np.zeros(size)
    while True:
        chances = 1 / (1 + np.exp(values[columns] - values[agents]))
        left = log.results - chances
        slope = np.bincount(agents, left, size) - np.bincount(columns, left, size) - PRIOR * values
        step = slope / (tries / 2 + PRIOR)  # at least the curvature of any two that meet
        step -= step.mean()  # the optimum has mean 0, which the prior alone finds very slowly
        values = values + step
        if np.abs(step).max() < SMALL:
            break
    weights = chances * (1 - chances)
    cross = np.bincount(agents * size + columns, weights, size * size).reshape(size, size)
    hessian = np.diag(cross.sum(0) + cross.sum(1) + PRIOR) - cross - cross.T
    variances = np.diag(np.linalg.inv(hessian)) - 1 / (PRIOR * size)
    return 1000 + SCALE * values, SCALE * np.sqrt(variances)


def arena_rank(log: Log) -> Callable[[], tuple[Array, Array]]:
    """What fits the log with arena-rank: values and sandwich errors. Preparing is not timed."""
    jnp = import_module("jax.numpy")
    model = import_module("arena_rank.models.bradley_terry").BradleyTerry
    kinds, numbers = aggregated(log)
    dataset = import_module("arena_rank.utils.data_utils").PairDataset(
        competitors=[str(number) for number in range(sum(log.shape))],
        pairs=jnp.array(kinds[:, :2] + [0, log.shape[0]], dtype=jnp.int32),
        outcomes=jnp.array(1 - kinds[:, 2] / 2),
        counts=jnp.array(numbers, dtype=float),
        weights=jnp.ones(len(numbers)),
        opt_weights=jnp.array(numbers, dtype=float),
    )

    def run() -> tuple[Array, Array]:
        found = model(n_competitors=sum(log.shape)).compute_ratings_and_cis(dataset)
        return np.asarray(found["ratings"]), np.sqrt(np.asarray(found["variances"]))

    return run


def by_evalica(log: Log) -> Callable[[], Array]:
    """What fits the log with evalica: values alone. Preparing is not timed."""
    kinds, numbers = aggregated(log)
    xs = [str(each) for each in kinds[:, 0]]
    ys = [str(each) for each in kinds[:, 1] + log.shape[0]]
    of = (evalica.Winner.X, evalica.Winner.Draw, evalica.Winner.Y)
    winners = [of[each] for each in kinds[:, 2]]
    weights = numbers.astype(float).tolist()

    def run() -> Array:
        found = evalica.bradley_terry(xs, ys, winners, weights=weights, limit=10_000)
        scores = {int(name): value for name, value in found.scores.items()}
        values: Array = SCALE * np.log([scores[number] for number in range(sum(log.shape))])
        return values

    return run


def by_openskill(log: Log) -> Callable[[], None]:
    """Some matches, one after another."""
    model = PlackettLuce()
    matches = [*zip(log.agents, log.challenges, log.results, strict=True)][:MATCHES]

    def run() -> None:
        rated = [model.rating() for _ in range(sum(log.shape))]
        for agent, challenge, result in matches:
            other = challenge + log.shape[0]
            (first,), (second,) = model.rate(
                [[rated[agent]], [rated[other]]], scores=[result, 1 - result]
            )
            rated[agent], rated[other] = first, second

    return run


def numbers_of(fitted: Fit) -> tuple[Array, Array, Array]:
    ours = [*fitted.strengths.values(), *fitted.difficulties.values()]
    rows = [(each.value, each.error, each.robust_error) for each in ours]
    values, errors, robust = np.array(rows).T
    return values, errors, robust


def require_agreement(log: Log, counts: Counts) -> None:
    """The same question: every attempt counts fully, under the prior of the peer or hardly one."""
    mine, own_errors, _ = numbers_of(fit(counts, prior_sd=PRIOR_SD, repeat_correlation=0))
    values, errors = plain(log)
    assert np.allclose(mine, values, atol=0.01)
    assert np.allclose(own_errors, errors, atol=0.01)
    mine, _, robust = numbers_of(fit(counts, prior_sd=WEAK_PRIOR, repeat_correlation=0))
    values, errors = arena_rank(log)()
    assert np.abs(mine - values).max() < 0.05
    assert np.abs(robust / errors - 1).max() < 0.1  # it adds 1e-5 x attempts to the Hessian
    values = by_evalica(log)()
    assert np.abs(mine - mine.mean() - values + values.mean()).max() < 0.1


@contextmanager
def joint_fits(size: int) -> Iterator[Sides]:
    """The same log by everybody."""
    log = draw(AGENTS, CHALLENGES, size)
    counts = count(log)
    if size >= 100_000:  # with few attempts somebody has won or lost all, which peers cannot fit
        require_agreement(log, counts)
    yield {
        OURS: lambda: fit(counts),
        "arena-rank": Side(arena_rank(log), rounds=3),
        "evalica, no intervals": by_evalica(log),
        "openskill, match by match": Side(by_openskill(log), MATCHES / size),
        "gradient steps": Side(lambda: plain(log), rounds=1),
    }


@contextmanager
def pools(size: int) -> Iterator[Sides]:
    """Ten attempts of each agent."""
    counts = count(draw(size, POOL_CHALLENGES, 10 * size))
    yield {OURS: Side(lambda: fit(counts), rounds=3)}


BENCHES = (
    Bench(
        "joint fit",
        f"Strengths of {AGENTS} agents and difficulties of {CHALLENGES} challenges with intervals, "
        "fitted to all results at once: a twentieth of arena-rank's time at most.",
        joint_fits,
        (10_000, 100_000, 1_000_000),
        "attempts",
        (Promise(0.05, "arena-rank"), Promise(0.05, "openskill, match by match")),
    ),
    Bench(
        "large pools",
        f"The joint fit of many agents at {POOL_CHALLENGES} challenges, ten attempts each.",
        pools,
        (1_000, 10_000, 100_000),
        "agents",
    ),
)

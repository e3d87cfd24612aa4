"""Simulated agents with known scores: coverage of intervals, false alarms and power of gates.

A suite is a sample of cases, of which the first are named evals and always the same. Costs and
latencies are lognormal, half of their variance lies between cases, and failing costs 1.3 times as
much. Chances to pass are the same for all cases or, with epochs, differ between them.

    python -m scripts.simulate_score_intervals [RUNS]    all tables, which `make proof` also makes
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tallymark.formula import Formula
from tallymark.runs.differences import SharedCases
from tallymark.runs.intervals import score_interval
from tallymark.runs.record import CaseResult
from tallymark.runs.statistics import Interval
from tallymark.runs.tally import Tally

Array: TypeAlias = "np.typing.NDArray[np.float64]"
Cases: TypeAlias = tuple[Array, Array]
"""The chance to pass and the usual cost of every case."""
SIGMA = 0.7
SIZES = (10, 20, 50, 200)
CHANCES = (0.3, 0.7, 0.95)
KINDS = ((1, False), (5, False), (5, True))
"""Epochs, and whether cases differ in their chances."""
EVALS = ("first", "second", "third")
FORMULAS = {
    "success": "success_pct",
    "success / cost": "success_pct / total_cost",
    "linear": "success_pct * 0.7 - total_cost * 100",
    "two named": "(first * 0.6 + second * 0.4) * success_pct / (avg_latency * total_cost)",
    "three named": "(first * 3 + second * 2 + third) / total_cost",
}
LEAST_COVERAGE = 0.92
MOST_ALARMS = 0.05
LEAST_POWER = 0.9


@dataclass(frozen=True, slots=True)
class World:
    """An agent, and a population of cases that a suite of `size` is drawn from."""

    size: int
    epochs: int
    chance: float
    mixed: bool = False

    def draw_cases(self, rng: np.random.Generator) -> Cases:
        """The same for all runs of one suite."""
        chances = np.full(self.size, self.chance)
        if self.mixed:
            chances = rng.beta(self.chance, 1 - self.chance, self.size)
        costs = np.exp(rng.normal(-(SIGMA**2) / 4, SIGMA / math.sqrt(2), self.size))
        chances[: len(EVALS)], costs[: len(EVALS)] = self.chance, 1.0
        return chances, costs

    def run(self, rng: np.random.Generator, cases: Cases, worse: float = 0.0) -> list[CaseResult]:
        """What the agent makes of a suite, or one that passes less often."""
        chances, costs = cases
        shape = (self.size, self.epochs)
        passed = rng.random(shape) < np.maximum(chances - worse, 0.0)[:, None]
        luck, other = rng.normal(-(SIGMA**2) / 4, SIGMA / math.sqrt(2), (2, *shape))
        more = np.where(passed, 1.0, 1.3)
        cost = 0.002 * costs[:, None] * np.exp(luck) * more
        latency = 3.0 * np.sqrt(costs)[:, None] * np.exp(0.5 * luck + 0.5 * other) * more
        return [
            CaseResult(
                case=EVALS[at] if at < len(EVALS) else f"#{at}",
                epoch=epoch,
                status="passed" if passed[at, epoch] else "failed",
                cost=float(cost[at, epoch]),
                latency=float(latency[at, epoch]),
            )
            for at, epoch in np.ndindex(shape)
        ]

    def find_truth(self) -> dict[str, float]:
        """The long-run metrics, over new cases like these and the same named ones."""
        named = min(len(EVALS), self.size)
        rest, spread = self.size - named, SIGMA**2 / 2
        more = self.chance + 1.3 * (1 - self.chance)
        slow = 3.0 * more * math.exp(-spread / 4)
        latency = slow * (named + rest * math.exp(-spread / 8)) / self.size
        return dict.fromkeys(EVALS, self.chance) | {
            "success_pct": 100 * self.chance,
            "total_cost": 0.002 * self.size * self.epochs * more,
            "avg_latency": latency,
        }


def measure_coverage(world: World, formula: str, runs: int) -> float:
    """The share of runs whose interval holds the truth."""
    rng = np.random.default_rng([world.size, world.epochs, int(100 * world.chance), 1])
    names = [*EVALS, "success_pct", "total_cost", "avg_latency"]
    parsed = Formula.parse(FORMULAS[formula], names)
    truth = parsed.evaluate(world.find_truth()) or 0.0
    held = 0
    for _ in range(runs):
        found = score_interval(parsed, Tally(world.run(rng, world.draw_cases(rng))))
        held += (
            isinstance(found, Interval)
            and found.low <= truth * (1 + 1e-9)
            and (truth * (1 - 1e-9) <= found.high)
        )
    return held / runs


def count_alarms(world: World, runs: int, worse: float = 0.0, *, seed: int = 2) -> dict[str, float]:
    """How often a second run is found worse than the first, by each formula and by a t-test."""
    rng = np.random.default_rng([world.size, world.epochs, int(100 * world.chance), seed])
    names = [*EVALS, "success_pct", "total_cost", "avg_latency"]
    usable = {
        name: Formula.parse(text, names)
        for name, text in FORMULAS.items()
        if world.size >= len(EVALS) or "named" not in name
    }
    alarms = dict.fromkeys((*usable, "t-test"), 0)
    for _ in range(runs):
        cases = world.draw_cases(rng)
        first, second = world.run(rng, cases), world.run(rng, cases, worse)
        shared = SharedCases(first, second)
        for name, formula in usable.items():
            p_value = shared.test(formula)
            alarms[name] += p_value is not None and p_value.p_value <= MOST_ALARMS
        alarms["t-test"] += _test_by_student(first, second, world)
    return {name: count / runs for name, count in alarms.items()}


def judge_alarms(world: World, runs: int) -> tuple[bool, dict[str, float]]:
    """Whether none of the formulas cries wolf, and how often each does.

    Of some 250 rates one or another is far off by luck: such a world is drawn anew, ten times as
    often, and that decides.
    """
    found = count_alarms(world, runs)
    if _is_quiet(found, runs):
        return True, found
    found = count_alarms(world, 10 * runs, seed=3)
    return _is_quiet(found, 10 * runs), found


def _is_quiet(alarms: dict[str, float], runs: int) -> bool:
    luck = 3.5 * math.sqrt(MOST_ALARMS * (1 - MOST_ALARMS) / runs)
    return max(rate for name, rate in alarms.items() if name in FORMULAS) <= MOST_ALARMS + luck


def _test_by_student(
    first: Sequence[CaseResult], second: Sequence[CaseResult], world: World
) -> bool:
    """The paired t-test over cases, one-sided at 5 %."""
    shape = (world.size, world.epochs)
    one, two = (
        np.array([each.status == "passed" for each in run], float).reshape(shape).mean(axis=1)
        for run in (first, second)
    )
    change = two - one
    spread = float(change.std(ddof=1))
    if spread == 0:
        return False
    reach = change.mean() / spread * math.sqrt(world.size)
    return bool(reach < -_ONE_SIDED[world.size])


# The 95 % quantiles of Student's t with one degree of freedom less, from tables.
_ONE_SIDED = {2: 6.3138, 3: 2.9200, 5: 2.1318, 10: 1.8331, 20: 1.7291, 50: 1.6766, 200: 1.6525}


def tell_coverage(runs: int) -> tuple[bool, str]:
    """Whether every cell holds the truth often enough, by luck of the simulation; and a table."""
    lowest = 1.0
    rows: dict[str, list[str]] = {}
    for epochs, mixed in KINDS:
        for size in SIZES:
            cells = []
            for formula in FORMULAS:
                found = [
                    measure_coverage(World(size, epochs, chance, mixed), formula, runs)
                    for chance in CHANCES
                ]
                lowest = min(lowest, *found)
                cells.append(f"{100 * min(found):.1f}-{100 * max(found):.1f}")
            rows[f"| {size} | {_name_kind(epochs, mixed)} |"] = cells
    head = f"| cases | epochs | {' | '.join(FORMULAS)} |\n|---|---|{'---|' * len(FORMULAS)}\n"
    table = head + "".join(f"{row} {' | '.join(cells)} |\n" for row, cells in rows.items())
    luck = 3 * math.sqrt(LEAST_COVERAGE * (1 - LEAST_COVERAGE) / runs)
    return lowest >= LEAST_COVERAGE - luck, table


def tell_alarms(runs: int) -> tuple[bool, str]:
    """Whether runs of the same agent are called worse too often; and a table."""
    holds, means = True, []
    rows = ""
    for epochs, mixed in KINDS:
        for size in (2, 3, 5, *SIZES[:3]):
            judged = [judge_alarms(World(size, epochs, each, mixed), runs) for each in CHANCES]
            holds = holds and all(held for held, _ in judged)
            cells = []
            for formula in FORMULAS:
                rates = [found[formula] for _, found in judged if formula in found]
                means += rates
                cells.append(f"{100 * max(rates):.1f}" if rates else "-")
            rows += f"| {size} | {_name_kind(epochs, mixed)} | {' | '.join(cells)} |\n"
    head = f"| cases | epochs | {' | '.join(FORMULAS)} |\n|---|---|{'---|' * len(FORMULAS)}\n"
    mean = float(np.mean(means))
    said = f"\nThe mean over all settings is {100 * mean:.1f} %.\n"
    return holds and mean <= MOST_ALARMS, head + rows + said


def tell_power(runs: int) -> tuple[bool, str]:
    """Whether the gate finds what a paired t-test finds; and a table."""
    holds = True
    rows = ""
    for size, epochs, chance, worse in (
        (20, 1, 0.7, 0.3),
        (20, 1, 0.95, 0.3),
        (50, 1, 0.7, 0.2),
        (50, 5, 0.95, 0.05),
        (200, 1, 0.95, 0.06),
    ):
        world = World(size, epochs, chance)
        found = count_alarms(world, runs, worse)
        gate, student = found["success"], found["t-test"]
        holds = holds and gate >= LEAST_POWER * student
        rows += f"| {size} | {epochs} | {chance:g} to {chance - worse:g} | {100 * gate:.1f} | "
        rows += f"{100 * student:.1f} |\n"
    return holds, "| cases | epochs | success | gate | t-test |\n|---|---|---|---|---|\n" + rows


def _name_kind(epochs: int, mixed: bool) -> str:
    return f"{epochs}, chances differ" if mixed else str(epochs)


def main(runs: int) -> None:
    """Shows all tables."""
    for tell in (tell_coverage, tell_alarms, tell_power):
        holds, table = tell(runs)
        sys.stdout.write(f"{tell.__name__}: {'holds' if holds else 'DOES NOT HOLD'}\n{table}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)

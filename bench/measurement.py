"""What a bench is, and how it is measured: sides that take turns, by their CPU, at three sizes.

A bench gives, for a size, what each side does; the first side is ours. All take turns, so that a
busy machine hits all of them, and the medians count. `python -m bench` runs them and writes
`results.md`.
"""

from __future__ import annotations

import gc
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

OURS = "tallymark"
ENOUGH = 0.02
"""Seconds of a turn: quicker work is repeated until it takes so long."""
LEAST_ROUNDS = 3
PASS_SECONDS = 0.011
"""CPU of `python -c pass` on the core of which budgets are."""

Work: TypeAlias = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Side:
    """Some work, and for how many things it is done: the cost is that of one."""

    work: Work
    count: float = 1
    rounds: int | None = None
    """In how many rounds it takes part, if not in all: for what takes long."""
    told: bool = False
    """Whether the work itself tells what it cost: memory, CPU of other processes."""


Sides: TypeAlias = Mapping[str, "Side | Work | str"]
"""By name, ours first. A text says why a peer is not there."""
MakeSides: TypeAlias = "Callable[[int], AbstractContextManager[Sides]]"
"""What each side does at a size, until the end of the block."""


@dataclass(frozen=True, slots=True)
class Promise:
    """An upper limit for our cost: relative to a peer, or absolute."""

    limit: float
    against: str = ""


@dataclass(frozen=True, slots=True)
class Bench:
    """A claim, and what shows it."""

    name: str
    claim: str
    sides: MakeSides
    sizes: tuple[int, int, int]
    of: str
    """What there are so many of."""
    promises: tuple[Promise, ...] = ()
    """Held at the largest size."""
    each: str = ""
    """What the cost is that of, if not of all: its sides count these."""
    unit: str = "s"
    clock: Callable[[], float] = time.process_time
    rounds: int = 7
    seconds: float = 6.0
    """When a size has taken so long, no more than `LEAST_ROUNDS` are begun."""

    def __post_init__(self) -> None:
        """Refuses sizes from which no growth could be told."""
        small, middle, large = self.sizes
        if not small * 100 == middle * 10 == large:
            raise ValueError(f"{self.name}: the sizes {self.sizes} are not a decade apart")


@dataclass(slots=True)
class Found:
    """What a bench came to: for each size what each side costs, and what ours is of theirs."""

    costs: dict[int, dict[str, float]] = field(default_factory=dict)
    ratios: dict[int, dict[str, float]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def growth(self) -> float | None:
        """The exponent: 1 where ten times as many cost ten times as much."""
        points = [
            (math.log(size), math.log(of[OURS])) for size, of in self.costs.items() if of[OURS] > 0
        ]
        if len(points) < 2:
            return None
        return statistics.linear_regression(*zip(*points, strict=True)).slope

    def get_value(self, promise: Promise, size: int) -> float | None:
        """What the promise is about, None where that was not measured."""
        if promise.against:
            return self.ratios.get(size, {}).get(promise.against)
        return self.costs.get(size, {}).get(OURS)


@cache
def find_scale() -> float:
    """What CPU is multiplied by, to be that of a core on which `python -c pass` takes 11 ms."""
    spent = statistics.median(measure_process([sys.executable, "-c", "pass"]) for _ in range(9))
    return PASS_SECONDS / spent


def measure_process(command: Sequence[str], **environment: str) -> float:
    """Seconds of CPU of a process that ends."""
    nowhere = subprocess.DEVNULL
    started = subprocess.Popen(
        command, stdin=nowhere, stdout=nowhere, stderr=nowhere, env=os.environ | environment
    )
    _, status, spent = os.wait4(started.pid, 0)
    started.returncode = os.waitstatus_to_exitcode(status)
    assert not started.returncode, command
    return spent.ru_utime + spent.ru_stime


def read_peak() -> float:
    """The most megabytes that this process has held; `getrusage` would count its parent's too."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def measure_bench(bench: Bench, *, quick: bool = False) -> Found:
    """All sizes, one after another; only the smallest to see quickly whether it works."""
    found = Found()
    for size in bench.sizes[:1] if quick else bench.sizes:
        with bench.sides(size) as sides:
            measure_size(bench, size, sides, found)
    return found


def measure_size(bench: Bench, size: int, sides: Sides, found: Found) -> None:
    """Warms up, then takes turns."""
    turns: dict[str, Callable[[], float]] = {}
    left: dict[str, int] = {}
    for name, side in sides.items():
        if isinstance(side, str):
            found.skipped[name] = side
            continue
        known = side if isinstance(side, Side) else Side(side)
        turns[name] = prepare_turn(known, bench.clock)
        left[name] = bench.rounds if known.rounds is None else known.rounds
    gc.collect()
    gc.freeze()  # so that no side's collector walks through what the others hold
    costs: dict[str, list[float]] = {name: [] for name in turns}
    began = time.monotonic()
    for nth in range(bench.rounds):
        if nth >= LEAST_ROUNDS and time.monotonic() - began > bench.seconds:
            break
        for name, turn in turns.items():
            if nth < left[name]:
                gc.collect()
                costs[name].append(turn())
    gc.unfreeze()
    found.costs[size] = {name: statistics.median(each) for name, each in costs.items()}
    ours = costs[OURS]
    found.ratios[size] = {
        name: compare(ours, theirs) for name, theirs in costs.items() if name != OURS
    }


def compare(ours: list[float], theirs: list[float]) -> float:
    """Ours in theirs: the median over rounds, where both were in all of them."""
    if len(ours) == len(theirs):
        return statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))
    return statistics.median(ours) / statistics.median(theirs)


def prepare_turn(side: Side, clock: Callable[[], float]) -> Callable[[], float]:
    """Does it once, so that it is loaded; a turn repeats what took less than enough."""
    if side.told:
        return lambda: side.work() / side.count
    began = clock()
    if side.rounds != 1:
        side.work()
    took = clock() - began
    repeats = 1 if side.rounds == 1 else max(1, min(100_000, int(ENOUGH / max(took, 1e-9))))

    def turn() -> float:
        began = clock()
        for _ in range(repeats):
            side.work()
        return (clock() - began) / repeats / side.count

    return turn

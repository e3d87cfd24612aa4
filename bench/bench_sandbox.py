"""The sandbox: how long a call is waited for, what it and a batch cost, how late a deadline is.

And a heavy load of threads, one call in ten hostile: each must end as it must, and no process may
be left. CPU is that of this process and of all that it started.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import util
from pathlib import Path
from typing import Any

from bench.measurement import OURS, Bench, Promise, Side, Sides
from scripts.server_process import read_family_cpu

from tallymark.sandbox import PluginCode, Sandbox, bubblewrap, interpreter
from tallymark.scoring.plugin_contract import plugin_score
from tallymark.scoring.score import Origin

CALLS, STARTS, THREADS = 60, 5, 8
PAUSE_S = 0.005
"""Between two calls that somebody waits for: what else such a caller does takes longer."""
ANEW = "a new bubblewrap and Python"
ONE_BY_ONE = "a call for each"
METRICS = {"succeeded": True, "tokens_total": 900, "elapsed_ms": 41_000, "rating": 7}
CONFIG = {"multiplier": 2.0}
PLUGIN = """
class MyCustomScorer:
    def score(self, metrics, config, ctx):
        succeeded = metrics.get('succeeded', False)
        rating = metrics.get('rating', 0)
        multiplier = config.get('multiplier', 1.0)
        score = (rating * multiplier) if succeeded else 0.0
        return {'score': score, 'details': {'multiplier_used': multiplier}}
"""
HOSTILE = """
import ctypes, os
class Hostile:
    def score(self, metrics, config, ctx):
        match metrics["wish"]:
            case "loop":
                while True: pass
            case "exit": os._exit(1)
            case "crash": ctypes.string_at(0)
            case "memory": bytearray(2**40)
            case "fork": os.fork()
            case "unshare": ctypes.CDLL(None).unshare(0)
            case "close": os.closerange(0, 64)
            case "flood": os.write(3, b"x" * 10**6)
        return {"score": 1}
"""
WISHES = ("exit", "crash", "memory", "fork", "unshare", "flood", "loop", "close")
ONE_CALL = f"""
import sys
sys.path.insert(0, sys.argv[1])
from scorer import MyCustomScorer
assert MyCustomScorer().score({METRICS}, {CONFIG}, {{}})["score"] == 14.0
"""


def code(root: Path, attribute: str) -> PluginCode:
    return PluginCode(f"scorer.py:{attribute}", root, "scorer", attribute, "bench")


def read_cpu() -> float:
    """Of this process and its sandboxes."""
    return read_family_cpu(os.getpid())


@contextmanager
def open_sandbox() -> Iterator[tuple[Sandbox, PluginCode, PluginCode]]:
    """One with a plugin and a hostile one; afterwards nothing may be left."""
    with tempfile.TemporaryDirectory(prefix="tally-bench-") as folder:
        roots = [Path(folder, name) for name in ("plugin", "hostile")]
        for root, source in zip(roots, (PLUGIN, HOSTILE), strict=True):
            root.mkdir()
            (root / "scorer.py").write_text(source, encoding="utf-8")
        with Sandbox() as sandbox:
            yield sandbox, code(roots[0], "MyCustomScorer"), code(roots[1], "Hostile")
        assert not family(), "processes are left behind"


def start_anew(root: Path) -> None:
    binds = interpreter.files() | {Path("/plugin"): root}
    variables = interpreter.variables()
    words = bubblewrap.command(binds=binds, scratch_mb=1, environment=variables)
    python = [str(interpreter.sandbox_path()), "-I", "-S", "-B", "-c", ONE_CALL, "/plugin"]
    subprocess.run([*words, *python], check=True)


def family() -> set[int]:
    """Every process that this one, or one of its own, has started."""
    found: set[int] = set()
    more = {os.getpid()}
    while more:
        more = {child for pid in more for child in children(pid)} - found
        found |= more
    return found


def children(pid: int) -> list[int]:
    try:
        tasks = [*Path(f"/proc/{pid}/task").glob("*/children")]
        return [int(word) for task in tasks for word in task.read_text().split()]
    except OSError:  # it has ended meanwhile
        return []


def memory_kb(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


@contextmanager
def single_calls(size: int) -> Iterator[Sides]:
    """A call with so many numbers."""
    metrics = METRICS | {f"metric_{nth}": nth for nth in range(size)}
    with open_sandbox() as (sandbox, plugin, _):

        def call() -> None:
            for _ in range(CALLS):
                assert sandbox.score(plugin, metrics, CONFIG, {}).value == 14.0

        def start() -> None:
            for _ in range(STARTS):
                start_anew(plugin.root)

        yield {OURS: Side(call, CALLS), ANEW: Side(start, STARTS)}


@contextmanager
def waits(size: int) -> Iterator[Sides]:
    """How long a caller waits for a call with so many numbers, who does something else between."""
    metrics = METRICS | {f"metric_{nth}": nth for nth in range(size)}
    with open_sandbox() as (sandbox, plugin, _):

        def wait(work: Callable[[], Any], times: int) -> float:
            waited = []
            for _ in range(times):
                time.sleep(PAUSE_S)
                began = time.perf_counter()
                work()
                waited.append(time.perf_counter() - began)
            return statistics.median(waited)

        def call() -> None:
            assert sandbox.score(plugin, metrics, CONFIG, {}).value == 14.0

        call()
        yield {
            OURS: Side(lambda: wait(call, CALLS), told=True),
            ANEW: Side(lambda: wait(lambda: start_anew(plugin.root), STARTS), told=True),
        }


@contextmanager
def batches(size: int) -> Iterator[Sides]:
    """So many attempts in one call, beside a call for each."""
    attempts = [METRICS | {"rating": at % 11, "created_at": at} for at in range(size)]
    with open_sandbox() as (sandbox, plugin, _):

        def score() -> list[Any]:
            return sandbox.score_many(plugin, attempts, CONFIG, {})

        def loop() -> list[Any]:
            return score_here(plugin, attempts)

        def call() -> list[Any]:
            return [sandbox.score(plugin, each, CONFIG, {}) for each in attempts]

        assert score() == loop() == call()
        yield {
            OURS: Side(score, size),
            ONE_BY_ONE: Side(call, size),
        }


def score_here(plugin: PluginCode, attempts: list[dict[str, Any]]) -> list[Any]:
    spec = util.spec_from_file_location("scorer", plugin.root / "scorer.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    origin = Origin(plugin.name, plugin.code_hash, CONFIG)
    return [
        plugin_score(module.MyCustomScorer().score(metrics, CONFIG, {}), origin=origin)
        for metrics in attempts
    ]


@contextmanager
def deadlines(size: int) -> Iterator[Sides]:
    """How much later than its deadline a plugin ends that loops."""
    with open_sandbox() as (sandbox, _, hostile):

        def be_late() -> float:
            began = time.perf_counter()
            score = sandbox.score(hostile, {"wish": "loop"}, {}, {}, timeout_s=size / 1000)
            assert score.metadata["stopped"] == "timeout"
            return time.perf_counter() - began - size / 1000

        be_late()
        yield {OURS: Side(be_late, told=True)}


@contextmanager
def loads(size: int) -> Iterator[Sides]:
    """Megabytes that all processes hold more after so many calls than after half of them."""
    with open_sandbox() as (sandbox, plugin, hostile), ThreadPoolExecutor(THREADS) as pool:

        def work(worker: int) -> int:
            wrong = 0
            for at in range(max(1, size // THREADS // 2)):
                if at % 10 == worker:
                    wish = WISHES[at // 10 % len(WISHES)]
                    score = sandbox.score(hostile, {"wish": wish}, {}, {}, timeout_s=0.5)
                    wrong += score.value is not None
                else:
                    wrong += sandbox.score(plugin, METRICS, CONFIG, {}, timeout_s=60).value != 14.0
            return wrong

        def grow() -> float:
            held = []
            for _ in range(2):
                assert sum(pool.map(work, range(THREADS))) == 0
                held.append(memory_kb(os.getpid()) + sum(memory_kb(pid) for pid in family()))
            return max(0.0, held[1] - held[0]) / 1024

        yield {OURS: Side(grow, told=True)}


BENCHES = (
    Bench(
        "waiting for a call",
        "How long a call is waited for whose plugin's guest is warm, by the clock on the wall: at "
        "most a tenth of starting a new bubblewrap with a Python that makes the same call. The "
        "caller does something else for 5 ms before each.",
        waits,
        (4, 40, 400),
        "numbers",
        (Promise(0.1, ANEW),),
    ),
    Bench(
        "a call",
        "The CPU of such a call with its fork and its end, in a child of its own, one right after "
        "another: at most a third of a new bubblewrap's.",
        single_calls,
        (4, 40, 400),
        "numbers",
        (Promise(1 / 3, ANEW),),
        each="call",
        clock=read_cpu,
    ),
    Bench(
        "batches",
        "Attempts in batches, each in a process of its own: no more than a call for each.",
        batches,
        (20, 200, 2_000),
        "attempts",
        (Promise(1.0, ONE_BY_ONE),),
        each="attempt",
        clock=read_cpu,
        rounds=3,
    ),
    Bench(
        "deadlines",
        "How late a plugin that loops is ended, by the clock on the wall: within 50 ms.",
        deadlines,
        (30, 300, 3_000),
        "ms of a deadline",
        (Promise(0.05),),
    ),
    Bench(
        "memory under load",
        f"{THREADS} threads, one call in ten hostile: each ends as it must, none is left, and "
        "the second half of the calls holds at most 20 MB more than the first.",
        loads,
        (20, 200, 2_000),
        "calls",
        (Promise(20.0),),
        unit="MB",
        rounds=1,
    ),
)

"""The sandbox: what a call costs, what a batch costs, how late a deadline is, and a heavy load.

Promises, each a ratio or a bound within one run:
- a call of a warm plugin, at the median, costs at most a fifth of starting a new bubblewrap with a
  Python that makes the same call;
- 100,000 attempts in batches take at most 3 times the loop that calls the plugin and judges its
  answers in this process;
- a deadline of 100 ms ends a call within 50 ms of it;
- 8 threads make 10,000 calls, one in ten hostile: each ends as it must, no process is left, and
  memory stays flat.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import util
from pathlib import Path
from typing import Any

from tallymark.sandbox import PluginCode, Sandbox, bubblewrap, interpreter
from tallymark.scoring.plugin_contract import plugin_score
from tallymark.scoring.score import Origin

CALLS, STARTS = 300, 15
ATTEMPTS, TURNS = 100_000, 3
LOAD_CALLS, THREADS = 10_000, 8
COST, BATCH, LATE_S, GROWTH_KB = 1 / 5, 3.0, 0.05, 20_000
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


def timed(work: Any, *arguments: Any) -> float:
    began = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - began


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


def one_call(sandbox: Sandbox, plugin: PluginCode) -> bool:
    def call() -> None:
        assert sandbox.score(plugin, METRICS, CONFIG, {}).value == 14.0

    call()
    calls, starts = [], []
    for _ in range(STARTS):  # in turns, so that what else the machine does hits both
        calls += [timed(call) for _ in range(CALLS // STARTS)]
        starts.append(timed(start_anew, plugin.root))
    warm, new = statistics.median(calls), statistics.median(starts)
    print(f"one call: warm {warm * 1e3:.2f} ms, a new bubblewrap and Python {new * 1e3:.1f} ms")
    print(f"  {warm / new:.3f} of a new one (promised {COST:g} at most)")
    return warm <= new * COST


def batch(sandbox: Sandbox, plugin: PluginCode) -> bool:
    attempts = [METRICS | {"rating": at % 11, "created_at": at} for at in range(ATTEMPTS)]
    loop, ours = [], []
    for _ in range(TURNS):
        began = time.perf_counter()
        plain = in_this_process(plugin, attempts)
        loop.append(time.perf_counter() - began)
        began = time.perf_counter()
        found = sandbox.score_many(plugin, attempts, CONFIG, {})
        ours.append(time.perf_counter() - began)
        assert found == plain
    ratio = min(ours) / min(loop)
    each = [min(times) / ATTEMPTS * 1e6 for times in (loop, ours)]
    print(f"{ATTEMPTS:,} attempts: plain loop {each[0]:.1f} µs each, in batches {each[1]:.1f} µs")
    print(f"  {ratio:.2f} times the loop (promised {BATCH:g} at most)")
    return ratio <= BATCH


def in_this_process(plugin: PluginCode, attempts: list[dict[str, Any]]) -> list[Any]:
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


def deadline(sandbox: Sandbox, hostile: PluginCode) -> bool:
    def call() -> None:
        score = sandbox.score(hostile, {"wish": "loop"}, {}, {}, timeout_s=0.1)
        assert score.metadata["stopped"] == "timeout"

    call()
    late = max(timed(call) for _ in range(20)) - 0.1
    print(f"a deadline of 100 ms: {late * 1e3:.1f} ms late at most (promised {LATE_S * 1e3:g})")
    return late <= LATE_S


def load(sandbox: Sandbox, plugin: PluginCode, hostile: PluginCode) -> bool:
    def work(worker: int) -> int:
        wrong = 0
        for at in range(LOAD_CALLS // THREADS // 2):
            if at % 10 == worker:
                wish = WISHES[at // 10 % len(WISHES)]
                score = sandbox.score(hostile, {"wish": wish}, {}, {}, timeout_s=0.5)
                wrong += score.value is not None
            else:
                wrong += sandbox.score(plugin, METRICS, CONFIG, {}, timeout_s=60).value != 14.0
        return wrong

    held = []
    began = time.perf_counter()
    wrong = 0
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in range(2):
            wrong += sum(pool.map(work, range(THREADS)))
            held.append(memory_kb(os.getpid()) + sum(memory_kb(pid) for pid in family()))
    took = time.perf_counter() - began
    grown = held[1] - held[0]
    print(f"{LOAD_CALLS:,} calls by {THREADS} threads, one in ten hostile: {took:.1f} s")
    print(f"  {wrong} ended wrongly; memory grew by {grown / 1024:.1f} MB in the second half")
    return wrong == 0 and grown <= GROWTH_KB


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, Sandbox() as sandbox:
        roots = [Path(folder, name) for name in ("plugin", "hostile")]
        for root, source in zip(roots, (PLUGIN, HOSTILE), strict=True):
            root.mkdir()
            (root / "scorer.py").write_text(source, encoding="utf-8")
        plugin, hostile = code(roots[0], "MyCustomScorer"), code(roots[1], "Hostile")
        print(f"the sandbox ({sandbox.policy.backend})")
        kept = [
            one_call(sandbox, plugin),
            batch(sandbox, plugin),
            deadline(sandbox, hostile),
            load(sandbox, plugin, hostile),
        ]
    left = family()
    print(f"  {len(left)} processes left behind")
    return 0 if all(kept) and not left else 1


if __name__ == "__main__":
    sys.exit(main())

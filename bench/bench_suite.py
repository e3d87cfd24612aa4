"""Suites against pydantic-evals and Inspect: 10,000 cases, an instant model, one match check.

Ours keeps every result durably in SQLite and scores the run; pydantic-evals keeps nothing. Each
side runs in a process of its own; imports and loading the suite are not timed. Inspect is given
fewer cases, because it takes milliseconds for each.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile

CASES = 10_000
MANY = 100_000
INSPECT_CASES = 300

OURS = """
import json, resource, sys, time
from pathlib import Path
from tallymark.app.app import App
from tallymark.app.runs import RunOptions
from tallymark.suites.suite_file import load_suite
import numpy, sqlalchemy.dialects.sqlite, tallymark.models.echo, tallymark.runs.intervals
folder, count = Path(sys.argv[1]), int(sys.argv[2])
(folder / "rows.csv").write_text("n\\n" + "\\n".join(map(str, range(count))) + "\\n")
(folder / "suite.yaml").write_text(
    "metadata: {name: bench, model: echo/x, threads: 100}\\n"
    "evals:\\n  - name: row\\n    prompt: \\"item {{var('n')}}\\"\\n    cases_from: rows.csv\\n"
    "    checks: [{match: '*item*'}]\\n")
class Silent:
    def started(self, record, tally, formula): pass
    def moved(self, result, tally): pass
    def ended(self, record): pass
definition, app = load_suite(folder / "suite.yaml"), App(str(folder / f"{count}.db"))
app.store.set_var("ready", "yes")
before = time.perf_counter()
(run,) = app.runs.run(definition, [], RunOptions(), Silent())
took = time.perf_counter() - before
assert run.counts["passed"] == count
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"each": took / count, "peak": peak}))
"""

PYDANTIC_EVALS = """
import asyncio, json, sys, time
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import Contains
count = int(sys.argv[2])
async def echo(prompt: str) -> str:
    return prompt
dataset = Dataset(name="bench", cases=[Case(name=str(n), inputs=f"item {n}") for n in range(count)],
                  evaluators=[Contains(value="item", case_sensitive=False)])
before = time.perf_counter()
limit = int(sys.argv[3]) if len(sys.argv) > 3 else None
asyncio.run(dataset.evaluate(echo, progress=False, max_concurrency=limit))
print(json.dumps({"each": (time.perf_counter() - before) / count, "peak": 0}))
"""

INSPECT = """
import json, os, sys, time
os.environ["INSPECT_LOG_DIR"] = sys.argv[1]
from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.scorer import includes
count = int(sys.argv[2])
samples = [Sample(input=f"item {n}", target="item") for n in range(count)]
answers = [ModelOutput.from_content("mockllm", f"item {n}") for n in range(count)]
model = get_model("mockllm/model", custom_outputs=answers)
async def count_text_tokens(text): return len(text)
model.api.count_text_tokens = count_text_tokens
task = Task(dataset=MemoryDataset(samples), scorer=includes())
before = time.perf_counter()
logs = eval(task, model=model, display="none", log_level="error", max_samples=100)
took = time.perf_counter() - before
assert logs[0].status == "success", logs[0].error
print(json.dumps({"each": took / count, "peak": 0}))
"""


def measured(code: str, folder: str, cases: int, *more: str) -> dict[str, float]:
    command = [sys.executable, "-W", "ignore", "-c", code, folder, str(cases), *more]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def report(what: str, value: float, promise: float, *, least: bool) -> bool:
    kept = value >= promise if least else value <= promise
    word = "at least" if least else "at most"
    print(f"  {what:<46} {value:8.1f}   {word} {promise:g}   {'' if kept else 'BROKEN'}")
    return kept


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        ours = min(measured(OURS, tempfile.mkdtemp(dir=folder), CASES)["each"] for _ in range(3))
        peer = min(measured(PYDANTIC_EVALS, folder, CASES)["each"] for _ in range(2))
        limited = min(measured(PYDANTIC_EVALS, folder, CASES, "100")["each"] for _ in range(2))
        inspect = measured(INSPECT, folder, INSPECT_CASES)["each"]
        many = measured(OURS, tempfile.mkdtemp(dir=folder), MANY)
    print(f"with 100 at once, pydantic-evals takes {limited / ours:.1f} times as long as ours")
    print(f"a case of ours: {ours * 1e6:.0f} us; at {MANY:,} cases {many['each'] * 1e6:.0f} us")
    kept = [
        report("times the speed of pydantic-evals", peer / ours, 10, least=True),
        report("times the speed of Inspect", inspect / ours, 50, least=True),
        report(f"MB at most for {MANY:,} cases", many["peak"], 200, least=False),
    ]
    sys.exit(not all(kept))

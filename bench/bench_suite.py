"""Suites in YAML against pydantic-evals, Inspect and promptfoo: an instant model, one match check.

Ours keeps every result durably in SQLite and scores the run; pydantic-evals keeps nothing. Each
side runs in a process of its own, and what it takes to start is not counted. Inspect and promptfoo
are given fewer cases, because they take milliseconds for each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.measurement import OURS, Bench, Promise, Side, Sides

FEW = 300
PROMPTFOO = Path(sys.prefix) / "node" / "node_modules" / ".bin" / "promptfoo"

TALLYMARK = """
import sys, time
from pathlib import Path
from tallymark.service.app import App
from tallymark.service.suite_runs import RunOptions
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
before = time.process_time()
(run,) = app.runs.run(definition, [], RunOptions(), Silent())
print(time.process_time() - before)
assert run.counts["passed"] == count
"""

PYDANTIC_EVALS = """
import asyncio, sys, time
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import Contains
count = int(sys.argv[2])
async def echo(prompt: str) -> str:
    return prompt
dataset = Dataset(name="bench", cases=[Case(name=str(n), inputs=f"item {n}") for n in range(count)],
                  evaluators=[Contains(value="item", case_sensitive=False)])
before = time.process_time()
limit = int(sys.argv[3]) if len(sys.argv) > 3 else None
asyncio.run(dataset.evaluate(echo, progress=False, max_concurrency=limit))
print(time.process_time() - before)
"""

INSPECT = """
import os, sys, time
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
before = time.process_time()
logs = eval(task, model=model, display="none", log_level="error", max_samples=100)
print(time.process_time() - before)
assert logs[0].status == "success", logs[0].error
"""


def measure(code: str, folder: str, cases: int, *more: str) -> float:
    """Seconds of CPU that a program says it took."""
    command = [sys.executable, "-W", "ignore", "-c", code, tempfile.mkdtemp(dir=folder)]
    done = subprocess.run(
        [*command, str(cases), *more], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return float(done.stdout.splitlines()[-1])


def measure_promptfoo(folder: str) -> float:
    """CPU of FEW cases more than one."""
    return ask_promptfoo(folder, FEW + 1) - ask_promptfoo(folder, 1)


def ask_promptfoo(folder: str, cases: int) -> float:
    """Seconds of CPU of the command, its start included."""
    place = Path(tempfile.mkdtemp(dir=folder))
    suite = {
        "prompts": ["item {{n}}"],
        "providers": ["echo"],
        "tests": [
            {"vars": {"n": n}, "assert": [{"type": "contains", "value": "item"}]}
            for n in range(cases)
        ],
    }
    (place / "promptfooconfig.json").write_text(json.dumps(suite))
    quiet = {
        "PROMPTFOO_CONFIG_DIR": str(place),
        "PROMPTFOO_DISABLE_TELEMETRY": "1",
        "PROMPTFOO_DISABLE_UPDATE": "1",
    }
    words = [str(PROMPTFOO), "eval", "--no-cache", "--no-table", "--no-progress-bar", "-j", "100"]
    before = os.times()
    done = subprocess.run(
        [*words, "-c", "promptfooconfig.json", "-o", "said.json"],
        cwd=place,
        env=os.environ | quiet,
        capture_output=True,
        text=True,
        check=False,
    )
    after = os.times()
    if not (place / "said.json").is_file():
        raise RuntimeError(done.stdout + done.stderr)
    found = json.loads((place / "said.json").read_text())["results"]["stats"]
    assert found["successes"] == cases, found
    return sum(after[2:4]) - sum(before[2:4])


@contextmanager
def suites(size: int) -> Iterator[Sides]:
    """A case by everybody."""
    with tempfile.TemporaryDirectory(prefix="tally-bench-") as folder:
        ask = partial(measure, folder=folder)
        few = min(size, FEW)
        yield {
            OURS: Side(lambda: ask(TALLYMARK, cases=size), size, told=True),
            "pydantic-evals": Side(lambda: ask(PYDANTIC_EVALS, cases=size), size, told=True),
            "pydantic-evals, 100 at once": Side(
                lambda: measure(PYDANTIC_EVALS, folder, size, "100"), size, told=True
            ),
            "Inspect": Side(lambda: ask(INSPECT, cases=few), few, rounds=1, told=True),
            "promptfoo": Side(lambda: measure_promptfoo(folder), FEW, rounds=1, told=True)
            if PROMPTFOO.is_file()
            else "Node is not there",
        }


BENCHES = (
    Bench(
        "a suite in YAML",
        "A case asked of an instant model, checked and kept: a tenth of what pydantic-evals takes, "
        "and a fiftieth of Inspect.",
        suites,
        (100, 1_000, 10_000),
        "cases",
        (
            Promise(0.1, "pydantic-evals"),
            Promise(0.02, "Inspect"),
            Promise(0.05, "promptfoo"),
        ),
        each="case",
        rounds=3,
    ),
)

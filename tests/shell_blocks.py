"""Run the shell blocks of the docs: those of one page in one folder, in order.

`READERS_FILES` and `READERS_COMMANDS` provide what a page assumes that its reader has. Words in
capitals are placeholders, and a provider's model is replaced by one without cost.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.golden.stage import environment, shared_zygote
from tests.golden.zygote import Call, Outcome

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(\w+)(?: ([^\n]+))?\n(.*?)^```", re.MULTILINE | re.DOTALL)

NOT_PLAYED = {
    "make ": "sets up an environment; its effects are tested separately",
    "uv tool install": "installs from a registry",
    "pip install": "installs from a registry",
    "tally worker": "runs until it is stopped; tests/cli/test_worker.py starts it",
    "tally view": "runs until it is stopped; tests/web starts it",
    "tally serve --demo": "runs until it is stopped; tests/service/demo starts it",
    "tally doctor --conformance": "attacks the sandbox, which tests/sandbox does at length",
}
"""Commands that are not run, by how the line starts, with the reason."""

STANDS_FOR = {
    r"\bRUN\b": "latest",
    r"\bATTEMPT\b": "a1",
    r"(?<=judge: )openai/gpt-5-mini": '"cmd/echo Choice: met"',
    r'(?<=model=")openai/gpt-5-mini': "cmd/echo Choice: met",
    "openai/gpt-5-mini": "echo/me",
}

_SUITE = """\
metadata: {name: mine, model: echo/me}
evals:
  - {name: math, prompt: What is 2 + 2?, tags: [smoke], checks: [{match: "*4*"}]}
  - {name: capitals, prompt: "Of {{city}}?", cases_from: cities.csv, checks: [{match: "*of*"}]}
  - {prompt: Say hello., checks: [{match: "*hello*"}]}
"""
_CITIES = "city\n" + "".join(f"city-{number}\n" for number in range(1, 10))
_PROMPTFOO = """\
prompts: ["Say hello to {{name}}."]
providers: [echo]
tests: [{vars: {name: Ann}, assert: [{type: icontains, value: ann}]}]
"""
_TRACES = '{"input": "Where is my order?", "output": "On its way."}\n'
READERS_FILES: dict[str, dict[str, str | Path]] = {
    "adapters": {
        "traces.jsonl": '{"id": "t-1", "input": "Capital of France?", "output": "Paris!"}\n',
        "expected.jsonl": '{"trace_id": "t-1", "output": "Paris"}\n',
    },
    "models": {
        "suite.yaml": _SUITE,
        "cities.csv": _CITIES,
        "agent.py": "def answer(prompt):\n    return prompt\n",
        "agent.sh": "#!/bin/sh\ncat\n",
    },
    "traces": {
        "traces.jsonl": _TRACES,
        "exports/monday.jsonl": _TRACES.replace("{", '{"name": "refunds", ', 1),
    },
    "comparing-runs": {"suite.yaml": _SUITE, "cities.csv": _CITIES},
    "jobs": {"traces.jsonl": _TRACES, "suite.yaml": _SUITE, "cities.csv": _CITIES},
    "imports": {
        "promptfooconfig.yaml": _PROMPTFOO,
        "logs/2025-11-02_quiz.eval": ROOT / "tests/fixtures/traces/inspect_sums.eval",
    },
    "judges": {"traces.jsonl": '{"input": "Sugar?", "output": "No."}\n'},
    "reports": {"suite.yaml": _SUITE, "cities.csv": _CITIES},
    "rescoring": {"bean-counter": ROOT / "examples/challenges/bean-counter"},
    "tally-run": {"mine.yaml": _SUITE, "cities.csv": _CITIES},
    "tally-score": {"examples/agent_eval.py": ROOT / "examples/agent_eval.py"},
}
READERS_COMMANDS = {
    "tally admin backup monday": ["tally vars set city Oslo"],
    "tally compare latest~1": ["tally run suite.yaml"],
    "tally compare RUN RUN  ": ["tally run suite.yaml", "tally run suite.yaml"],
    "tally rescore bean-counter --formula": [
        "tally challenge publish bean-counter",
        "tally attempt enter bean-counter --agent ann",
        "tally attempt submit a1 bean-counter/truth.json --agent ann",
    ],
    "tally run suite.yaml -m 'cmd": ["chmod +x agent.sh"],
    "tally run suite.yaml -m openai": ["tally run suite.yaml --record answers/careful.jsonl"],
    "tally run suite.yaml --only": ["cp mine.yaml suite.yaml"],
}
"""Commands to run before a line that starts with the key."""


def find_lines(page: Path) -> list[str]:
    """List the commands of all shell blocks of a page."""
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [line for kind, _, body in blocks if kind == "sh" for line in body.splitlines() if line]


def play(page: Path) -> Iterator[tuple[str, Outcome]]:
    """Run each command; yield it with its outcome."""
    with tempfile.TemporaryDirectory(prefix="tally-") as made:
        here, home = Path(made).resolve() / "here", Path(made).resolve() / "home"
        here.mkdir()
        home.mkdir()
        _lay_files(page, here)
        for line in find_lines(page):
            if line.startswith(tuple(NOT_PLAYED)):
                continue
            for start, commands in READERS_COMMANDS.items():
                for each in commands if line.startswith(start) else ():
                    yield each, _call(each, here, home)
            yield line, _call(_fill_in(line), here, home)


def _fill_in(text: str) -> str:
    for placeholder, value in STANDS_FOR.items():
        text = re.sub(placeholder, value, text)
    return text


def _lay_files(page: Path, here: Path) -> None:
    named: dict[str, str | Path] = {
        name: body for _, name, body in BLOCK.findall(page.read_text("utf-8")) if name
    }
    for name, content in {**named, **READERS_FILES.get(page.stem, {})}.items():
        place = here / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            place.write_text(_fill_in(content), encoding="utf-8")
        elif content.is_dir():
            shutil.copytree(content, place)
        else:
            shutil.copy(content, place)


def _call(line: str, here: Path, home: Path) -> Outcome:
    words = shlex.split(line, comments=True)
    if words[0] == "tally":
        return shared_zygote()(Call(words, str(here), environment(home), now=None))
    done = subprocess.run(
        ["sh", "-c", line],
        cwd=here,
        env=environment(home),
        capture_output=True,
        text=True,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)

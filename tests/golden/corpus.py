"""The stories of the corpus: what they say when they are played, and what they should say.

A topic is a YAML file of stories in `cases/`. A story has a folder of its own, with files, and
steps: commands as a user types them. What it says is kept as a transcript in `expected/`, which is
made to be read in a diff:

    ▌ an unknown key
    $ tally validate suite.yaml
    what came on stdout
    ! what came on stderr
    → 2
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from tests.golden.masks import Masker
from tests.golden.zygote import Call, Outcome, Zygote

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXPECTED = HERE / "expected"
TRACES = "tests/fixtures/traces"
NEW_YEAR = 1_767_225_600.0
"""Midnight of 2026-01-01, UTC: when every story begins. Each step is a minute later."""

Content = str | bytes | dict[str, Any]
"""Text, bytes, or `{repeat, times, then}` for what is long."""


@dataclass(frozen=True)
class Step:
    """A command, what is written just before it, and which of the files it wrote are shown."""

    run: str
    files: dict[str, Content] = field(default_factory=dict)
    stdin: str = ""
    env: dict[str, str] = field(default_factory=dict)
    after: float = 60.0
    show: list[str] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Story:
    """`copy` names files and folders of the repository that are laid into the story's folder."""

    topic: str
    name: str
    steps: list[Step]
    files: dict[str, Content] = field(default_factory=dict)
    copy: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.topic}: {self.name}"


def stories() -> list[Story]:
    """All of them, in the order of the files."""
    return [each for path in sorted((HERE / "cases").glob("*.yaml")) for each in _topic(path)]


def _step(said: str | dict[str, Any], name: str) -> Step:
    """`{story}` is the story's name, where all stories of a topic have the same steps."""
    told = {"run": said} if isinstance(said, str) else said
    return Step(**told | {"run": told["run"].replace("{story}", name)})


def _topic(path: Path) -> Iterator[Story]:
    with path.open(encoding="utf-8") as file:
        topic = yaml.load(file, Loader=yaml.CSafeLoader)
    for name, said in topic["stories"].items():
        told: dict[str, Any] = said if isinstance(said, dict) else {"files": {topic["file"]: said}}
        steps = told.get("steps", topic.get("steps"))
        yield Story(
            topic=path.stem,
            name=name,
            steps=[_step(each, name) for each in steps],
            files=topic.get("files", {}) | told.get("files", {}),
            copy=topic.get("copy", []) + told.get("copy", []),
        )


WARM = (
    "tally run suites/support-desk.yaml --report report.html",
    "tally validate suites/support-desk.yaml",
    "tally score traces --scorer word_count --formula success_pct -o scored.jsonl",
    "tally formula check success_pct",
    "tally challenge publish challenges/prompt-race",
    "tally ratings",
)
"""Commands that between them load nearly all that the others do."""


@contextmanager
def opened() -> Iterator[Zygote]:
    """A zygote, ready for stories."""
    with tempfile.TemporaryDirectory(prefix="tally-") as made:
        _lay(Path(made), ["examples/suites", "examples/challenges", TRACES])
        env = environment(Path(made))
        zygote = Zygote(env, [Call(shlex.split(each), made, env, "", NEW_YEAR) for each in WARM])
        try:
            yield zygote
        finally:
            zygote.close()


def play(story: Story, zygote: Zygote) -> str:
    """The transcript of a story."""
    with tempfile.TemporaryDirectory(prefix="tally-") as made:
        folder, home = Path(made).resolve() / "here", Path(made).resolve() / "home"
        folder.mkdir()
        home.mkdir()
        _lay(folder, story.copy)
        _write(folder, story.files)
        masker = Masker({str(folder): "{here}", str(home): "{home}", str(ROOT): "{repo}"})
        now, parts = NEW_YEAR, [f"▌ {story.name}\n"]
        for step in story.steps:
            now += step.after
            _write(folder, step.files)
            argv = [masker.unmask(word) for word in shlex.split(step.run)]
            env = environment(home) | step.env
            done = zygote(Call(argv, str(folder), env, step.stdin, now))
            parts.append(masker.mask(_transcript(step, done, folder)))
        return "".join(parts)


def environment(home: Path) -> dict[str, str]:
    """Small, and the same everywhere; nothing of the caller's gets in."""
    return {
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "COLUMNS": "80",
        "LANG": "C.UTF-8",
        "NO_COLOR": "1",
        "TZ": "UTC",
        "PYTHONHASHSEED": "0",
        "OPENBLAS_NUM_THREADS": "1",  # a process with threads cannot be forked
        "TOKENIZERS_PARALLELISM": "false",
    }


def _lay(folder: Path, names: list[str]) -> None:
    for name in names:
        source, target = ROOT / name, folder / Path(name).name
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)


def _write(folder: Path, files: dict[str, Content]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(_bytes(content))


def _bytes(content: Content) -> bytes:
    if isinstance(content, bytes):
        return content
    if isinstance(content, str):
        return content.encode()
    return bytes(content["repeat"] * content["times"] + content.get("then", ""), "utf-8")


def _transcript(step: Step, done: Outcome, folder: Path) -> str:
    said = f"$ {step.run}\n{_ended(done.out)}"
    said += "".join(f"! {line}\n" for line in done.err.splitlines())
    for name in step.show:
        said += f"» {name}\n{_ended(_readable(folder / name))}"
    return f"{said}→ {done.code}\n"


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}⏎\n"


def _readable(path: Path) -> str:
    if path.suffix != ".parquet":
        return path.read_bytes().decode("utf-8", "backslashreplace")
    from pyarrow import parquet  # type: ignore[import-untyped]

    rows = parquet.read_table(path)
    lines = [json.dumps(row, ensure_ascii=False, default=str) for row in rows.to_pylist()]
    return f"{rows.schema.to_string(show_schema_metadata=False)}\n" + "\n".join(lines)


def topics() -> list[str]:
    """Those that something is expected of."""
    return sorted(path.stem for path in EXPECTED.glob("*.txt"))


@cache
def expected(topic: str) -> dict[str, str]:
    """What the stories of a topic should say, by their names."""
    path = EXPECTED / f"{topic}.txt"
    text = path.read_text("utf-8") if path.exists() else ""
    blocks = re.split(r"^(?=▌ )", text, flags=re.MULTILINE)[1:]
    return {block[2:].partition("\n")[0]: block.rstrip("\n") + "\n" for block in blocks}

"""The stories of the corpus, and what they should say.

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

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

HERE = Path(__file__).parent
EXPECTED = HERE / "expected"
NEW_YEAR = 1_767_225_600.0
"""Midnight of 2026-01-01, UTC. Each step of a story is a minute after the one before it."""

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
    """How many seconds have gone by since the step before."""
    show: list[str] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Story:
    """`copy` names files and folders of the repository that are laid into the story's folder."""

    topic: str
    name: str
    steps: list[Step]
    files: dict[str, Content] = field(default_factory=dict)
    copy: list[str] = field(default_factory=list)
    store: bool = False
    """Whether an empty store is there already: making one takes longer than most commands."""
    starts: float = NEW_YEAR
    measured: bool = False
    """Whether it waits for somebody, so that its latencies are not always the same."""
    unmasked: list[str] = field(default_factory=list)
    """Labels of masks that it does without, because what they hide is the same each time."""

    def __str__(self) -> str:
        return f"{self.topic}: {self.name}"


def stories() -> list[Story]:
    """All of them, in the order of the files."""
    return [each for path in sorted((HERE / "cases").glob("*.yaml")) for each in read_topic(path)]


def read_topic(path: Path) -> Iterator[Story]:
    """What a story leaves out, its topic says; a story that is only text is the topic's `file`."""
    with path.open(encoding="utf-8") as file:
        topic = yaml.load(file, Loader=yaml.CSafeLoader)
    for name, said in topic["stories"].items():
        told: dict[str, Any] = said if isinstance(said, dict) else {"files": {topic["file"]: said}}
        yield Story(
            topic=path.stem,
            name=name,
            steps=[_step(each, name) for each in told.get("steps", topic.get("steps"))],
            files=topic.get("files", {}) | told.get("files", {}),
            copy=topic.get("copy", []) + told.get("copy", []),
            store=told.get("store", topic.get("store", False)),
            starts=topic.get("starts", NEW_YEAR),
            unmasked=topic.get("unmasked", []),
            measured=told.get("measured", topic.get("measured", False)),
        )


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


def _step(said: str | dict[str, Any], name: str) -> Step:
    """`{story}` is the story's name, where all stories of a topic have the same steps."""
    told = {"run": said} if isinstance(said, str) else said
    return Step(**told | {"run": told["run"].replace("{story}", name)})

"""Starters of challenges, one for each evaluator and one of red against blue.

A starter is a file in `starters/`: the files of a folder, and the commands that play it.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tallymark.documents.reader import read_plain
from tallymark.errors import InvalidInput, WorkFailed, suggest

_FOLDER = Path(__file__).parent / "starters"
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class Starter(NamedTuple):
    """Written files, and the next commands; ATTEMPT is the id that entering prints."""

    files: list[str]
    commands: list[str]
    note: str = ""
    """Note for trying own answers."""


def list_starters() -> list[str]:
    """The kinds that there are."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def read_starter(kind: str, name: str = "") -> dict[str, str]:
    """The files of a challenge that passes its check and can be played as it is."""
    if kind not in list_starters():
        close = suggest(kind, list_starters())
        hint = f"did you mean {close!r}?" if close else f"there are {', '.join(list_starters())}"
        raise InvalidInput(f"there is no starter {kind!r}", hint=hint)
    chosen = _find_name(kind, name)
    told = read_plain(_FOLDER / f"{kind}.yaml", "a starter")
    return {file: text.replace("{name}", chosen) for file, text in told["files"].items()}


def describe_starter(kind: str) -> str:
    """Purpose, from the first line of its challenge."""
    lines = itertools.takewhile(
        lambda line: line.startswith("#"), read_starter(kind)["challenge.yaml"].splitlines()
    )
    return " ".join(line.lstrip("# ") for line in lines).partition(" All keys")[0]


def _find_name(kind: str, wanted: str) -> str:
    return wanted if _NAME.fullmatch(wanted) else f"my-{kind}"


def write_starter(kind: str, folder: Path) -> Starter:
    """Write a starter into a folder."""
    read_starter(kind)  # refuses what is none
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInput(f"{folder} exists already", hint="name a folder that is new or empty")
    told = read_plain(_FOLDER / f"{kind}.yaml", "a starter")
    name = _find_name(kind, folder.resolve().name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in read_starter(kind, name).items():
            (folder / file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise WorkFailed(f"cannot write {folder}: {error.strerror or error}") from None
    return Starter(list(told["files"]), _list_next(name, str(folder), told), told.get("note", ""))


def _list_next(name: str, folder: str, told: Mapping[str, Any]) -> list[str]:
    """The next commands, to be pasted into a shell."""
    folder = shlex.quote(folder)
    play = [each.replace("{name}", name).replace("{folder}", folder) for each in told["play"]]
    return [f"tally challenge check {folder}", f"tally challenge publish {folder}", *play]

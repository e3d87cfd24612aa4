"""`Brief`: the task of an attempt for an agent, as a value and as a folder.

    goal.md      the task
    rules.json   the challenge: form of an answer, limits, time, how it is scored
    schema.json  the JSON Schema of an answer, where there is one
    data/        the files to work with
    brief.json   all of it in one, which a program also gets on standard input

File names come from the challenge, so each is checked before a file is written.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from tallymark.challenges.challenge import Submission
from tallymark.challenges.challenge_folder import write_received_files
from tallymark.client.competing.steps import Steps
from tallymark.errors import InvalidInput, WorkFailed
from tallymark.service.attempts import EnteredAttempt

FOLDER, ANSWER, ATTEMPT = "TALLY_FOLDER", "TALLY_ANSWER", "TALLY_ATTEMPT"
"""Variables that name the folder, the answer file and the attempt for a program."""
TOLD = ("trajectory.json", "metadata.json")
"""Files that an agent may write next to its answer: a trajectory, and metadata."""
_ANSWERS = {"json": "answer.json", "text": "answer.txt", "agent": "answer.txt", "files": "answer"}


class Brief(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The task of an agent, with the files to work with."""

    attempt: str
    challenge: str
    agent: str
    goal: str
    rules: dict[str, Any]
    schema: dict[str, Any] | None = None
    data: dict[str, Any]
    """Texts or JSON values by file name."""
    seconds: float
    """Time for the agent."""
    folder: str

    @cached_property
    def submission(self) -> Submission:
        """The form of an answer."""
        return read_form(self.rules)

    @property
    def path(self) -> Path:
        """The folder."""
        return Path(self.folder)

    @property
    def answer_path(self) -> Path:
        """Path of the answer file, which is read before standard output."""
        return self.path / _ANSWERS[self.submission.format]

    @cached_property
    def steps(self) -> Steps:
        """Records model and tool calls for the server."""
        return Steps.from_environment()

    def ask(self, model: str, prompt: str, **settings: Any) -> str:
        """Ask a model; the call is recorded for the server."""
        return self.steps.ask(model, prompt, **settings)


def make_brief(entered: EnteredAttempt, seconds: float, folder: Path) -> Brief:
    """Make the brief of an entered attempt, for an agent that has this many seconds."""
    rules, attempt = msgspec.to_builtins(entered.challenge), entered.attempt
    return Brief(
        attempt=attempt.id,
        challenge=attempt.challenge,
        agent=attempt.agent,
        goal=entered.goal,
        rules=rules,
        schema=(rules.get("submission") or {}).get("schema"),
        data=entered.data,
        seconds=round(seconds, 3),
        folder=str(folder.absolute()),
    )


def read_form(rules: Mapping[str, Any]) -> Submission:
    """Describe the form of an answer."""
    try:
        return msgspec.convert(rules.get("submission") or {}, Submission)
    except msgspec.ValidationError as error:
        raise WorkFailed(
            f"the challenge wants answers in a form that is not known here: {error}",
            hint="the server's version may be newer than this one",
        ) from None


def read_brief(folder: Path) -> Brief:
    """Read the brief in a folder."""
    try:
        return msgspec.json.decode((folder / "brief.json").read_bytes(), type=Brief)
    except (OSError, msgspec.MsgspecError) as error:
        raise InvalidInput(f"{folder} holds no brief: {error}") from None


def lay_brief(brief: Brief) -> None:
    """Write the brief to its folder; files of the agent's earlier try stay."""
    folder, data = brief.path, brief.path / "data"
    try:
        own = next((each for each in folder.parents if each.name == ".tally"), None)
        if own is not None and not own.exists():  # as the store makes it
            own.mkdir(parents=True)
            (own / ".gitignore").write_text("*\n", encoding="utf-8")
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir()
        write_received_files(brief.data, data)
        _write(folder / "goal.md", brief.goal.rstrip() + "\n")
        _write(folder / "rules.json", _encode(brief.rules))
        if brief.schema is not None:
            _write(folder / "schema.json", _encode(brief.schema))
        _write(folder / "brief.json", msgspec.json.encode(brief).decode())
        for name in (brief.answer_path.name, *TOLD):
            _set_aside(folder / name)
        if brief.submission.format == "files":
            brief.answer_path.mkdir()
    except OSError as error:
        raise WorkFailed(
            f"cannot write to {folder}: {error.strerror or error}",
            hint="name another folder with --folder",
        ) from None


def save_answer(brief: Brief, answer: Any) -> Path:
    """Save an answer, so that it can be submitted later if anything fails now."""
    path = brief.answer_path
    if brief.submission.format == "files":
        write_received_files(answer, path)
    else:
        text = answer if brief.submission.format != "json" else _encode(answer)
        _write(path, str(text))
    return path


def _encode(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _write(path: Path, text: str) -> None:
    """Write a file atomically; a link at its path is replaced, not followed."""
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    part.write_text(text, encoding="utf-8", errors="replace")
    os.replace(part, path)  # noqa: PTH105 (replaces a link, and does not follow it)


def _set_aside(path: Path) -> None:
    """Rename the answer of an earlier try."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        if path.is_dir():
            path.rmdir()
        return
    number = 1
    while (aside := path.with_name(f"earlier-{number}-{path.name}")).exists():
        number += 1
    path.rename(aside)

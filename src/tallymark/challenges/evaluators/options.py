"""Reading an evaluator's own options, and the files of the challenge that they name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from tallymark.challenges.folder import find_name_problem
from tallymark.errors import InvalidInput, Problem, suggest
from tallymark.scoring.score import show_value

if TYPE_CHECKING:
    from tallymark.challenges.definition import Evaluator, VersusJudge

T = TypeVar("T", bound=msgspec.Struct)


def check_options(evaluator: Evaluator, kind: type[T]) -> tuple[T | None, list[Problem]]:
    """The options as their type, or None and what is wrong with them."""
    known = [field.name for field in msgspec.structs.fields(kind)]
    problems = []
    for key in evaluator.options:
        if key not in known and not key.startswith("x-"):
            near = suggest(key, known)
            hint = f"did you mean {near!r}?" if near else f"its options are {', '.join(known)}"
            message = f"evaluator: {evaluator.type} has no option {show_value(key)}"
            problems.append(Problem(message, hint=hint))
    if problems:
        return None, problems
    try:
        return read_options(evaluator, kind), []
    except InvalidInput as error:
        return None, list(error.problems)


def read_options(evaluator: Evaluator | VersusJudge, kind: type[T]) -> T:
    """The options as their type; those that begin with `x-` are the author's own."""
    given = {key: value for key, value in evaluator.options.items() if not key.startswith("x-")}
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        said = str(error).replace("`", "").replace("$.", "")
        raise InvalidInput(f"evaluator: {said}") from None


def find_inner_file(folder: Path, name: str, what: str) -> Path:
    """A file of the challenge by its name; nothing outside of the folder is reached."""
    if (problem := find_name_problem(name)) is not None:
        raise InvalidInput(
            f"{what}: {show_value(name)} cannot be a file of the challenge: {problem}"
        )
    path = folder / name
    if not path.is_file() or path.is_symlink():
        raise InvalidInput(f"{what}: there is no file {name} in the challenge")
    return path

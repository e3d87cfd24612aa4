"""A rubric: the question a judge answers, its choices and their numbers, read from a TOML file.

TOML because Python reads it without another package, says the line and column of a mistake, and
keeps a prompt of many lines as it was typed.
"""

from __future__ import annotations

import hashlib
import math
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from tallymark.errors import Place, ScorerError, suggest

_BUILT_IN = Path(__file__).parent / "rubrics"
_FRAME = Path(__file__).parent / "frame.toml"
_CRITERIA = Path(__file__).parent / "criteria.toml"
ShownPart = Literal["input", "output", "expected", "context", "tools"]
"""What a judge can be shown of a trace."""


class Choice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One possible verdict."""

    value: Annotated[float, msgspec.Meta(ge=0, le=1)]
    means: str = ""
    """When a judge should choose it."""


class Rubric(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a judge is asked."""

    description: str
    question: str
    shows: Annotated[list[ShownPart], msgspec.Meta(min_length=1)]
    choices: dict[str, float | Choice]
    criteria: str = ""
    """What an answer must meet, in the author's words: shown in place of an expected answer."""

    def verdicts(self) -> dict[str, Choice]:
        """The choices by label, in the file's order."""
        return {
            label: given if isinstance(given, Choice) else Choice(given)
            for label, given in self.choices.items()
        }

    def hash(self, frame: str) -> str:
        """Twelve hex digits that change with any word or number of the rubric and its frame."""
        parts = [frame, self.question, self.shows, self.verdicts()]
        words = msgspec.json.encode([*parts, self.criteria] if self.criteria else parts)
        return hashlib.sha256(words).hexdigest()[:12]


def list_built_in_rubrics() -> list[str]:
    """The names of the rubrics that come with Tallymark."""
    return sorted(path.stem for path in _BUILT_IN.glob("*.toml"))


def read_frame() -> str:
    """The instructions that every rubric is put into, as TOML text."""
    return _FRAME.read_text(encoding="utf-8")


def load_rubric(name: str) -> Rubric:
    """A built-in rubric by name, the user's own by the path of its `.toml` file, or in one line."""
    if name.endswith(".toml"):
        return _read_rubric(Path(name), name)
    built_in = list_built_in_rubrics()
    if name in built_in:
        return _read_rubric(_BUILT_IN / f"{name}.toml", name)
    near = suggest(name, built_in)
    if _is_sentence(name) and near is None:
        return make_criteria_rubric(name)
    meant = f"did you mean {near!r}? " if near else ""
    raise ScorerError(
        f"there is no rubric {name!r}",
        hint=f"{meant}The rubrics are {', '.join(built_in)}, or the path of a .toml file of your "
        "own, or a question of several words",
    )


def make_criteria_rubric(criteria: str) -> Rubric:
    """The rubric of what was said in a line: is it met, partly met or not met?"""
    return msgspec.structs.replace(_read_rubric(_CRITERIA, "criteria"), criteria=criteria)


def _is_sentence(text: str) -> bool:
    return len(text.split()) > 1 or text.strip().endswith("?")


def _read_rubric(path: Path, name: str) -> Rubric:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ScorerError(f"the rubric {name} cannot be read: {error.strerror}") from None
    return _parse_rubric(text, name)


def replace_choices(rubric: Rubric, choices: dict[str, Any], where: str) -> Rubric:
    """The rubric with other labels or numbers; a label that it knows keeps its meaning."""
    known = rubric.verdicts()
    try:
        given = msgspec.convert(choices, dict[str, float | Choice])
    except msgspec.ValidationError as error:
        raise ScorerError(f"{where}: choices: {error}") from None
    merged: dict[str, float | Choice] = {
        label: Choice(each, known[label].means)
        if isinstance(each, float) and label in known
        else each
        for label, each in given.items()
    }
    return _check_choices(msgspec.structs.replace(rubric, choices=merged), where)


def _parse_rubric(text: bytes, name: str) -> Rubric:
    place = Place(source=name)
    try:
        return _check_choices(msgspec.convert(tomllib.loads(text.decode()), Rubric), name)
    except tomllib.TOMLDecodeError as error:
        raise ScorerError(f"the rubric is not TOML: {error}", place=place) from None
    except UnicodeDecodeError:
        raise ScorerError("the rubric is not UTF-8 text", place=place) from None
    except msgspec.ValidationError as error:
        raise ScorerError(str(error).replace("$.", ""), place=place) from None


def _check_choices(rubric: Rubric, where: str) -> Rubric:
    """Refuse choices that a verdict could not be told apart by, or that have no number."""
    verdicts = rubric.verdicts()
    # Case is ignored in a judge's answer, so labels that differ only in case would be one.
    folded = {label.strip().casefold() for label in verdicts}
    if len(verdicts) < 2 or len(folded) < len(verdicts) or "" in folded:
        raise ScorerError(f"{where}: a rubric needs at least two choices, each with its own name")
    for label, choice in verdicts.items():
        if not 0 <= choice.value <= 1 or math.isnan(choice.value):
            raise ScorerError(
                f"{where}: the choice {label!r} has {choice.value}; it must be from 0 to 1"
            )
    return rubric

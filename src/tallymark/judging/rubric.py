"""A rubric: the question a judge answers, its choices and their numbers, read from a TOML file.

TOML because Python reads it without another package, names the line and column of a mistake, and
leaves a prompt of many lines as it was typed.

A judge's answer should be JSON and often is only nearly so; `read_verdict` finds its choice.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import msgspec

from tallymark.documents.shapes import (
    ChoiceShape,
    Key,
    ListShape,
    MapShape,
    NumberShape,
    RecordShape,
    TextShape,
    read_value,
    record_or_short,
)
from tallymark.documents.source import read_source
from tallymark.errors import InvalidInput, ScorerError, suggest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_BUILT_IN = Path(__file__).parent / "rubrics"
_FRAME = Path(__file__).parent / "frame.toml"
_CRITERIA = Path(__file__).parent / "criteria.toml"
ShownPart = Literal["input", "output", "expected", "context", "tools"]
"""Parts of a trace that a judge can see."""


class Choice(msgspec.Struct, frozen=True):
    """One possible verdict."""

    value: float
    means: str = ""
    """When a judge should choose it."""


class Rubric(msgspec.Struct, frozen=True, kw_only=True):
    """A question with its choices."""

    description: str
    question: str
    shows: list[ShownPart]
    choices: dict[str, Choice]
    """By label, in the file's order."""
    criteria: str = ""
    """The author's criteria, shown in place of an expected answer."""

    def hash(self, frame: str) -> str:
        """Twelve hex digits that change with any word or number of the rubric and its frame."""
        parts = [frame, self.question, self.shows, self.choices]
        words = msgspec.json.encode([*parts, self.criteria] if self.criteria else parts)
        return hashlib.sha256(words).hexdigest()[:12]


def list_built_in_rubrics() -> list[str]:
    """The names of the rubrics that come with Tallymark."""
    return sorted(path.stem for path in _BUILT_IN.glob("*.toml"))


def read_frame() -> str:
    """The instructions that every rubric is put into, as TOML text."""
    return _FRAME.read_text(encoding="utf-8")


def load_rubric(name: str) -> Rubric:
    """Load a built-in rubric by name, a `.toml` file by its path, or make one from a sentence."""
    if name.endswith(".toml"):
        return _read_rubric(Path(name), name)
    built_in = list_built_in_rubrics()
    if name in built_in:
        return _read_rubric(_BUILT_IN / f"{name}.toml", name)
    near = suggest(name, built_in)
    is_sentence = len(name.split()) > 1 or name.strip().endswith("?")
    if is_sentence and near is None:
        return make_criteria_rubric(name)
    meant = f"did you mean {near!r}? " if near else ""
    raise ScorerError(
        f"there is no rubric {name!r}",
        hint=f"{meant}The rubrics are {', '.join(built_in)}, or the path of a .toml file of your "
        "own, or a question of several words",
    )


def make_criteria_rubric(criteria: str) -> Rubric:
    """Make a rubric from criteria in one line: met, partly met or not met."""
    return msgspec.structs.replace(_read_rubric(_CRITERIA, "criteria"), criteria=criteria)


def _read_rubric(path: Path, name: str) -> Rubric:
    try:
        text = read_source(path).text
        given = read_value(RUBRIC, tomllib.loads(text), name)
    except tomllib.TOMLDecodeError as error:
        raise ScorerError(f"{name}: the rubric is not TOML: {error}") from None
    except InvalidInput as error:
        raise ScorerError(error.problems) from None
    return Rubric(**given | {"choices": _make_choices(given["choices"], {}, name)})


def replace_choices(rubric: Rubric, choices: dict[str, Any], where: str) -> Rubric:
    """The rubric with other labels or numbers; a label of the rubric has the same meaning as
    before.
    """
    try:
        given = read_value(_CHOICES, choices, f"{where}: choices")
    except InvalidInput as error:
        raise ScorerError(error.problems) from None
    return msgspec.structs.replace(rubric, choices=_make_choices(given, rubric.choices, where))


def _make_choices(given: dict[str, Any], known: dict[str, Choice], where: str) -> dict[str, Choice]:
    """The choices; labels that a verdict could not distinguish are refused."""
    made = {}
    for label, each in given.items():
        full = each if isinstance(each, dict) else {"value": each}
        means = known[label].means if label in known and each is not full else ""
        made[label] = Choice(float(full["value"]), full.get("means", means))
    # Case is ignored in a judge's answer, so labels that differ only in case would be one.
    folded = {label.strip().casefold() for label in made}
    if len(made) < 2 or len(folded) < len(made) or "" in folded:
        raise ScorerError(f"{where}: a rubric needs at least two choices, each with its own name")
    return made


_CHOICES = MapShape(
    record_or_short(
        "value",
        "a mapping with 'value'",
        {
            "value": Key(NumberShape(low=0, high=1), "The score that it gives.", required=True),
            "means": Key(TextShape(may_be_empty=True), "When a judge should choose it."),
        },
    )
)
RUBRIC = RecordShape(
    "a rubric with 'question' and 'choices'",
    {
        "description": Key(TextShape(), "What it asks, in one line.", required=True),
        "question": Key(TextShape(), "What the judge is asked.", required=True),
        "shows": Key(
            ListShape(ChoiceShape(get_args(ShownPart)), 1),
            "What the judge is shown of a trace.",
            required=True,
        ),
        "choices": Key(_CHOICES, "The labels, each with its number from 0 to 1.", required=True),
        "criteria": Key(TextShape(may_be_empty=True), "Shown in place of an expected answer."),
    },
)

_LONGEST = 20_000
"""Longest part of an answer that is read, from its end, which has the verdict."""
_THOUGHT = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_CHOICE = re.compile(r"\bchoice\b[\"'*_`]*\s*[:=]\s*([^\n,}]+)", re.IGNORECASE)
_BEGINNING = re.compile(r"\{\s*[\"'](?:reasoning|choice)[\"']\s*:", re.IGNORECASE)
_AROUND = " \t\r\n\"'`*_.,:;!()[]{}<>"


class Verdict(msgspec.Struct, frozen=True):
    """The judge's choice with its reasoning."""

    label: str
    reasoning: str = ""


def read_verdict(text: str, labels: Iterable[str]) -> Verdict | None:
    """The last choice in an answer; None when there is none, or its label is not known.

    Only the last one counts: a judge may quote what it judges before it decides. A verdict that is
    no JSON may hold a choice that it quotes, unescaped: then only one that stands alone counts.
    """
    known = {_fold_label(label): label for label in labels}
    # Thoughts are cut out first: a model considers choices in them that it then rejects.
    answer = _THOUGHT.sub("", text)[-_LONGEST:]
    found = list(_find_objects(answer))
    objects = [each for each in found if isinstance(each, dict) and "choice" in each]
    matches = list(_CHOICE.finditer(answer))
    if any(isinstance(each, int) and _BEGINNING.match(answer, each) for each in found):
        choices = {_fold_label(each[1]) for each in matches}
        if objects or len(choices) != 1:
            return None
    if objects:
        label = known.get(_fold_label(str(objects[-1]["choice"])))
        reasoning = str(objects[-1].get("reasoning", ""))
    elif matches:
        label = known.get(_fold_label(matches[-1][1]))
        reasoning = answer[: matches[-1].start()].strip(_AROUND)
    else:
        label, reasoning = known.get(_fold_label(answer)), ""
    return None if label is None else Verdict(label, reasoning.strip())


def _fold_label(label: str) -> str:
    return label.strip(_AROUND).casefold()


def _find_objects(text: str) -> Iterator[dict[str, Any] | int]:
    """The JSON objects that stand in a text, keys in lower case; where one is broken, its place."""
    decoder = json.JSONDecoder(strict=False)  # models leave line ends in their strings
    at = text.find("{")
    while at >= 0:
        try:
            found, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            yield at
            at += 1
        else:
            yield {key.lower(): value for key, value in found.items()}
        at = text.find("{", at)

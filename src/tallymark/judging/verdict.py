"""Reading a judge's answer, which is JSON if all goes well and often only nearly so."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LONGEST = 20_000
"""Characters of an answer that are read, from its end, where the verdict stands."""
_THOUGHT = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_CHOICE = re.compile(r"\bchoice\b[\"'*_`]*\s*[:=]\s*([^\n,}]+)", re.IGNORECASE)
_BEGINNING = re.compile(r"\{\s*[\"'](?:reasoning|choice)[\"']\s*:", re.IGNORECASE)
_AROUND = " \t\r\n\"'`*_.,:;!()[]{}<>"


class Verdict(msgspec.Struct, frozen=True):
    """What the judge chose, and why."""

    label: str
    reasoning: str = ""


def read_verdict(text: str, labels: Iterable[str]) -> Verdict | None:
    """The last choice in an answer; None when there is none, or its label is not known.

    Only the last one counts: a judge may quote what it judges before it decides. A verdict that is
    no JSON may hold a choice that it quotes, unescaped: then only one that stands alone counts.
    """
    known = {_fold_label(label): label for label in labels}
    # Thoughts are cut out first: a model considers choices in them that it then rejects.
    said = _THOUGHT.sub("", text)[-_LONGEST:]
    found = list(_find_objects(said))
    objects = [each for each in found if isinstance(each, dict) and "choice" in each]
    matches = list(_CHOICE.finditer(said))
    if any(isinstance(each, int) and _BEGINNING.match(said, each) for each in found):
        choices = {_fold_label(each[1]) for each in matches}
        if objects or len(choices) != 1:
            return None
    if objects:
        label = known.get(_fold_label(str(objects[-1]["choice"])))
        reasoning = str(objects[-1].get("reasoning", ""))
    elif matches:
        label = known.get(_fold_label(matches[-1][1]))
        reasoning = said[: matches[-1].start()].strip(_AROUND)
    else:
        label, reasoning = known.get(_fold_label(said)), ""
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

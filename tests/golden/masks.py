"""What no two runs have in common is masked, and nothing else: the whole list is here.

An id or a hash becomes `<run-1>`, `<run-2>` in the order in which a story shows them, so which one
is meant is still compared, and a later step of the story can say `show <run-1>`. Times need no
mask: a story has a clock of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial


@dataclass(frozen=True)
class Mask:
    """`pattern`'s group `it` is replaced; `numbered` tells one value from another."""

    label: str
    pattern: re.Pattern[str]
    why: str
    numbered: bool = True


def _mask(label: str, pattern: str, why: str, *, numbered: bool = True) -> Mask:
    return Mask(label, re.compile(pattern), why, numbered)


MASKS = (
    # The letters after the first are the time, which in January 2026 begins with `mn`.
    _mask("run", r"\b(?P<it>rmn[0-9a-z]{8})\b", "the end of a run's id is drawn"),
    _mask("group", r"\b(?P<it>gmn[0-9a-z]{8})\b", "so is that of runs that began together"),
    _mask("hash", r"\b(?P<it>[0-9a-f]{64})\b", "of code or of a definition: it follows every edit"),
    _mask(
        "code", r'"version": "(?P<it>[0-9a-f]{12})"', "the same, shortened, of the scorer's code"
    ),
    _mask("seed", r'"seed": (?P<it>\d{7,})\b', "what an attempt's data are made from is drawn"),
    _mask("version", r'(?:"tallymark": "|^tally(?:mark)? )(?P<it>\d+\.\d+\.\d+\w*)', "it grows"),
)


@dataclass
class Masker:
    """The masks of one story. `places` are folders, longest first, with what is shown instead."""

    places: dict[str, str]
    known: dict[str, str] = field(default_factory=dict)

    def mask(self, text: str) -> str:
        """As it is compared."""
        for path, shown in self.places.items():
            text = text.replace(path, shown)
        for each in MASKS:
            text = each.pattern.sub(partial(self._replaced, each), text)
        return text

    def unmask(self, word: str) -> str:
        """A word of a command, with ids in place of their labels."""
        for shown in re.findall(r"<[a-z]+-\d+>", word):
            word = word.replace(shown, self.known[shown])
        for path, shown in self.places.items():
            word = word.replace(shown, path)
        return word

    def _replaced(self, mask: Mask, found: re.Match[str]) -> str:
        value = found["it"]
        start, end = (at - found.start() for at in found.span("it"))
        shown = self._label(mask, value) if mask.numbered else f"<{mask.label}>"
        return found[0][:start] + shown + found[0][end:]

    def _label(self, mask: Mask, value: str) -> str:
        for shown, other in self.known.items():
            if other == value:
                return shown
        ours = sum(shown.startswith(f"<{mask.label}-") for shown in self.known)
        shown = f"<{mask.label}-{ours + 1}>"
        self.known[shown] = value
        return shown

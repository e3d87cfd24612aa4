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
    """The group of `pattern` that matched is replaced; `numbered` tells one value from another."""

    label: str
    pattern: re.Pattern[str]
    why: str
    numbered: bool = True


def _mask(label: str, pattern: str, why: str, *, numbered: bool = True) -> Mask:
    return Mask(label, re.compile(pattern, re.MULTILINE), why, numbered)


MASKS = (
    # The letters after the first are the time, which in January 2026 begins with `mn`.
    _mask("run", r"\b(rmn[0-9a-z]{8})\b", "the end of a run's id is drawn"),
    _mask("group", r"\b(gmn[0-9a-z]{8})\b", "so is that of runs that began together"),
    _mask("seed", r'"seed": (\d{7,})\b', "what an attempt's data are made from is drawn"),
    # Hashes of suites and of challenges' folders stand as they are: they say what is alike.
    _mask(
        "code",
        r'"version": ?"([0-9a-f]{12})"|"scorer": "[^"]*",\s+"version": "([0-9a-f]{64})"'
        r'|^code     ([0-9a-f]{64})$|"code_hash": "([0-9a-f]{64})"',
        "a hash of our own code follows every edit",
    ),
    _mask(
        "version",
        r'(?:"tallymark": "|"python": "|"kernel": "|^tally )([^" ,\n]+)',
        "of Tallymark and of the machine",
        numbered=False,
    ),
    _mask(
        "unpacked",
        r"(/\S*/tally-challenge-\w+)",
        "a published challenge is unpacked to a folder whose name is drawn",
        numbered=False,
    ),
    _mask(
        "ms",
        r'"(?:median_ms|worst_ms|ms)": ([\d.]+)|^time     ([\d.]+ ms .* ms at worst)',
        "how long a plugin takes here",
        numbered=False,
    ),
)
MEASURED = (
    _mask(
        "s",
        r'"(?:\w+[_-])*(?:latency|duration_ms)": ?([\d.e-]+)|( *\b\d+(?:\.\d+)? m?s)\b',
        "how long an agent takes that is really asked, in the stories that say so",
        numbered=False,
    ),
)


@dataclass
class Masker:
    """The masks of one story. `places` are folders, longest first, with what is shown instead."""

    places: dict[str, str]
    masks: tuple[Mask, ...] = MASKS
    known: dict[str, str] = field(default_factory=dict)

    def mask(self, text: str) -> str:
        """As it is compared."""
        for path, shown in self.places.items():
            text = text.replace(path, shown)
        for each in self.masks:
            text = each.pattern.sub(partial(self._replaced, each), text)
        return text

    def unmask(self, text: str) -> str:
        """A word of a command, or a file of a story, with what stands behind labels."""
        for shown, value in self.known.items():
            text = text.replace(shown, value)
        for path, shown in self.places.items():
            text = text.replace(shown, path)
        return text

    def _replaced(self, mask: Mask, found: re.Match[str]) -> str:
        assert found.lastindex is not None
        shown = self._label(mask, found[found.lastindex]) if mask.numbered else f"<{mask.label}>"
        start, end = (at - found.start() for at in found.span(found.lastindex))
        return found[0][:start] + shown + found[0][end:]

    def _label(self, mask: Mask, value: str) -> str:
        for shown, other in self.known.items():
            if other == value:
                return shown
        ours = sum(shown.startswith(f"<{mask.label}-") for shown in self.known)
        shown = f"<{mask.label}-{ours + 1}>"
        self.known[shown] = value
        return shown

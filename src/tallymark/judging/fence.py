"""Fences around what others wrote, so that a judge can tell it from what it is told.

A fence's mark is a hash of all that stands inside, so no text can hold it, and the same texts are
always fenced in the same words: what a judge said of them can be replayed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping

import msgspec

_DIGITS = 16


class FencedText(msgspec.Struct, frozen=True):
    """Texts of others, each between its fences, and the mark that only their fences have."""

    text: str
    mark: str

    def cut_from(self, answer: str) -> str:
        """What a judge said itself: all that it repeats from inside the fences is left out.

        A fence that it did not close holds everything to the end, and one that it did not open
        everything before: rather no verdict than one that the evidence wrote.
        """
        fence = rf"[^\n]{{1,40}} {self.mark}"
        own = re.sub(rf"<<<{fence}.*?(?:>>>{fence}|\Z)", "", answer, flags=re.DOTALL)
        return re.split(rf">>>{fence}", own)[-1]


def fence(parts: Mapping[str, str], *known: str) -> FencedText:
    """Each part between lines with its title; `known` are texts that the mark depends on too."""
    clean = {title: _clean(text) for title, text in parts.items()}
    mark = _choose_mark("\0".join((*map(_clean, known), *clean.values())))
    fenced = (
        f"<<< {title} {mark}\n{text or '(empty)'}\n>>> {title} {mark}"
        for title, text in clean.items()
    )
    return FencedText("\n\n".join(fenced), mark)


def _choose_mark(texts: str) -> str:
    """It takes 2**64 tries to write a text that holds its own hash; even then, it is not taken."""
    mark = _hash(texts)
    while mark in texts.casefold():
        mark = _hash(mark)
    return mark


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _clean(text: str) -> str:
    """Half a surrogate pair cannot be sent, nor hashed."""
    return text.encode("utf-8", "replace").decode()

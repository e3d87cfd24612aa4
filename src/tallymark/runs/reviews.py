"""Reviews: people's own scores of cases, and their comments."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

import msgspec

from tallymark.errors import InvalidInput
from tallymark.text import clean_line, format_number

VERDICT = "verdict"
"""Name of the score for the case as a whole."""
COMMENT = "comment"
"""Name of a review without a score."""
PASS, FAIL = "pass", "fail"
HALF = 0.5
"""Smallest value that counts as a pass."""
LONGEST_COMMENT = 10_000
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. -]{0,59}")
_LONGEST_LABEL = 60


class CaseKey(NamedTuple):
    """A case of a run in one epoch."""

    run: str
    case: str
    epoch: int = 0


class GivenScore(msgspec.Struct, frozen=True, kw_only=True):
    """A value from 0 to 1, a label, a comment, or several of them."""

    name: str = VERDICT
    value: float | None = None
    label: str | None = None
    comment: str = ""

    def check(self) -> GivenScore:
        """Return it tidied; refuse one that is empty or cannot be read later."""
        name, label = self.name.strip(), (self.label or "").strip() or None
        if not _NAME.fullmatch(name):
            hint = "letters, digits, spaces, '_', '-' and '.', at most 60"
            raise InvalidInput(f"{clean_line(name, 60)!r} cannot name a score", hint=hint)
        if self.value is not None and not (math.isfinite(self.value) and 0 <= self.value <= 1):
            raise InvalidInput(
                f"a score is from 0 to 1, not {format_number(self.value)}", hint="0.5 is half"
            )
        if label is not None and (len(label) > _LONGEST_LABEL or not label.isprintable()):
            raise InvalidInput(f"a label is a word or a few, at most {_LONGEST_LABEL} characters")
        if len(self.comment) > LONGEST_COMMENT:
            raise InvalidInput(f"a comment has at most {LONGEST_COMMENT:,} characters")
        scored = self.value is not None or label is not None
        if not scored and not self.comment.strip():
            raise InvalidInput("the review is empty", hint="give a value, a label or a comment")
        if name == COMMENT and scored:
            raise InvalidInput(f"{COMMENT!r} is words alone", hint="name the score otherwise")
        if label is not None and self.value is None:
            value = {PASS: 1.0, FAIL: 0.0}.get(label.lower())
        else:
            value = self.value
        return GivenScore(
            name=name if scored else COMMENT, value=value, label=label, comment=self.comment.strip()
        )


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """A person's score of a case, or their comment on it."""

    id: str
    run: str
    case: str
    epoch: int
    name: str
    author: str
    value: float | None
    label: str | None
    comment: str
    created_at: float
    changed_at: float
    is_new: bool | msgspec.UnsetType = msgspec.UNSET
    """In the answer to a score that was given: whether it replaced none."""

    @property
    def key(self) -> CaseKey:
        """The case that it is about."""
        return CaseKey(self.run, self.case, self.epoch)

    @property
    def says(self) -> str | None:
        """Its verdict in a word: the label, or on which side of the middle its value is."""
        if self.label is not None:
            return self.label.lower()
        if self.value is None:
            return None
        return PASS if self.value >= HALF else FAIL

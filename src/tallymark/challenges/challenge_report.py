"""`ChallengeReport`: findings of a check, as data."""

from __future__ import annotations

from typing import Literal

import msgspec

Level = Literal["ok", "warning", "problem"]


class CheckFinding(msgspec.Struct, frozen=True):
    """One thing that was looked at."""

    level: Level
    what: str
    """Subject of the check: file, formula, reference, empty answers, limits, secrecy..."""
    detail: str


class ChallengeReport(msgspec.Struct, frozen=True, kw_only=True):
    """It is `ok` when there is no problem; warnings do not fail a check."""

    folder: str
    challenge: str | None = None
    """None when the challenge could not even be read."""
    version: str | None = None
    ok: bool
    findings: tuple[CheckFinding, ...]

    @property
    def problems(self) -> tuple[CheckFinding, ...]:
        """Findings that keep it from being published."""
        return tuple(each for each in self.findings if each.level == "problem")

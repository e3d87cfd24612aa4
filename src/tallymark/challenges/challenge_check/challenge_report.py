"""`ChallengeReport`: what a check found, as data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

Level = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """One thing that was looked at."""

    level: Level
    what: str
    """What was looked at: file, formula, reference, empty answers, limits, secrecy..."""
    detail: str


@dataclass(frozen=True, slots=True)
class ChallengeReport:
    """It is `ok` when there is no problem; warnings do not fail a check."""

    folder: str
    name: str | None
    """None when the challenge could not even be read."""
    version: str | None
    findings: tuple[CheckFinding, ...]

    @property
    def ok(self) -> bool:
        """True when the challenge can be published."""
        return not self.problems

    @property
    def problems(self) -> tuple[CheckFinding, ...]:
        """What must be mended."""
        return tuple(each for each in self.findings if each.level == "problem")

    def to_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "folder": self.folder,
            "challenge": self.name,
            "version": self.version,
            "ok": self.ok,
            "findings": [asdict(each) for each in self.findings],
        }

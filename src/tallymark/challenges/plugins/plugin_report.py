"""`PluginReport`: what a check found, for a person and for `--json`."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from typing import Any

from tallymark.scoring import Score
from tallymark.scoring.score import make_json_safe
from tallymark.text import StyledLine, Table, format_digits, format_number, format_seconds


def twin_name(name: str) -> str:
    """Suffix of a failed sample."""
    return f"{name}, failed"


@dataclass
class PluginTrial:
    """One sample attempt and how it was scored, and how when it was scored again."""

    name: str
    metrics: dict[str, Any]
    score: Score
    seconds: float
    again: Score | None = None

    @property
    def timed_out(self) -> bool:
        """True when scoring it had to be stopped."""
        return self.score.metadata.get("stopped") == "timeout"

    @property
    def clamped(self) -> bool:
        """True when the plugin gave less than 0."""
        return "clamped_from" in self.score.metadata

    def to_dict(self) -> dict[str, Any]:
        """For `--json`."""
        score = self.score
        return {
            "attempt": self.name,
            "metrics": make_json_safe(self.metrics),
            "score": score.value,
            "score_error": score.error,
            "details": make_json_safe(score.metadata.get("details")),
            "clamped_from": score.metadata.get("clamped_from"),
            "ms": round(self.seconds * 1000, 3),
        }


@dataclass(frozen=True, kw_only=True)
class PluginReport:
    """It is `ok` when there are no problems; warnings do not fail a check."""

    name: str
    code_hash: str
    config: dict[str, Any]
    timeout_s: float
    trials: list[PluginTrial]
    problems: list[str]
    warnings: list[str]

    @property
    def ok(self) -> bool:
        """True when a leaderboard can rest on this plugin."""
        return not self.problems

    @property
    def median_ms(self) -> float:
        """Seconds of a typical call, including the sandbox."""
        return statistics.median(trial.seconds for trial in self.trials) * 1000

    @property
    def worst_ms(self) -> float:
        """Seconds of the slowest call."""
        return max(trial.seconds for trial in self.trials) * 1000

    def to_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "plugin": self.name,
            "code_hash": self.code_hash,
            "config": make_json_safe(self.config),
            "ok": self.ok,
            "problems": self.problems,
            "warnings": self.warnings,
            "timeout_s": self.timeout_s,
            "median_ms": round(self.median_ms, 3),
            "worst_ms": round(self.worst_ms, 3),
            "attempts": [trial.to_dict() for trial in self.trials],
        }

    def parts(self) -> list[str | StyledLine | Table]:
        """For a person: the scores in a table, then what is wrong, then the verdict."""
        lines: list[str | StyledLine | Table] = [self.name, f"code     {self.code_hash}"]
        if self.config:
            lines.append(f"config   {json.dumps(make_json_safe(self.config), ensure_ascii=False)}")
        lines += ["", self._make_table(), "", f"time     {self._describe_time()}"]
        lines += [StyledLine(f"warning  {each}", "yellow") for each in self.warnings]
        lines += [StyledLine(f"problem  {each}", "red") for each in self.problems]
        said = "this plugin passes the check" if self.ok else "this plugin does not pass the check"
        return [*lines, "", said]

    def _make_table(self) -> Table:
        """An attempt that succeeded and its twin that failed share a line."""
        by_name = {trial.name: trial for trial in self.trials}
        heads = ("attempt", "score", "if it failed")
        rows = []
        twins = {twin_name(name) for name in by_name}
        for name, trial in by_name.items():
            if name not in twins:
                twin = by_name.get(twin_name(name))
                rows.append((name, _format_trial(trial), _format_trial(twin)))
        return Table(heads, rows, right=heads[1:])

    def _describe_time(self) -> str:
        median, worst = (format_seconds(ms / 1000) for ms in (self.median_ms, self.worst_ms))
        limit = format_number(self.timeout_s)
        return f"{median} a call at the median, {worst} at worst; the timeout is {limit} s"


def _format_trial(trial: PluginTrial | None) -> str:
    return "" if trial is None else format_score(trial.score.value)


def format_score(value: float | None) -> str:
    """A score for a table, with six digits."""
    return "no score" if value is None else format_digits(value)

"""Tracks: several challenges as one contest, their best scores combined by a rule.

An agent on any board of the track is on the track's board. `missing` decides the value of a
challenge without a score: `zero` counts it as 0, `skip` leaves it out, and `last` leaves the agent
without a value, behind all others. Ties go to the agent that was complete earlier, then by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import msgspec

from tallymark.challenges.strategies import Standing
from tallymark.documents import yaml_parser
from tallymark.documents.reader import Reader, open_document
from tallymark.documents.shapes import ChoiceShape, Key, ListShape, RecordShape, TextShape
from tallymark.documents.source import Source
from tallymark.errors import FormulaError

if TYPE_CHECKING:
    from tallymark.formula import Formula

Missing = Literal["skip", "zero", "last"]
_COMBINE: dict[str, Callable[[Sequence[float]], float]] = {
    "sum": math.fsum,
    "mean": lambda scores: math.fsum(scores) / len(scores),
    "min": min,
}


class Track(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Several challenges and how their scores are combined."""

    name: str
    title: str
    challenges: tuple[str, ...]
    combine: str = "sum"
    """sum, mean, min, or a formula over the challenges' names."""
    missing: Missing | None = None
    """None: zero for sum and mean, last for min and a formula."""

    @property
    def rule(self) -> Missing:
        """Value of a challenge without a score."""
        return self.missing or ("zero" if self.combine in ("sum", "mean") else "last")

    @cached_property
    def formula(self) -> Formula | None:
        """The formula, where that is what combines."""
        from tallymark.formula import Formula  # noqa: PLC0415 (few tracks have one)

        if self.combine in _COMBINE:
            return None
        return Formula.parse(self.combine, names=self.challenges)


class TrackStanding(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a track's board."""

    rank: int
    agent: str
    value: float | None
    """The combined score; None ranks last."""
    scores: dict[str, float | None]
    """The best score at every challenge of the track, None where there is none."""
    completed_at: float
    """When the last of the scores was submitted."""
    error: str | None = None
    """Why there is no value."""


def track_standings(track: Track, boards: Mapping[str, Iterable[Standing]]) -> list[TrackStanding]:
    """The board of a track, from the boards of its challenges; others are not looked at."""
    scores: dict[str, dict[str, float | None]] = {}
    times: dict[str, float] = {}
    for challenge in track.challenges:
        for each in boards.get(challenge, ()):
            own = scores.setdefault(each.agent, dict.fromkeys(track.challenges))
            own[challenge] = each.score
            times[each.agent] = max(each.submitted_at, times.get(each.agent, each.submitted_at))
    lines = [
        _make_line(track, agent, own, completed_at=times[agent]) for agent, own in scores.items()
    ]
    lines.sort(key=_track_order)
    return [msgspec.structs.replace(line, rank=at) for at, line in enumerate(lines, start=1)]


def load_track(path: Path | str) -> Track:
    """The track in a YAML file; InvalidInput carries every mistake with its place."""
    return read_track(Path(path))


def read_track(given: Path | Source) -> Track:
    """Read a track from text without a file."""
    reader = open_document(given, "track")
    values = TRACK.read(reader.root, reader)
    reader.check()
    track = msgspec.convert({"title": values["name"]} | values, Track)
    try:
        _ = track.formula
    except FormulaError as error:
        hint = f"write {', '.join(_COMBINE)} or a formula"
        reader.report_within(error, "combine", hint=hint)
    reader.check()
    return track


def _make_line(
    track: Track, agent: str, scores: dict[str, float | None], *, completed_at: float
) -> TrackStanding:
    value, error = _combine_scores(track, scores)
    return TrackStanding(
        rank=0, agent=agent, value=value, scores=scores, completed_at=completed_at, error=error
    )


def _combine_scores(
    track: Track, scores: Mapping[str, float | None]
) -> tuple[float | None, str | None]:
    """The value of an agent, or why it has none."""
    if track.rule == "zero":
        scores = {name: score or 0.0 for name, score in scores.items()}
    if track.formula is not None:
        return track.formula.evaluate(scores), track.formula.reason(scores)
    known = [score for score in scores.values() if score is not None]
    if len(known) < len(scores) and (track.rule == "last" or not known):
        lacking = [name for name, score in scores.items() if score is None]
        return None, f"there is no score at {', '.join(lacking)}"
    try:
        value = _COMBINE[track.combine](known)
    except OverflowError:
        return None, "the scores are too large to be combined"
    return value, None


def _track_order(line: TrackStanding) -> tuple[bool, float, float, str]:
    return (line.value is None, -(line.value or 0.0), line.completed_at, line.agent)


def _check_track(node: yaml_parser.MappingNode, reader: Reader) -> None:
    """Every challenge counts once, and a formula has nothing to skip."""
    listed, missing = node.get("challenges"), node.get("missing")
    seen: set[str] = set()
    for item in listed.items if isinstance(listed, yaml_parser.SequenceNode) else []:
        if isinstance(item, yaml_parser.ScalarNode):
            if item.text in seen:
                reader.wrong(item, f"challenges: '{item.text}' is here twice", "delete one of them")
            seen.add(item.text)
    combine = node.get("combine")
    formula = isinstance(combine, yaml_parser.ScalarNode) and combine.text not in _COMBINE
    if formula and isinstance(missing, yaml_parser.ScalarNode) and missing.text == "skip":
        hint = "write zero or last, or combine by sum, mean or min"
        reader.wrong(missing, "missing: a formula cannot skip a challenge", hint)


TRACK = RecordShape(
    "a mapping with 'name' and 'challenges'",
    {
        "name": Key(TextShape(), "What commands call it.", required=True),
        "title": Key(TextShape(), "What pages call it; its name."),
        "challenges": Key(
            ListShape(TextShape("a challenge's name"), 1),
            "Names of published challenges, each once.",
            required=True,
        ),
        "combine": Key(
            TextShape("sum, mean, min or a formula"),
            "How scores are combined; sum. A formula is over the challenges' names.",
        ),
        "missing": Key(
            ChoiceShape(get_args(Missing)),
            "What no score counts for: zero (for sum and mean, unless set), skip (it is left out; "
            "not with a formula), or last (the agent has no value, and ranks behind all with one).",
        ),
    },
    _check_track,
)

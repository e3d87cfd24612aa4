"""One track: who leads over several challenges, and by what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.challenges.strategies import STRATEGIES
from tallymark.service.ratings import find_track_board
from tallymark.web.board_rows import write_values
from tallymark.web.page import Page
from tallymark.web.pages.challenges import ChallengeState, find_state
from tallymark.web.pages.tracks import HOW
from tallymark.web.view import Pager, View
from tallymark.web.visit import Visit

if TYPE_CHECKING:
    from tallymark.challenges.tracks import Track, TrackStanding

_AROUND = 3
_MISSING = {
    "zero": "No score at a challenge counts as 0.",
    "skip": "A challenge without a score is left out.",
    "last": "Who has no score at one of them has no value, and stands last.",
}


class TrackChallenge(msgspec.Struct, frozen=True, kw_only=True):
    """A challenge of a track."""

    name: str
    title: str
    state: ChallengeState


class TrackRow(msgspec.Struct, frozen=True, kw_only=True):
    """A place in a track."""

    rank: int
    agent: str
    name: str
    value: float | None
    shown: str
    """The value as people read it."""
    scores: dict[str, float | None]
    parts: list[str]
    """The best score at each challenge, as people read it; empty where there is none."""
    share: float
    """Of the best value of the track, for a bar."""
    completed_at: float
    error: str | None
    """Why there is no value."""
    me: bool


class TrackView(View, frozen=True, kw_only=True):
    """A track with a page of its board."""

    name: str
    how: str
    """What its value is, in words; empty where that is a formula."""
    combine: str
    missing: str
    """What no score counts for."""
    challenges: list[TrackChallenge]
    frozen: list[str]
    """Titles of its challenges whose public boards stand still."""
    live: bool
    """Whether this is what the public does not see."""
    agents: int
    rows: list[TrackRow]
    pager: Pager
    me: str | None
    """Whose place is on another page."""
    around: list[TrackRow]

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each place, with a column for each challenge."""
        for row in self.rows:
            flat = msgspec.structs.asdict(row)
            del flat["parts"], flat["share"], flat["me"]
            yield flat | {f"scores.{name}": score for name, score in flat.pop("scores").items()}


def gather(visit: Visit) -> TrackView:
    """The track that the address names."""
    track = visit.find_track(visit.params["track"])
    kept = [visit.find_challenge(name) for name in track.challenges]
    lines = find_track_board(visit.services, visit.caller, track, public=visit.public)
    pager = visit.read_pager(len(lines))
    shown = lines[pager.offset : pager.offset + pager.limit]
    me = visit.get("around") or visit.visitor.agent
    elsewhere = me is not None and all(each.agent != me for each in shown)
    around = _cut_around(lines, me) if me and elsewhere else []
    frozen = [each.challenge.title for each in kept if each.is_frozen(visit.now)]
    most = max((each.value for each in lines if each.value is not None), default=0.0)
    return TrackView(
        title=track.title,
        name=track.name,
        how=HOW.get(track.combine, ""),
        combine=track.combine,
        missing=_MISSING[track.rule],
        challenges=[
            TrackChallenge(
                name=each.challenge.name,
                title=each.challenge.title,
                state=find_state(each, visit.now),
            )
            for each in kept
        ],
        frozen=frozen,
        live=bool(frozen) and not visit.public,
        agents=len(lines),
        rows=_list_rows(visit, track, shown, most),
        pager=pager,
        me=me if around else None,
        around=_list_rows(visit, track, around, most),
    )


def _cut_around(lines: Sequence[TrackStanding], agent: str) -> Sequence[TrackStanding]:
    at = next((place for place, each in enumerate(lines) if each.agent == agent), None)
    return [] if at is None else lines[max(0, at - _AROUND) : at + _AROUND + 1]


def _list_rows(
    visit: Visit, track: Track, lines: Sequence[TrackStanding], most: float
) -> list[TrackRow]:
    """Places with all that a row shows; `most` is the best value of the track."""
    names = visit.app.store.agents.names(each.agent for each in lines)
    values = _write_column([each.value for each in lines])
    columns = [_write_column([each.scores[name] for each in lines]) for name in track.challenges]
    return [
        TrackRow(
            rank=each.rank,
            agent=each.agent,
            name=names.get(each.agent, each.agent),
            value=each.value,
            shown=values[place],
            scores=each.scores,
            parts=[column[place] for column in columns],
            share=max(0.0, (each.value or 0.0) / most) if most > 0 else 0.0,
            completed_at=each.completed_at,
            error=each.error,
            me=each.agent in (visit.visitor.agent, visit.get("around")),
        )
        for place, each in enumerate(lines)
    ]


def _write_column(values: Sequence[float | None]) -> list[str]:
    """So that digits line up; nothing where there is no score."""
    written = write_values(STRATEGIES["custom"], values)
    return ["" if value is None else shown for value, shown in zip(values, written, strict=True)]


PAGE = Page("/tracks/{track}", "track.html", gather, {"board": "track_board.html"})

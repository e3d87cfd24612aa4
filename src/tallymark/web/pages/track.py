"""Page of a track: its board over several challenges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tallymark.challenges.strategies import STRATEGIES
from tallymark.challenges.tracks import TrackStanding
from tallymark.service.challenges import Challenge
from tallymark.service.cursors import write_cursor
from tallymark.service.tracks import TrackBoard
from tallymark.web.board_rows import write_values
from tallymark.web.page import Page, Pager, View
from tallymark.web.page_request import PageRequest

_MISSING = {
    "zero": "A missing score counts as 0.",
    "skip": "A challenge without a score is left out.",
    "last": "An agent without a score at one of them has no value and comes last.",
}


class TrackRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a track's board."""

    standing: TrackStanding
    name: str
    shown: str
    parts: list[str]
    """Best score at each challenge; empty if there is none."""
    share: float
    """Share of the best value, for a bar."""
    me: bool

    @property
    def agent(self) -> str:
        return self.standing.agent


class TrackView(View, frozen=True, kw_only=True):
    """A track with a page of its board."""

    board: TrackBoard
    around: list[TrackStanding]
    """The places around `me`, if they are on another page."""
    best: float
    """Best value of the track."""
    challenges: list[Challenge]
    live: bool
    """True if this shows what the public does not see."""
    pager: Pager
    me: str | None

    @property
    def missing(self) -> str:
        return _MISSING[self.board.track.rule]

    @property
    def frozen(self) -> list[str]:
        """Titles of challenges with frozen boards."""
        return [each.title for each in self.challenges if each.frozen]

    def make_rows(self, standings: Sequence[TrackStanding]) -> list[TrackRow]:
        """Make rows with aligned digits."""
        values = _write_column([each.value for each in standings])
        names = [each.name for each in self.challenges]
        columns = [_write_column([each.scores[name] for each in standings]) for name in names]
        return [
            TrackRow(
                standing=each,
                name=self.board.names.get(each.agent, each.agent),
                shown=values[place],
                parts=[column[place] for column in columns],
                share=max(0.0, (each.value or 0.0) / self.best) if self.best > 0 else 0.0,
                me=each.agent == self.me,
            )
            for place, each in enumerate(standings)
        ]

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """Return a row for each place, with a column for each challenge."""
        for each in self.board.items:
            flat = msgspec.structs.asdict(each)
            flat["name"] = self.board.names.get(each.agent, each.agent)
            yield flat | {f"scores.{name}": score for name, score in flat.pop("scores").items()}


def gather(request: PageRequest) -> TrackView:
    name, tracks, live = request.params["track"], request.tally.tracks, not request.public
    pager = request.read_pager(0)
    cursor = write_cursor(pager.offset)
    board = tracks.board(name, limit=pager.limit, cursor=cursor, live=live)
    first = tracks.board(name, limit=1, live=live).items if pager.offset else board.items
    me = request.get("around") or request.visitor.agent
    around: list[TrackStanding] = []
    if me and all(each.agent != me for each in board.items):
        near = tracks.board(name, around=me, live=live)
        around = near.items
        board.names |= near.names
    challenges = [request.tally.challenges.get(each) for each in board.track.challenges]
    return TrackView(
        title=board.track.title,
        board=board,
        around=around,
        best=(first[0].value or 0.0) if first else 0.0,
        challenges=challenges,
        live=not request.public and any(each.frozen for each in challenges),
        pager=msgspec.structs.replace(pager, total=board.agents),
        me=me,
    )


def _write_column(values: Sequence[float | None]) -> list[str]:
    """Format a column with aligned digits; empty without a score."""
    written = write_values(STRATEGIES["custom"], values)
    return ["" if value is None else shown for value, shown in zip(values, written, strict=True)]


PAGE = Page("/tracks/{track}", "track.html", gather, {"board": "track_board.html"})

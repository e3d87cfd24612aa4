"""Tracks: contests over several challenges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tallymark.web.page import Page
from tallymark.web.view import View
from tallymark.web.visit import Visit

HOW = {
    "sum": "the sum of the best scores of an agent",
    "mean": "the mean of the best scores of an agent",
    "min": "the lowest of the best scores of an agent",
}
"""What the value of a track is that no formula combines."""


class TrackLine(msgspec.Struct, frozen=True, kw_only=True):
    """A track in a list."""

    name: str
    title: str
    how: str
    """What its value is, in words; empty where that is a formula."""
    combine: str
    challenges: list[tuple[str, str]]
    """Their names, and what pages call them."""


class TracksView(View, frozen=True, kw_only=True):
    """All tracks."""

    tracks: list[TrackLine]

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each track."""
        for each in self.tracks:
            names = " ".join(name for name, _ in each.challenges)
            yield msgspec.structs.asdict(each) | {"challenges": names}


def list_tracks(visit: Visit) -> list[TrackLine]:
    """The tracks that the visitor may know of."""
    titles = {each.challenge.name: each.challenge.title for each in visit.list_challenges()}
    return [
        TrackLine(
            name=each.name,
            title=each.title,
            how=HOW.get(each.combine, ""),
            combine=each.combine,
            challenges=[(name, titles[name]) for name in each.challenges],
        )
        for each in visit.list_tracks()
    ]


def gather(visit: Visit) -> TracksView:
    """All of them, by name."""
    return TracksView(title="Tracks", tracks=list_tracks(visit))


PAGE = Page("/tracks", "tracks.html", gather)

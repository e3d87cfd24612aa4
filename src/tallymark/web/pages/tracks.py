"""Page of all tracks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from tallymark.challenges.tracks import Track
from tallymark.web.page import Page, View
from tallymark.web.page_request import PageRequest


class TracksView(View, frozen=True, kw_only=True):
    """All tracks."""

    tracks: list[Track]
    titles: dict[str, str]
    """Titles of challenges by name."""

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """Return a row for each track."""
        for each in self.tracks:
            yield msgspec.structs.asdict(each) | {"challenges": " ".join(each.challenges)}


def list_titles(request: PageRequest, tracks: Iterable[Track]) -> dict[str, str]:
    """Titles of the challenges of tracks, by name."""
    return request.tally.challenges.find_titles(
        {name for each in tracks for name in each.challenges}
    )


def gather(request: PageRequest) -> TracksView:
    tracks = list(request.tally.tracks.list())
    return TracksView(title="Tracks", tracks=tracks, titles=list_titles(request, tracks))


PAGE = Page("/tracks", "tracks.html", gather)

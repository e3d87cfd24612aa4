"""Tracks, which are contests over several challenges: records and operations."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from tallymark.challenges.tracks import Missing, Track, TrackStanding, read_track, track_standings
from tallymark.documents.source import Source
from tallymark.errors import Conflict, InvalidInput
from tallymark.service.callers import ORGANISERS, PUBLIC
from tallymark.service.cursors import Cursor, Limit, slice_page
from tallymark.service.operations import Page, Resource, operation
from tallymark.service.visibility import (
    Live,
    find_visible_track,
    is_public,
    list_visible_tracks,
    view_challenge,
)

if TYPE_CHECKING:
    from tallymark.store import Store

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Title = Annotated[str, Meta(max_length=500)]
Names = Annotated[list[str], Meta(min_length=1, max_length=200)]
Combine = Annotated[str, Meta(max_length=4096, description="sum, mean, min, or a formula.")]
Around = Annotated[
    str, Meta(max_length=40, description="An agent's handle: return the places around it instead.")
]
Neighbours = Annotated[int, Meta(ge=1, le=500, description="Places on each side of `around`.")]


class TrackBoard(Page[TrackStanding], kw_only=True):
    """The board of a track, best first."""

    track: Track
    agents: int
    frozen: Annotated[list[str], Meta(description="Challenges with frozen boards.")]
    names: Annotated[dict[str, str], Meta(description="Display names by handle.")]


class Tracks(Resource):
    """Contests over several challenges."""

    @operation("POST /tracks", ORGANISERS, rate="write", status=201, noun="track")
    def publish(
        self,
        name: Name,
        challenges: Names,
        title: Title | None = None,
        combine: Combine = "sum",
        missing: Missing | None = None,
    ) -> Track:
        """Publish a track, or replace the one of that name."""
        track = _read_track(name, challenges, title, combine, missing)
        if "/" in track.name or track.name in {".", ".."}:
            hint = "leave / out: its page and its board have the name in their address"
            raise InvalidInput(f"no address can name {track.name!r}", hint=hint)
        for each in track.challenges:
            if self.store.challenges.find(each).challenge.kind == "versus":
                raise Conflict(f"{each} is played red against blue, and has no scores to combine")
        self.store.tracks.put(track, at=self.now)
        return track

    @operation("GET /tracks", PUBLIC)
    def list(self, limit: Limit = 100, cursor: Cursor | None = None) -> Page[Track]:
        """List tracks by name; without a key, those whose challenges are all public."""
        if not self.store.exists:
            return Page(items=[])
        return slice_page(list_visible_tracks(self.services, self.caller), limit, cursor)

    @operation("DELETE /tracks/{name}", ORGANISERS, rate="write", noun="track")
    def remove(self, name: Name) -> Track:
        """Remove a track; its challenges and their boards stay."""
        return self.store.tracks.remove(name, at=self.now)

    @operation("GET /tracks/{name}/leaderboard", PUBLIC)
    def board(
        self,
        name: Name,
        limit: Limit = 100,
        cursor: Cursor | None = None,
        around: Around | None = None,
        each: Neighbours = 3,
        live: Live = None,
    ) -> TrackBoard:
        """Get the board of a track, combined from the boards of its challenges."""
        track = find_visible_track(self.services, self.caller, name)
        return self._make_board(track, limit, cursor, around, each, live)

    @operation(
        "POST /tracks/leaderboard", PUBLIC, query=("limit", "cursor", "around", "each", "live")
    )
    def suppose_board(  # noqa: PLR0913, PLR0917 (a track and a part of its board)
        self,
        name: Name,
        challenges: Names,
        title: Title | None = None,
        combine: Combine = "sum",
        missing: Missing | None = None,
        limit: Limit = 100,
        cursor: Cursor | None = None,
        around: Around | None = None,
        each: Neighbours = 3,
        live: Live = None,
    ) -> TrackBoard:
        """Make the board that a track would have; nothing is stored."""
        track = _read_track(name, challenges, title, combine, missing)
        return self._make_board(track, limit, cursor, around, each, live)

    def _make_board(
        self,
        track: Track,
        limit: int,
        cursor: str | None,
        around: str | None,
        each: int,
        live: bool | None,
    ) -> TrackBoard:
        public = is_public(self.caller, live)
        names = track.challenges
        views = [view_challenge(self.services, self.caller, each, live) for each in names]
        lines = self.services.find_table(
            self.caller,
            ("track", msgspec.json.encode(track), public),
            tuple(each.state for each in views),
            partial(_find_standings, self.store, track, public=public),
        )
        page = slice_page(lines, limit, cursor)
        if around is not None:
            place = next((at for at, line in enumerate(lines) if line.agent == around), None)
            first = 0 if place is None else max(0, place - each)
            page = Page(items=[] if place is None else lines[first : place + each + 1])
        return TrackBoard(
            items=page.items,
            next=page.next,
            track=track,
            agents=len(lines),
            frozen=[each.stored.challenge.name for each in views if each.hides_live],
            names=self.store.agents.names([each.agent for each in page.items]),
        )


def _read_track(
    name: str, challenges: Sequence[str], title: str | None, combine: str, missing: str | None
) -> Track:
    """Make a track of its fields, read as its file would be."""
    given = {"name": name, "title": title, "challenges": challenges}
    given |= {"combine": combine, "missing": missing}
    document = {key: value for key, value in given.items() if value is not None}
    return read_track(Source(msgspec.json.encode(document).decode(), "track"))


def _find_standings(store: Store, track: Track, *, public: bool) -> list[TrackStanding]:
    boards = store.boards
    found = {
        name: boards.top(name, limit=max(1, boards.size(name, as_frozen=public)), as_frozen=public)
        for name in track.challenges
    }
    return track_standings(track, found)

"""Tracks that are kept."""

from __future__ import annotations

import pytest

from tallymark.challenges.tracks import Track
from tallymark.errors import NotFound
from tallymark.store import Store

SPRING = Track(name="spring", title="Spring", challenges=("sums", "logs"))


def test_a_track_is_what_was_published_last(contest: Store) -> None:
    contest.tracks.put(SPRING, at=1.0)
    again = Track(name="spring", title="Spring again", challenges=("sums",), combine="mean")
    contest.tracks.put(again, at=2.0)
    assert contest.tracks.get("spring") == again
    assert contest.tracks.all() == [again]
    events = [each.event for each in contest.audit_log.entries(event="track published")]
    assert events == ["track published"] * 2


def test_a_track_that_is_removed_is_gone_and_the_log_keeps_that_it_was(contest: Store) -> None:
    contest.tracks.put(SPRING, at=1.0)
    assert contest.tracks.remove("spring", at=2.0) == SPRING
    assert contest.tracks.all() == []
    with pytest.raises(NotFound):
        contest.tracks.remove("spring", at=3.0)
    (removed,) = contest.audit_log.entries(event="track removed")
    assert removed.note == {"track": "spring", "challenges": ["sums", "logs"]}


def test_an_unknown_track_suggests_one(contest: Store) -> None:
    contest.tracks.put(SPRING, at=1.0)
    with pytest.raises(NotFound, match="did you mean 'spring'"):
        contest.tracks.get("sprign")


def test_a_track_is_its_tenants(contest: Store) -> None:
    contest.tracks.put(SPRING, at=1.0)
    assert contest.for_tenant("elsewhere").tracks.all() == []
    with pytest.raises(NotFound):
        contest.for_tenant("elsewhere").tracks.remove("spring", at=2.0)
    assert contest.tracks.all() == [SPRING]

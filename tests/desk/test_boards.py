"""Boards of a server, as commands ask for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.http.conftest import Server, publish, run_server

from tallymark.client import Client
from tallymark.desk import boards
from tallymark.desk.boards import RemoteBoards
from tallymark.errors import NotFound


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server with nothing on it."""
    with run_server(str(tmp_path / "tally.db"), workers=0) as running:
        yield running


def test_a_track_of_a_server_is_read_whole_by_its_name_or_from_a_file(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boards, "_MOST_LINES", 2)
    publish(server, name="speed", scoring_formula="rating")
    for place in range(5):
        metrics = {"succeeded": True, "rating": place}
        body = {"agent": f"agent-{place}", "metrics": metrics}
        server.v1("rita", "POST", "/challenges/speed/reports", json=body)
    track = {"name": "cup", "title": "The cup", "challenges": ["speed"], "missing": "last"}
    assert server.v1("alice", "POST", "/tracks", json=track).status_code == 201
    remote = RemoteBoards(Client("http://tally.test", server.keys["bob"], http=server.client))
    found = remote.track("cup", live=False)
    assert (found.track.title, found.track.rule) == ("The cup", "last")
    assert [each.agent for each in found.lines] == [f"agent-{n}" for n in range(4, -1, -1)]
    (tmp_path / "track.yaml").write_text(
        "{name: cup, title: The cup, challenges: [speed], missing: last}"
    )
    assert remote.track(tmp_path / "track.yaml", live=False) == found
    with pytest.raises(NotFound, match="did you mean 'cup'"):
        remote.track("cpu", live=False)

"""Nothing that a competitor wrote acts on the terminal of who looks at it, or forges a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.tally_process import Tally
from tests.store.contest_samples import a_challenge, an_outcome, play

from tallymark.store import open_store

EVIL = "x\x1b[2J\x9b2J\x7f\u202e\r\nRank 1 of 1\x07"
DETAILS: dict[str, Any] = {
    "submission_warnings": [{"severity": "warning", "message": EVIL, "dimension": None}],
    "constraint_violations": [EVIL],
    "harness_warning": EVIL,
    "score_breakdown": {EVIL: {"score": 1, "weight": 1, "weighted": 1}},
    "scorer": {"details": {EVIL: 7}},
}


@pytest.fixture
def tally(tmp_path: Path) -> Tally:
    with open_store(str(tmp_path / ".tally" / "tally.db")) as store:
        store.challenges.publish(a_challenge(), b"files", at=0.0)
        play(store, "alice", an_outcome(details=DETAILS))
        play(store, "bob", an_outcome(None, error=EVIL, ranks=False, result=None))
    return Tally(tmp_path)


def test_what_is_shown_of_an_attempt_is_plain(tally: Tally) -> None:
    for attempt in ("a000000000001", "a000000000002"):
        shown = tally("attempt", "show", attempt).stdout
        assert all(each.isprintable() for each in shown.split("\n"))
        assert "Rank 1 of 1" in shown
        assert not [line for line in shown.split("\n") if line.strip().startswith("Rank")]


def test_json_holds_it_all_and_acts_on_nothing(tally: Tally) -> None:
    said = tally("attempt", "show", "a000000000001", "--json").stdout
    assert all(each.isprintable() for each in said.split("\n"))
    assert json.loads(said)["constraint_violations"] == [EVIL]

"""`tally rules backfill --workers`: what a command that died has left is gone on with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.tally_process import Tally

from tallymark.store import open_store
from tallymark.store.leases import Holder, describe_process
from tallymark.traces.trace_query import TraceQuery

WORDS = ("rules", "backfill", "polite", "--since", "7d", "--yes")


@pytest.fixture
def tally(tmp_path: Path) -> Tally:
    """Where five traces are kept."""
    made = Tally(tmp_path)
    lines = (json.dumps({"trace_id": f"t-{n}", "output": "please"}) for n in range(5))
    (tmp_path / "traces.jsonl").write_text("\n".join(lines))
    made("load", "traces", "traces.jsonl")
    return made


def find_dead() -> Holder:
    """A process that has ended."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        found = describe_process(process.pid)
        process.kill()
    return found


def test_a_backfill_that_has_not_ended_is_gone_on_with(tally: Tally) -> None:
    tally("rules", "add", "polite", "-s", "contains(values=['please'])")
    begun = tally(*WORDS)
    assert "queued" in begun.stdout, begun.stderr
    done = tally(*WORDS, "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert "backfill 1 has not ended and is continued" in done.stderr
    assert "backfill 1: done, 100.0%, 5 of 5 scored" in done.stdout


@pytest.mark.parametrize("times", [4, 5])
def test_a_backfill_is_gone_on_with_however_often_its_command_was_killed(
    tally: Tally, times: int
) -> None:
    """The fifth who looks finds that it was left too often, and sets it aside."""
    tally("rules", "add", "polite", "-s", "contains(values=['please'])")
    tally(*WORDS)
    with open_store(str(tally.folder / ".tally" / "tally.db")) as store:
        taken = [store.job_queue.claim(["backfill"], 1, find_dead()) for _ in range(times)]
    assert [len(each) for each in taken] == [1, 1, 1, 1, 0][:times]
    done = tally(*WORDS, "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert "backfill 1: done, 100.0%, 5 of 5 scored" in done.stdout


ODD = """
from tallymark import Score, scorer

@scorer
def odd(ctx):
    return Score(1.0, metadata={1: 2, "a": {None: 3}})
"""


def test_workers_keep_metadata_whose_keys_are_no_texts(tally: Tally) -> None:
    (tally.folder / "odd.py").write_text(ODD)
    tally("rules", "add", "polite", "-s", "odd.py:odd")
    done = tally(*WORDS, "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert "backfill 1: done, 100.0%, 5 of 5 scored" in done.stdout
    with open_store(str(tally.folder / ".tally" / "tally.db")) as store:
        keys = [each.key for each in store.traces.page(TraceQuery(), limit=10).items]
        found = [score.metadata for some in store.traces.scores(keys).values() for score in some]
    assert [(each["1"], each["a"]) for each in found] == [(2, {"None": 3})] * 5
    for more in ((), ("--workers", "2")):
        (run,) = tally.json("score", "traces.jsonl", "-s", "odd.py:odd", *more)["runs"]
        assert run["passed"] == 5

"""`tally score --workers`: real processes, and a scorer of the user's own that prints."""

from __future__ import annotations

import json
from pathlib import Path

from scripts.engine_samples import write_traces
from tests.cli.tally_process import Tally

LOUD = """
from tallymark import scorer

@scorer
def loud(ctx):
    print("noise")
    return 1.0 if "refund" in ctx.output else 0.0
"""


def test_workers_come_to_what_one_process_does(tmp_path: Path) -> None:
    write_traces(tmp_path, 250, 1)
    (tmp_path / "loud.py").write_text(LOUD)
    tally = Tally(tmp_path)
    words = ("score", "traces.jsonl", "-s", "loud.py:loud", "-s", "scorers.py:polite", "--json")
    alone = tally(*words, "-o", "alone.jsonl")
    spread = tally(*words, "-o", "spread.jsonl", "--workers", "2")
    assert (spread.returncode, "noise" in spread.stderr) == (0, True)
    (one,), (other,) = (json.loads(each.stdout)["runs"] for each in (alone, spread))
    assert one["metrics"] == other["metrics"]
    assert (tmp_path / "alone.jsonl").read_bytes() == (tmp_path / "spread.jsonl").read_bytes()

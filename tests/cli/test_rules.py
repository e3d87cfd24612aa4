"""`tally rules backfill --workers`: what a command that died has left is gone on with."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.tally_process import Tally


def test_a_backfill_that_has_not_ended_is_gone_on_with(tmp_path: Path) -> None:
    tally = Tally(tmp_path)
    lines = (json.dumps({"trace_id": f"t-{n}", "output": "please"}) for n in range(5))
    (tmp_path / "traces.jsonl").write_text("\n".join(lines))
    tally("load", "traces", "traces.jsonl")
    tally("rules", "add", "polite", "-s", "contains(values=['please'])")
    words = ("rules", "backfill", "polite", "--since", "7d", "--yes")
    begun = tally(*words)
    assert "queued" in begun.stdout, begun.stderr
    done = tally(*words, "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert "backfill 1 has not ended, and is gone on with" in done.stderr
    assert "backfill 1: done, 100.0%, 5 of 5 scored" in done.stdout

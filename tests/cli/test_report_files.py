"""Files that a user names: places that can hold none are refused before anything is asked."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.tally_process import Tally

OWN = str(Path(__file__).parents[1] / "fixtures" / "traces" / "own.jsonl")
SUITE = """
metadata: {name: desk, model: cmd/sh -c 'echo x | tee -a asked'}
evals: [{name: one, prompt: x, checks: [match: x]}]
score: success_pct
"""
COMMAND_THAT_TAKES_ITS_REPORTS_PLACE = """
metadata: {name: desk, model: "cmd/sh -c 'rm -r out; touch out; echo no'"}
evals: [{name: one, prompt: x, checks: [match: x]}]
score: success_pct
"""


@pytest.fixture
def tally(tmp_path: Path) -> Tally:
    (tmp_path / "s.yaml").write_text(SUITE)
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.html").mkdir()
    return Tally(tmp_path)


@pytest.mark.parametrize(
    "typed",
    [
        ["run", "s.yaml", "--report", "folder.html"],
        ["run", "s.yaml", "--report", "file/x.html"],
        ["run", "s.yaml", "--report", "file/deeper/x.html"],
        ["run", "s.yaml", "--report", "/proc/x.html"],
        ["run", "s.yaml", "--record", "file/x.jsonl"],
        ["run", "s.yaml", "--record", "/proc/x.jsonl"],
        ["run", "s.yaml", "--cache", "file/x.db"],
        ["run", "s.yaml", "--cache", "/proc/x.db"],
        ["score", OWN, "-s", "word_count", "--report", "file/x.xml"],
        ["score", OWN, "-s", "word_count", "-o", "file/x.csv"],
        ["init", "file/s.yaml"],
        ["init", "/proc/s.yaml"],
    ],
    ids=lambda typed: " ".join([typed[0], *typed[-2:]]),
)
def test_a_place_that_can_hold_no_file_is_refused_before_anything_is_asked(
    tally: Tally, typed: list[str]
) -> None:
    done = tally(*typed)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert not (tally.folder / "asked").exists()


def test_a_report_that_fails_after_the_run_is_told_after_summary_and_gates(tally: Tally) -> None:
    (tally.folder / "out").mkdir()
    (tally.folder / "taken.yaml").write_text(COMMAND_THAT_TAKES_ITS_REPORTS_PLACE)
    reports = ("--report", "out/x.html", "--report", "x.md")
    done = tally("run", "taken.yaml", "-q", *reports, "--fail-under", "50")
    assert done.returncode == 3
    assert done.stdout.startswith("desk: 0.00, 1 of 1 failed; details")
    assert done.stderr.splitlines() == [
        "wrote x.md",
        "tally: cmd/sh -c 'rm -r out; touch out; echo no' scored 0.00, under 50",
        "tally: cannot write out/x.html: File exists",
    ]

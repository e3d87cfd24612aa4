"""The table of report files: a file and a line are all that a new one needs."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from tests.throw_away import WithOneMore

from tallymark.runs.report_formats import REPORT_FORMATS, load_report

BRAILLE = """
    from tallymark.runs.report_formats import ReportKind

    def braille_report(runs):
        return f"{len(runs)} dots"

    REPORT = ReportKind(write=braille_report, reader="fingers", gives="dots")
"""
LINE = """
from tallymark.runs.report_formats import REPORT_FORMATS, ReportFormat
REPORT_FORMATS[".brf"] = ReportFormat("braille", "Braille")
"""
SUITE = "evals: [{prompt: hi, checks: [match: hi]}]"


@pytest.fixture
def one_more(tmp_path: Path) -> WithOneMore:
    (tmp_path / "braille.py").write_text(textwrap.dedent(BRAILLE), encoding="utf-8")
    (tmp_path / "s.yaml").write_text(SUITE, encoding="utf-8")
    return WithOneMore(tmp_path, LINE)


def test_a_new_report_is_written_by_every_command_that_reports(one_more: WithOneMore) -> None:
    assert one_more.tally("run", "s.yaml", "-m", "echo/x", "-r", "a.brf").returncode == 0
    assert one_more.tally("show", "latest", "--report", "b.brf").returncode == 0
    for name in ("a.brf", "b.brf"):
        assert (one_more.folder / name).read_text(encoding="utf-8") == "1 dots"


@pytest.mark.parametrize("command", ["run", "show"])
def test_the_help_names_it(one_more: WithOneMore, command: str) -> None:
    said = " ".join(one_more.tally(command, "--help").stdout.split())
    assert "Write a report: .brf (Braille), .html, .md, .xml (JUnit), .csv or .json." in said


def test_a_wrong_ending_is_answered_with_it(one_more: WithOneMore) -> None:
    said = one_more.tally("run", "s.yaml", "-m", "echo/x", "-r", "a.pdf").stderr
    assert ".html, .brf (.xml is JUnit, .brf is Braille)" in said


def test_it_stands_in_the_docs(one_more: WithOneMore) -> None:
    assert one_more.docs_row("reports", ".brf") == (
        "| `.brf` (Braille) | `braille_report(runs)` | fingers | dots |"
    )


@pytest.mark.parametrize("ending", REPORT_FORMATS)
def test_every_line_leads_to_a_report(ending: str) -> None:
    assert isinstance(load_report(ending).write([]), str)

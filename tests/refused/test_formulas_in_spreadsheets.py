"""A name that a spreadsheet would run when somebody opens the board."""

from __future__ import annotations

import csv
import io

import pytest

from tallymark.cli.streams import print_csv


@pytest.mark.parametrize(
    "name",
    ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "\tx", "  =1", "＝1", '=a,"b"\r\n=c'],  # noqa: RUF001
)
def test_a_cell_is_never_a_formula(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_csv([{"rank": 1, "agent": name, name: -5.5}], ["rank", "agent"])
    heads, cells = csv.reader(io.StringIO(capsys.readouterr().out, newline=""))
    assert cells[0] == "1"
    assert cells[1].startswith("'")
    assert heads[2].startswith("'")
    assert cells[2] == "-5.5"


def test_what_holds_commas_quotes_or_lines_is_one_cell(capsys: pytest.CaptureFixture[str]) -> None:
    print_csv([{"agent": 'a,"b"\nc', "score": None}, {"agent": "d", "more": 1}], ["agent"])
    printed = capsys.readouterr().out
    assert printed == 'agent,score,more\r\n"a,""b""\nc",,\r\nd,,1\r\n'

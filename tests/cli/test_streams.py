"""Tables that commands print for other programs."""

from __future__ import annotations

import csv
import io

import pytest

from tallymark.cli.streams import print_csv


def test_numbers_in_csv_are_those_that_are_kept_to_the_last_digit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    numbers = {"at": 1763449999.1234567, "score": 0.1 + 0.2, "tiny": 1.5e-300, "tries": 12345678901}
    print_csv([numbers], ["score"])
    heads, cells = csv.reader(io.StringIO(capsys.readouterr().out))
    assert heads == ["score", "at", "tiny", "tries"]
    assert {name: float(cell) for name, cell in zip(heads, cells, strict=True)} == numbers

"""Damaged Parquet files: a sentence, and whoever reads them lives on."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts.fuzz_parsers import CORPUS

from tallymark.errors import InvalidInput
from tallymark.parquet_trial import try_parquet
from tallymark.service.tables import ATTEMPTS

WHOLE = (CORPUS / "parquet" / "attempts").read_bytes()
ENDS_ITS_READER = 3429
"""A byte of the footer: with another value pyarrow ends the process, and nothing can catch it."""


def damage(at: int) -> bytes:
    return WHOLE[:at] + bytes([WHOLE[at] ^ 1]) + WHOLE[at + 1 :]


def test_what_is_whole_passes(tmp_path: Path) -> None:
    path = tmp_path / "attempts.parquet"
    path.write_bytes(WHOLE)
    try_parquet(path, ATTEMPTS.columns)


def test_what_ends_its_reader_is_refused_and_named(tmp_path: Path) -> None:
    path = tmp_path / "part-2.parquet"
    (tmp_path / "part-1.parquet").write_bytes(WHOLE)
    path.write_bytes(damage(ENDS_ITS_READER))
    with pytest.raises(InvalidInput, match=r"part-2.parquet is damaged.*SIGABRT") as caught:
        try_parquet(tmp_path, ATTEMPTS.columns)
    assert "\n" not in str(caught.value)


def test_what_is_refused_is_told_in_the_words_of_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "attempts.parquet"
    path.write_bytes(WHOLE[:2000])
    with pytest.raises(InvalidInput, match=r"attempts.parquet cannot be read as Parquet: "):
        try_parquet(path, ATTEMPTS.columns)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(
        InvalidInput, match="is a folder without a Parquet file; give a file that `tally export`"
    ):
        try_parquet(empty, ATTEMPTS.columns)

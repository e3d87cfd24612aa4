"""A backup that is not whole, or not ours, is refused before anything is stored."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tallymark.errors import InvalidInput, WorkFailed
from tallymark.store import open_store
from tallymark.store.backups.backup_file import (
    END,
    HEADER,
    MAGIC,
    ROWS,
    BackupFile,
    BackupWriter,
    End,
    Header,
    Rows,
    make_file,
)
from tallymark.store.schema import CURRENT

HEAD = Header(
    schema=CURRENT,
    made_by="0",
    made_at=0.0,
    database="sqlite",
    tables={"vars": ["tenant", "name", "value"]},
)
ROW: tuple[Any, ...] = ("default", "a", "b")


def write(path: Path, *blocks: tuple[bytes, Any]) -> Path:
    with make_file(path) as file:
        writer = BackupWriter(file)
        for kind, content in blocks:
            writer.write(kind, content)
    return path


def whole(path: Path, header: Header = HEAD, *rows: Any, table: str = "vars") -> Path:
    given = Rows(table, list(rows) or [ROW])
    return write(
        path,
        (HEADER, header),
        (ROWS, given),
        (END, End(rows={"vars": len(given.rows)}, sequences={})),
    )


def refuse(tmp_path: Path, path: Path) -> str:
    with (
        open_store(str(tmp_path / "new.db")) as store,
        pytest.raises((InvalidInput, WorkFailed)) as told,
    ):
        store.backups.restore(path)
    with open_store(str(tmp_path / "new.db")) as store:
        assert not store.exists
    return str(told.value)


def test_every_byte_and_every_end_is_looked_at(tmp_path: Path) -> None:
    content = whole(tmp_path / "whole").read_bytes()
    assert BackupFile(tmp_path / "whole").check()[0] == HEAD
    bad = tmp_path / "bad"
    for place in range(len(content)):
        bad.write_bytes(content[:place])
        with pytest.raises(InvalidInput):
            BackupFile(bad).check()
        bad.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(InvalidInput):
            BackupFile(bad).check()
    bad.write_bytes(content + b"x")
    with pytest.raises(InvalidInput, match="damaged"):
        BackupFile(bad).check()


def test_one_that_is_for_others_to_read_is_not_made(tmp_path: Path) -> None:
    assert whole(tmp_path / "whole").stat().st_mode & 0o777 == 0o600


def test_one_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    whole(tmp_path / "whole")
    with pytest.raises(InvalidInput, match="is there already"):
        whole(tmp_path / "whole")
    assert [each.name for each in tmp_path.iterdir()] == ["whole"]


def test_nothing_is_left_of_one_that_failed(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), make_file(tmp_path / "half"):
        raise RuntimeError
    with pytest.raises(WorkFailed, match="could not be written"), make_file(tmp_path / "no" / "x"):
        pass
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("header", "rows", "said"),
    [
        ({"schema": "9999"}, [ROW], "a newer version"),
        ({"tables": {"../../etc/passwd": ["x"]}}, [ROW], "not Tallymark's: '../../etc/passwd'"),
        (
            {"tables": {"vars": ["name", "x; DROP TABLE runs"]}},
            [ROW],
            "not Tallymark's",
        ),
        ({"tables": {"vars": ["tenant", "tenant", "value"]}}, [ROW], "not Tallymark's"),
        ({}, [("default", "a")], "another length"),
        ({}, [("default", "a", 5)], "a int in vars.value"),
        ({}, [("default", None, "b")], "a NoneType in vars.name"),
        ({"tables": {"runs": ["id"]}}, [ROW], "rows of 'vars', which it lacks"),
        ({}, [ROW, ROW], "could not do the work"),
        ({"made_at": 1e300}, [ROW], "a block cannot be read"),
    ],
)
def test_what_is_not_ours(
    tmp_path: Path, header: dict[str, Any], rows: list[Any], said: str
) -> None:
    path = whole(tmp_path / "odd", msgspec.structs.replace(HEAD, **header), *rows)
    assert said in refuse(tmp_path, path)


def test_what_it_counts_must_be_there(tmp_path: Path) -> None:
    path = write(tmp_path / "odd", (HEADER, HEAD), (END, End(rows={"vars": 1}, sequences={})))
    assert "does not have the rows" in refuse(tmp_path, path)
    twice = write(
        tmp_path / "two", (HEADER, HEAD), (HEADER, HEAD), (END, End(rows={}, sequences={}))
    )
    assert "not in their order" in refuse(tmp_path, twice)


def test_numbers_that_no_database_holds(tmp_path: Path) -> None:
    tables = {"labels": ["id", "tenant", "kind", "value"]}
    head = msgspec.structs.replace(HEAD, tables=tables)
    labels = Rows("labels", [(2**63, "default", "tag", "a")])
    end = End(rows={"labels": 1}, sequences={})
    path = write(tmp_path / "large", (HEADER, head), (ROWS, labels), (END, end))
    assert "has a number in labels that no database holds" in refuse(tmp_path, path)
    path = write(tmp_path / "far", (HEADER, HEAD), (END, End(rows={}, sequences={"jobs": 2**63})))
    assert "a block cannot be read" in refuse(tmp_path, path)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_numbers_that_are_none(tmp_path: Path, value: float) -> None:
    head = msgspec.structs.replace(HEAD, tables={"tenants": ["tenant", "settings", "created_at"]})
    tenants = Rows("tenants", [("default", "{}", value)])
    end = End(rows={"tenants": 1}, sequences={})
    path = write(tmp_path / "odd", (HEADER, head), (ROWS, tenants), (END, end))
    assert f"has {value} in tenants.created_at" in refuse(tmp_path, path)


def test_other_files_are_none(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"SQLite format 3\0")
    assert "is no backup of Tallymark" in refuse(tmp_path, tmp_path / "other")
    (tmp_path / "empty").write_bytes(MAGIC)
    assert "ends too early" in refuse(tmp_path, tmp_path / "empty")
    assert "No such file" in refuse(tmp_path, tmp_path / "none")

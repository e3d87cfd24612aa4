"""`cases_from`: a CSV, JSON or JSONL file whose rows become cases."""

from __future__ import annotations

import csv
import hashlib
import io
import re
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.errors import InvalidInput, Place, Problem
from tallymark.suites.suite_definition import Dataset
from tallymark.suites.templates import write_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MAX_DATASET_BYTES = 1_000_000_000
_MAX_PROBLEMS = 20


def read_dataset(folder: Path, config: str | dict[str, Any]) -> Dataset:
    """The rows of a dataset; InvalidInput has every broken row with its line."""
    given: dict[str, Any] = {"file": config} if isinstance(config, str) else config
    file, path = given["file"], folder / given["file"]
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise InvalidInput(f"{file} is no dataset", hint=f"one ends in {', '.join(_READERS)}")
    raw = _read_bytes(path, file)
    problems: list[Problem] = []
    rows = list(islice(reader(raw, file, problems), given.get("limit")))
    if problems:
        raise InvalidInput(problems[:_MAX_PROBLEMS])
    if not rows:
        raise InvalidInput(f"{file} has no rows")
    columns = tuple(dict.fromkeys(column for row in rows for column in row))
    return Dataset(
        file,
        columns,
        tuple(tuple(row.get(column, msgspec.UNSET) for column in columns) for row in rows),
        _name_rows(given, rows, columns),
        hashlib.sha256(raw).hexdigest(),
    )


def _read_bytes(path: Path, name: str) -> bytes:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_DATASET_BYTES + 1)
    except OSError as error:
        hint = "a path starts at the suite's folder"
        raise InvalidInput(f"{name} cannot be read: {error.strerror}", hint=hint) from None
    if len(raw) > MAX_DATASET_BYTES:
        raise InvalidInput(f"{name} has more than {MAX_DATASET_BYTES // 1_000_000} MB")
    return raw


def _read_csv(raw: bytes, name: str, problems: list[Problem]) -> Iterator[dict[str, Any]]:
    """The rows of a file whose first row names the columns."""
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{name} is not UTF-8 text (byte {error.start + 1})") from None
    # The library's own limit is 128 KB; it can only be set for the whole program.
    csv.field_size_limit(MAX_DATASET_BYTES)
    # Spreadsheets also write semicolons or tabs; in such a file the first row has no commas.
    first = re.sub('"[^"]*"', "", text.partition("\n")[0])
    delimiter = next((each for each in ",;\t" if each in first), ",")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
    try:
        columns = [column.strip() for column in next(reader, [])]
        if len(set(columns)) < len(columns) or "" in columns:
            message = "the first row must name every column, each by a name of its own"
            problems.append(Problem(message, Place(name, 1)))
            return
        for row in reader:
            if len(row) == len(columns):
                yield dict(zip(columns, row, strict=True))
            elif row:
                said = f"the row has {len(row)} values for {len(columns)} columns"
                problems.append(Problem(said, Place(name, reader.line_num)))
    except csv.Error as error:
        problems.append(Problem(f"not valid CSV: {error}", Place(name, reader.line_num)))


def _read_jsonl(raw: bytes, name: str, problems: list[Problem]) -> Iterator[dict[str, Any]]:
    """The rows of a file with a JSON object on each line."""
    for number, line in enumerate(raw.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            row = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            problems.append(Problem(f"the line is not JSON: {error}", Place(name, number)))
            continue
        if isinstance(row, dict):
            yield row
        else:
            problems.append(Problem("the line is not a JSON object", Place(name, number)))


def _read_json(raw: bytes, name: str, problems: list[Problem]) -> Iterator[dict[str, Any]]:
    """The rows of a file with a list of JSON objects."""
    try:
        rows = msgspec.json.decode(raw.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"{name} is not JSON: {error}") from None
    if not isinstance(rows, list):
        raise InvalidInput(f"{name} is no list of JSON objects", hint='write [{"q": "..."}, ...]')
    for number, row in enumerate(rows, start=1):
        if isinstance(row, dict):
            yield row
        else:
            problems.append(Problem(f"row {number} is not a JSON object", Place(name)))


_READERS: dict[str, Callable[[bytes, str, list[Problem]], Iterator[dict[str, Any]]]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".json": _read_json,
    ".jsonl": _read_jsonl,
    ".ndjson": _read_jsonl,
}


def _name_rows(
    given: dict[str, Any], rows: list[dict[str, Any]], columns: tuple[str, ...]
) -> tuple[str, ...]:
    """Keys of the rows: the column `id`, the named column, or row numbers."""
    column = given.get("id", "id")
    if column not in columns:
        if "id" in given:
            known = f"the columns are {', '.join(columns)}"
            raise InvalidInput(f"{given['file']} has no column {column!r}", hint=known)
        return tuple(map(str, range(1, len(rows) + 1)))
    ids: dict[str, None] = {}
    for number, row in enumerate(rows, start=1):
        key = write_value(row.get(column)).strip()
        if not key or not key.isprintable() or key in ids:
            what = "is there twice" if key in ids else "cannot name a row"
            raise InvalidInput(f"{given['file']}, row {number}: the {column} {key[:40]!r} {what}")
        ids[key] = None
    return tuple(ids)

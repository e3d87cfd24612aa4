"""Rows in Parquet files, written and read in blocks. Only loaded for such a file: pyarrow is heavy.

Types are those that DuckDB, Polars and Spark read without options: times are
microseconds in UTC, counts signed 64 bits, nested values JSON text or a map of numbers. Missing
measurements are null. See docs/decisions/0052-parquet.md.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import IO, Any, Literal, NamedTuple

from tallymark.errors import InvalidInput
from tallymark.installation import explain_install

try:
    import pyarrow as pa  # type: ignore[import-untyped]
    import pyarrow.parquet as pq  # type: ignore[import-untyped]
except ImportError:
    hint = explain_install("tallymark[parquet]")
    raise InvalidInput("Parquet files need pyarrow", hint=hint) from None

Kind = Literal["text", "whole", "number", "flag", "moment", "numbers", "texts"]
Columns = Mapping[str, Kind]
_ROWS = 50_000
_CHARACTERS = 32_000_000
"""Rows, or characters of their texts, after which a block is written."""
_READ = 2_000
_READ_BYTES = 64_000_000
"""Rows of a file that are read at once, or fewer where they have more bytes than these."""
_MOST_BYTES = 1 << 30
_MOST_SMALL, _MOST_PACKED = 64_000_000, 200
"""Memory that a block of a file may claim before it is read: that many bytes, and of a small file
at most these, or this many times its own size.
"""
_MOST_VALUES, _MOST_EACH = 2_000_000, 100
"""Values that a column of a block may have, or this many for each row: a list of nulls takes no
bytes in a file.
"""
_MOST_TEXT = 256_000_000
"""Characters that the rows read at once may have in a column."""
_MOST_MORE, _LEAST_MORE, _MORE_EACH = 2 << 30, 512 << 20, 800
"""Additional memory of the process while a file is read, and for a small one at most the second and
this many times its own size: a few KB can request any amount.
"""
_bounding = Lock()
_MICRO = 1_000_000
_FIRST, _END = -62_135_596_800 * _MICRO, 253_402_300_800 * _MICRO
"""Range of the years of calendars."""
_moment = pa.timestamp("us", tz="UTC")
_TYPES: dict[Kind, Any] = {
    "text": pa.string(),
    "whole": pa.int64(),
    "number": pa.float64(),
    "flag": pa.bool_(),
    "moment": _moment,
    "numbers": pa.map_(pa.string(), pa.float64()),
    "texts": pa.list_(pa.string()),
}


def _is_text(given: Any) -> bool:
    kinds = pa.types
    if kinds.is_dictionary(given):
        return _is_text(given.value_type)
    return bool(kinds.is_string(given) or kinds.is_large_string(given) or given == pa.string_view())


def _is_list(given: Any) -> bool:
    return bool(pa.types.is_list(given) or pa.types.is_large_list(given))


def _is_number(given: Any) -> bool:
    return bool(pa.types.is_floating(given) or pa.types.is_integer(given))


def _is_pair(given: Any) -> bool:
    """The form in which other tools write an entry of a map."""
    if not pa.types.is_struct(given) or given.num_fields != 2:
        return False
    return _is_text(given.field(0).type) and _is_number(given.field(1).type)


_FITS: dict[Kind, Callable[[Any], bool]] = {
    "text": _is_text,
    "whole": pa.types.is_integer,
    "number": lambda given: _is_number(given) or pa.types.is_decimal(given),
    "flag": pa.types.is_boolean,
    "moment": lambda given: pa.types.is_timestamp(given) and given.tz is not None,
    "numbers": lambda given: (
        (pa.types.is_map(given) and _is_text(given.key_type) and _is_number(given.item_type))
        or (_is_list(given) and _is_pair(given.value_type))
    ),
    "texts": lambda given: _is_list(given) and _is_text(given.value_type),
}
_WORDS: dict[Kind, str] = {
    "text": "text",
    "whole": "whole numbers",
    "number": "numbers",
    "flag": "true or false",
    "moment": "timestamps with a time zone",
    "numbers": "a map of numbers",
    "texts": "lists of texts",
}


@contextmanager
def open_parquet_rows(
    file: IO[bytes], columns: Columns, write_notes: Callable[[], Mapping[str, str]] = dict
) -> Iterator[Callable[[Iterable[Any]], None]]:
    """A function that writes one row; notes are written when all rows are."""
    schema = pa.schema([(name, _TYPES[kind]) for name, kind in columns.items()])
    moments = [nth for nth, kind in enumerate(columns.values()) if kind == "moment"]
    rows: list[list[Any]] = []
    written = 0

    with pq.ParquetWriter(file, schema, compression="zstd") as writer:

        def flush() -> None:
            nonlocal written
            arrays = [
                pa.array(column, field.type)
                for column, field in zip(zip(*rows, strict=True), schema, strict=True)
            ]
            writer.write_batch(pa.record_batch(arrays, schema=schema))
            rows.clear()
            written = 0

        def write(cells: Iterable[Any]) -> None:
            nonlocal written
            row = list(cells)
            for nth in moments:
                if row[nth] is not None:
                    row[nth] = round(row[nth] * _MICRO)
            rows.append(row)
            written += sum(len(cell) for cell in row if isinstance(cell, str))
            if len(rows) >= _ROWS or written >= _CHARACTERS:
                flush()

        yield write
        if rows:
            flush()
        writer.add_key_value_metadata(dict(write_notes()))


class _Part(NamedTuple):
    """A file with rows of a table."""

    path: Path
    rows: int
    notes: Mapping[str, str]


def list_parts(path: Path) -> list[Path]:
    """The files of a table: itself, or those of a folder."""
    if not path.is_dir():
        return [path]
    # What begins with a dot or a line is the writer's own.
    found = sorted(each for each in path.glob("*.parquet") if each.name[0] not in "._")
    if not found:
        raise InvalidInput(f"{path} is a folder without a Parquet file", hint=_HINT)
    return found


class ParquetRows:
    """The rows of a file whose columns are what they should be; others are refused in words.

    A folder of files is one table, in the order of their names: that is what Spark writes.
    """

    def __init__(self, path: Path, columns: Columns) -> None:
        self.path = path
        self._columns = columns
        self._parts = [self._open_part(each) for each in list_parts(path)]
        self.count = sum(each.rows for each in self._parts)
        self.notes = [each.notes for each in self._parts]

    def _open_part(self, path: Path) -> _Part:
        with _open_file(path) as file:
            self._check(path, file)
            found = file.metadata.metadata or {}
            notes = {_decode(name): _decode(value) for name, value in found.items()}
            return _Part(path, file.metadata.num_rows, notes)

    def _check(self, path: Path, file: Any) -> None:
        schema = file.schema_arrow
        of_spark = _list_spark_moments(file)
        for name, kind in self._columns.items():
            places = schema.get_all_field_indices(name)
            if len(places) != 1:
                what = f"has {'several columns' if places else 'no column'} {name!r}"
                raise InvalidInput(f"{path} {what}", hint=_HINT)
            given = schema.field(name).type
            if not (_FITS[kind](given) or (kind == "moment" and name in of_spark)):
                told = " ".join(str(given).split())[:100]  # names of fields may hold anything
                raise InvalidInput(
                    f"{path}: the column {name!r} holds {told}, not {_WORDS[kind]}", hint=_HINT
                )
        for nth in range(file.metadata.num_row_groups):
            _check_group(path, file.metadata.row_group(nth), nth)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Each row by the names of its columns, a block in memory at a time."""
        names = list(self._columns)
        done = 0
        for part in self._parts:
            with _open_file(part.path, share=True) as file:
                for batch in _read_batches(file, names):
                    cells = [self._read_column(batch, name, done) for name in names]
                    for values in zip(*cells, strict=True):
                        yield dict(zip(names, values, strict=True))
                    done += batch.num_rows

    def _read_column(self, batch: Any, name: str, done: int) -> list[Any]:
        kind = self._columns[name]
        column = batch.column(name)
        if kind == "moment":
            whole = column.cast(_moment).cast(pa.int64()).to_pylist()
            for nth, value in enumerate(whole):
                if value is not None and not _FIRST <= value < _END:
                    raise self.refuse(done + nth + 1, f"{name!r} is in no year from 1 to 9999")
            return [None if each is None else each / _MICRO for each in whole]
        flat: Iterable[tuple[int, Any]] = ()
        if kind == "text":
            return _read_texts(column)
        if kind == "texts":
            return _read_lists(column)
        if kind == "numbers":
            found = [None if each is None else dict(each) for each in _read_lists(column)]
            flat = (
                (nth, value) for nth, each in enumerate(found) for value in (each or {}).values()
            )
        else:
            found = column.cast(_TYPES[kind]).to_pylist()
            flat = enumerate(found) if kind == "number" else ()
        for nth, value in flat:
            if value is not None and not math.isfinite(value):
                hint = "use null for a value that was not measured"
                raise self.refuse(done + nth + 1, f"{name!r} is {value}", hint)
        return found

    def refuse(self, row: int, problem: str, hint: str | None = None) -> InvalidInput:
        """The error for one row, counted over all files from 1 on."""
        path = self.path
        for part in self._parts:
            path = part.path
            if row <= part.rows:
                break
            row -= part.rows
        return InvalidInput(f"{path}, row {row}: {problem}", hint=hint)


def _check_group(path: Path, group: Any, nth: int) -> None:
    """Refuse a block whose metadata claims more than can be held in memory."""
    asked = group.total_byte_size
    most = min(_MOST_BYTES, max(_MOST_SMALL, _MOST_PACKED * path.stat().st_size))
    values = max((group.column(each).num_values for each in range(group.num_columns)), default=0)
    if not 0 <= asked <= most:
        claim = f"would take {asked:,} bytes"
    elif not values <= max(_MOST_VALUES, _MOST_EACH * group.num_rows):
        claim = f"has {values:,} values in a column (rows: {group.num_rows:,})"
    else:
        return
    hint = "write it again with smaller row groups"
    raise InvalidInput(f"{path}: row group {nth + 1} {claim}", hint=hint)


def _read_batches(file: Any, names: list[str]) -> Iterator[Any]:
    """Rows of all row groups: the wider they are, the fewer at once."""
    for nth in range(file.metadata.num_row_groups):
        group = file.metadata.row_group(nth)
        width = max(1, group.total_byte_size // max(1, group.num_rows))
        rows = max(1, min(_READ, _READ_BYTES // width))
        yield from file.iter_batches(rows, row_groups=[nth], columns=names, use_threads=False)


@contextmanager
def _open_file(path: Path, *, share: bool = False) -> Iterator[Any]:
    """A file, and what is wrong with it in a sentence; texts that are the same are shared."""
    try:
        # Moments of Spark are read in a unit that holds every year.
        how: dict[str, Any] = {"coerce_int96_timestamp_unit": "us"}
        with _bound_memory(path.stat().st_size):
            if share:
                with pq.ParquetFile(path) as file:
                    how["read_dictionary"] = _list_texts(file)
            with pq.ParquetFile(path, **how) as file:
                yield file
    except FileNotFoundError:
        raise InvalidInput(f"there is no file {path}") from None
    except MemoryError:
        claim = "asks for more memory than a file may"
        raise InvalidInput(
            f"{path} {claim}", hint="write it again with smaller row groups"
        ) from None
    except (pa.ArrowException, OSError, OverflowError, UnicodeError) as error:
        why = str(error).partition("\n")[0].strip()[:200] or type(error).__name__
        raise InvalidInput(f"{path} cannot be read as Parquet: {why}") from None


def _list_texts(file: Any) -> list[str]:
    leaves = map(file.schema.column, range(len(file.schema)))
    return [each.path for each in leaves if each.physical_type == "BYTE_ARRAY"]


def _list_spark_moments(file: Any) -> set[str]:
    """Columns in the old form that Spark still writes: it names no time zone, and is in UTC."""
    leaves = map(file.schema.column, range(len(file.schema)))
    return {each.path for each in leaves if each.physical_type == "INT96"}


@contextmanager
def _bound_memory(size: int) -> Iterator[None]:
    """Refuse this process further memory, so that an excessive file ends in one sentence.

    Sizes in a file cannot be believed, and pyarrow has no bound of its own. Where the system has
    none either, there is none.
    """
    if sys.platform != "linux" or not _bounding.acquire(blocking=False):
        yield  # or another file is being read within it
        return
    import resource  # noqa: PLC0415 (not everywhere)

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        more = min(_MOST_MORE, _LEAST_MORE + _MORE_EACH * size)
        most = pages * resource.getpagesize() + more
        if soft == resource.RLIM_INFINITY or most < soft:
            resource.setrlimit(resource.RLIMIT_AS, (most, hard))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        _bounding.release()


_HINT = "give a file that `tally export` wrote"


def _read_texts(column: Any) -> list[Any]:
    """Texts, of which those that are the same are one: a few KB may name a long one in each row."""
    if not pa.types.is_dictionary(column.type):
        return list(column.cast(pa.string()).to_pylist())
    used = column.indices.unique()
    texts = column.dictionary.take(used).to_pylist()
    named = dict(zip(used.to_pylist(), texts, strict=True))
    found = [named[each] for each in column.indices.to_pylist()]
    longest = max(map(len, filter(None, texts)), default=0)
    if longest * len(found) > _MOST_TEXT and sum(map(len, filter(None, found))) > _MOST_TEXT:
        raise MemoryError  # here they are one, but not where they go
    return found


def _read_lists(column: Any) -> list[Any]:
    """Lists of texts, or of pairs of a text and a number, with the texts as above."""
    ends = column.offsets.to_pylist()
    inside = column.values.slice(ends[0], ends[-1] - ends[0])
    if pa.types.is_struct(inside.type):  # a map, or what other tools make of one
        keys, values = inside.flatten()
        flat = list(zip(_read_texts(keys), values.to_pylist(), strict=True))
    else:
        flat = _read_texts(inside)
    spans = zip(column.is_valid().to_pylist(), ends, ends[1:], strict=False)
    return [flat[begin - ends[0] : end - ends[0]] if known else None for known, begin, end in spans]


def _decode(given: bytes) -> str:
    with suppress(UnicodeDecodeError):
        return given.decode()
    return ""

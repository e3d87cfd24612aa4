"""Rows written to a Parquet file in batches. Only loaded for such a file: pyarrow is heavy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from tallymark.scoring.score import make_json_safe

_BATCH = 5_000
_KINDS = {"string": pa.string(), "float64": pa.float64(), "int64": pa.int64()}


@contextmanager
def open_parquet_rows(
    file: IO[bytes], columns: Mapping[str, str]
) -> Iterator[Callable[[Iterable[Any]], None]]:
    """A function that writes one row; `columns` have the names of their types."""
    schema = pa.schema([(name, _KINDS[kind]) for name, kind in columns.items()])
    rows: list[list[Any]] = []

    with pq.ParquetWriter(file, schema) as writer:

        def flush() -> None:
            arrays = [
                pa.array(column, field.type)
                for column, field in zip(zip(*rows, strict=True), schema, strict=True)
            ]
            writer.write_batch(pa.record_batch(arrays, schema=schema))
            rows.clear()

        def write(cells: Iterable[Any]) -> None:
            rows.append([make_json_safe(cell) for cell in cells])
            if len(rows) >= _BATCH:
                flush()

        yield write
        if rows:
            flush()

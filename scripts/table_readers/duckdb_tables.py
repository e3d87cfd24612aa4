"""DuckDB, by what `FROM 'file.parquet'` gives."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
from reading import answer


class DuckDB:
    version = duckdb.__version__

    def __init__(self) -> None:
        self.connection = duckdb.connect()

    def open(self, source: str) -> dict[str, str]:
        files = f"{source}/*.parquet" if Path(source).is_dir() else source
        self.connection.execute(f"CREATE OR REPLACE VIEW t AS FROM '{files}'")
        return {row[0]: row[1] for row in self.ask("DESCRIBE t")}

    def rows(self, kinds: dict[str, str]) -> Iterator[list[Any]]:
        told = [
            f'epoch_us("{name}")' if kind == "moment" else f'"{name}"'
            for name, kind in kinds.items()
        ]
        found = self.connection.execute(f"SELECT {', '.join(told)} FROM t")
        while some := found.fetchmany(1000):
            yield from map(list, some)

    def ask(self, sql: str) -> list[list[Any]]:
        return [list(row) for row in self.connection.execute(sql).fetchall()]

    def write(self, where: str, target: str) -> None:
        self.connection.execute(f"COPY (FROM t WHERE {where}) TO '{target}'")


if __name__ == "__main__":
    answer(DuckDB())

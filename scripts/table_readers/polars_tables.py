"""Polars, by what `polars.read_parquet` gives."""

from collections.abc import Iterator
from typing import Any

import polars as pl
from reading import answer


class Polars:
    version = pl.__version__

    def __init__(self) -> None:
        self.table: pl.DataFrame

    def open(self, source: str) -> dict[str, str]:
        self.table = pl.read_parquet(source)
        return {name: str(kind) for name, kind in self.table.schema.items()}

    def rows(self, kinds: dict[str, str]) -> Iterator[list[Any]]:
        moments = [pl.col(name).dt.epoch("us") for name, kind in kinds.items() if kind == "moment"]
        return map(list, self.table.select(*kinds).with_columns(moments).iter_rows())

    def ask(self, sql: str) -> list[list[Any]]:
        return [list(row) for row in pl.SQLContext(t=self.table).execute(sql, eager=True).rows()]

    def write(self, where: str, target: str) -> None:
        pl.SQLContext(t=self.table).execute(
            f"SELECT * FROM t WHERE {where}", eager=True
        ).write_parquet(target)


if __name__ == "__main__":
    answer(Polars())

"""Spark, on this machine, by what `spark.read.parquet` gives."""

from collections.abc import Iterator
from typing import Any

from pyspark import __version__
from pyspark.sql import DataFrame, SparkSession
from reading import answer


class Spark:
    version = __version__

    def __init__(self) -> None:
        builder = SparkSession.builder.master("local[2]")
        for name, value in {
            "spark.ui.enabled": "false",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
        }.items():
            builder = builder.config(name, value)
        self.session = builder.getOrCreate()
        self.session.sparkContext.setLogLevel("ERROR")
        self.table: DataFrame

    def open(self, source: str) -> dict[str, str]:
        self.table = self.session.read.parquet(source)
        self.table.createOrReplaceTempView("t")
        return dict(self.table.dtypes)

    def rows(self, kinds: dict[str, str]) -> Iterator[list[Any]]:
        told = [
            f"unix_micros(`{name}`)" if kind == "moment" else f"`{name}`"
            for name, kind in kinds.items()
        ]
        return map(list, self.table.selectExpr(*told).toLocalIterator())

    def ask(self, sql: str) -> list[list[Any]]:
        return [list(row) for row in self.session.sql(sql).collect()]

    def write(self, where: str, target: str) -> None:
        self.table.where(where).write.parquet(target)


if __name__ == "__main__":
    answer(Spark())

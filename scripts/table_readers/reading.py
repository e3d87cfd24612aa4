"""What every engine is asked about tables, in an environment of its own.

`python ENGINE_tables.py ORDERS` reads a list of orders. Each names Parquet files (`source`: a file
or a folder), the columns with their kinds, a question in SQL over the table `t`, and where to
write: all rows as JSON lines (`rows`), what the engine calls each column and the answers
(`answer`), and the rows `where` something holds as Parquet once more (`target`).
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol


class Engine(Protocol):
    """What reads and writes Parquet."""

    version: str

    def open(self, source: str) -> dict[str, str]:
        """Makes `t` of a file or a folder; the type of each column in the engine's words."""

    def rows(self, kinds: dict[str, str]) -> Iterator[list[Any]]:
        """Every row: moments as microseconds, maps as dictionaries."""

    def ask(self, sql: str) -> list[list[Any]]:
        """The answer to a question over `t`."""

    def write(self, where: str, target: str) -> None:
        """Writes the rows of `t` that fit, as the engine does it unasked."""


def answer(engine: Engine) -> None:
    """Does what was ordered."""
    for order in json.loads(Path(sys.argv[1]).read_text()):
        types = engine.open(order["source"])
        with Path(order["rows"]).open("w") as file:
            file.writelines(json.dumps(row) + "\n" for row in engine.rows(order["columns"]))
        found = {"version": engine.version, "types": types, "answer": engine.ask(order["sql"])}
        Path(order["answer"]).write_text(json.dumps(found))
        engine.write(order["where"], order["target"])

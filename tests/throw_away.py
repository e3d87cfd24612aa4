"""A process in which one more evaluator, check, dialect or report stands in its table."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class WithOneMore:
    """`tally`, and other code, where a file and a line in its table are all there is of it."""

    folder: Path
    """With the file; commands run here."""
    line: str
    """Python that puts it into its table, before anything else is imported."""

    def python(self, code: str) -> subprocess.CompletedProcess[str]:
        """Other code in such a process."""
        path = [str(self.folder), str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        done = subprocess.run(
            [sys.executable, "-c", f"{self.line}\n{code}"],
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path)), "COLUMNS": "200"},
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def tally(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`tally ...` in such a process."""
        return self.python(
            f"import sys; sys.argv = {['tally', *arguments]!r}\n"
            "from tallymark.cli import main\n"
            "main()"
        )

    def docs_row(self, table: str, name: str) -> str:
        """Its line in a table of the docs."""
        done = self.python(f"from scripts.docs_tables import TABLES\nprint(TABLES[{table!r}][1]())")
        (row,) = [line for line in done.stdout.splitlines() if line.startswith(f"| `{name}`")]
        return row

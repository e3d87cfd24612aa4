"""A process in which one more evaluator, check, dialect or report stands in its table."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.golden.stage import shared_zygote
from tests.golden.zygote import Call

ROOT = Path(__file__).parents[1]
FRESH = """
import sys
for name in [name for name in sys.modules if name.partition(".")[0] == "tallymark"]:
    del sys.modules[name]
"""
"""All of the package is imported anew; other libraries, which take the longest, are not."""


@dataclass(frozen=True)
class WithOneMore:
    """`tally`, and other code, where a file and a line in its table are all there is of it."""

    folder: Path
    """With the file; commands run here."""
    line: str
    """Python that puts it into its table, before anything else is imported."""

    def python(self, code: str) -> subprocess.CompletedProcess[str]:
        """Other code in such a process."""
        script = self.folder / "one_more_script.py"
        script.write_text(
            f"{FRESH}sys.path[:0] = {[str(self.folder), str(ROOT)]!r}\n{self.line}\n{code}", "utf-8"
        )
        env = os.environ | {"COLUMNS": "200"}
        call = Call(["python", str(script)], str(self.folder), env, now=None)
        said = shared_zygote()(call)
        done = subprocess.CompletedProcess(call.argv, said.code, said.out, said.err)
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

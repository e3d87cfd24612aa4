"""Made tally.db.gz, the database of version 0.1 that every later version opens and reads equal.

It plays made.yaml with the real command. It is kept to show how the file came about, and is not run
again: a file that a later version had made would prove nothing. The last development version
brought the file to the tables of 0.1.0.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
from pathlib import Path

from tests.golden.corpus import read_topic
from tests.golden.stage import opened, shared_zygote

HERE = Path(__file__).parent


def main() -> None:
    """Plays the one story, and packs the database that it leaves."""
    (story,) = read_topic(HERE / "made.yaml")
    with tempfile.TemporaryDirectory() as folder, opened(shared_zygote()) as stage:
        made = Path(folder, "tally.db")
        sys.stdout.write(stage.play(story, keep={"tally.db": made}))
        packed = gzip.compress(made.read_bytes(), 9, mtime=0)
    (HERE / "tally.db.gz").write_bytes(packed)


if __name__ == "__main__":
    main()

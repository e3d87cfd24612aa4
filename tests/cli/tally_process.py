"""Runs `tally` as a user does: a real process, in a folder of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

TALLY = Path(sys.executable).parent / "tally"


class Tally:
    """`tally("run", "suite.yaml")` in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [TALLY, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            env={k: v for k, v in os.environ.items() if k != "TALLY_DB"},
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert "mistake in Tallymark" not in done.stderr, done.stderr
        return done

    def json(self, *arguments: str) -> Any:
        """The one JSON document that a command prints."""
        done = self(*arguments, "--json")
        return json.loads(done.stdout)

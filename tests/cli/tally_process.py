"""Runs `tally` as a user does: a process of its own, forked from one that has loaded it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.golden.stage import shared_zygote
from tests.golden.zygote import Call

TALLY = Path(sys.executable).parent / "tally"
"""The installed script, for tests of the start, of signals and of terminals."""


class Tally:
    """`tally("run", "suite.yaml")` in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(
        self, *arguments: str, stdin: str = "", env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        env = {k: v for k, v in os.environ.items() if k != "TALLY_DB"} | (env or {})
        call = Call(["tally", *arguments], str(self.folder), env, stdin, now=None)
        done = shared_zygote()(call)
        assert "Traceback" not in done.err, done.err
        assert "bug in Tallymark" not in done.err, done.err
        return subprocess.CompletedProcess(call.argv, done.code, done.out, done.err)

    def json(self, *arguments: str) -> Any:
        """The one JSON document that a command prints."""
        done = self(*arguments, "--json")
        return json.loads(done.stdout)

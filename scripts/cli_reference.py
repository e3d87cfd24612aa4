"""Writes docs/cli.md: what every command says of itself. Run by `make docs`, checked by a test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "cli.md"
COMMANDS = [
    *(
        "init",
        "import",
        "validate",
        "run",
        "runs",
        "runs delete",
        "runs rename",
        "show",
        "compare",
        "rescore",
        "score",
        "scorers",
    ),
    *("schema", "docs", "doctor", "view"),
    *("formula check", "formula explain", "plugin check", "plugin paused", "plugin resume"),
    *("challenge init", "challenge check", "challenge publish", "challenge list", "challenge show"),
    *("challenge close", "challenge reopen", "challenge freeze", "challenge unfreeze"),
    *("challenge rename", "challenge delete"),
    *("attempt enter", "attempt submit", "attempt withdraw", "attempt report", "attempt settle"),
    *("attempt list", "attempt show", "attempt submission", "attempt void", "attempt unvoid"),
    *("agent name", "agent disqualify", "agent reinstate", "log"),
    "compete",
    *("leaderboard", "ratings"),
    *("versus submit", "versus list", "versus submission", "versus settle"),
    *("serve", "worker", "mcp"),
    *("login", "logout", "whoami"),
    *("vars set", "vars list", "vars delete", "secrets set", "secrets list", "secrets delete"),
    *("admin keys create", "admin keys list", "admin keys rotate", "admin keys revoke"),
    *("admin tenants create", "admin tenants list", "admin tenants set"),
    *("admin agents list", "admin agents give"),
    *("admin invitations create", "admin invitations list", "admin invitations revoke"),
    *(
        "admin backup",
        "admin restore",
        "admin copy",
        "admin compact",
        "admin rotate-secret-key",
        "admin check",
        "admin upgrade",
        "admin prune",
        "admin config",
    ),
    *("rules add", "rules edit", "rules list", "rules show", "rules pause", "rules resume"),
    *("rules delete", "rules decisions", "rules backfill", "rules check"),
    *("webhooks add", "webhooks list", "webhooks pause", "webhooks resume", "webhooks rotate"),
    *("webhooks remove", "webhooks ping", "webhooks deliveries", "webhooks replay"),
    "traces list",
    "traces search",
    "traces show",
    "traces sums",
    "traces compare",
    "traces worst",
    "traces session",
    "traces score",
    "traces to-suite",
    "traces settings",
    "export attempts",
    "export results",
    "export traces",
    "export scores",
    "load traces",
    "load attempts",
    "load results",
    "load scores",
    "attempt token",
]


def said(*arguments: str) -> str:
    """What `tally ... --help` prints, at 80 columns."""
    return subprocess.run(
        [str(Path(sys.executable).parent / "tally"), *arguments, "--help"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"COLUMNS": "80", "TERM": "dumb"},
    ).stdout.strip()


def page(said: Callable[..., str] = said) -> str:
    """The whole page, by whoever asks the commands."""
    parts = ["# Commands\n\nMade by `make docs` from what the commands say of themselves.\n"]
    parts += [f"```text\n{said()}\n```\n"]
    parts += [f"## tally {name}\n\n```text\n{said(*name.split())}\n```\n" for name in COMMANDS]
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

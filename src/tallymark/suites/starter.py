"""The suite that `tally init` writes."""

from __future__ import annotations

from pathlib import Path


def read_starter_suite() -> str:
    """A small suite with comments, which runs as it is."""
    return (Path(__file__).parent / "starter.yaml").read_text(encoding="utf-8")

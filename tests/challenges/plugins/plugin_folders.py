"""Organisers' folders, written for a test."""

from __future__ import annotations

from pathlib import Path

SCORER = """
class Mine:
    def score(self, metrics, config, ctx):
        return {"score": metrics.get("rating", 0) * config.get("multiplier", 1.0)}
"""


def folder_with(top: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return top


def install(site: Path, package: str, entry_points: str, files: dict[str, str]) -> None:
    """What an installer leaves behind."""
    info = f"{package}-1.0.dist-info"
    about = f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n"
    entries = f"[tallymark.scorers]\n{entry_points}\n"
    folder_with(site, {f"{info}/METADATA": about, f"{info}/entry_points.txt": entries, **files})

"""What the Containerfile copies: all that a build may need."""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).parents[1]


def read_instructions() -> list[list[str]]:
    """Each instruction, cut into words."""
    text = (ROOT / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def copy_sources(folder: Path) -> None:
    """Copies the same into a folder, so that what is built there is what the image would hold."""
    for _, *sources, _target in (each for each in read_instructions() if each[0] == "COPY"):
        for name in sources:
            if (ROOT / name).is_dir():
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / name, folder / name, ignore=ignored)
            else:
                shutil.copyfile(ROOT / name, folder / name)

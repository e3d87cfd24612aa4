"""`PluginCode`: which files of a plugin a guest may see, and which class in them scores."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class PluginCode:
    """Found by its files alone: nothing of it was imported outside the sandbox."""

    name: str
    """What the user called it: `scorers/custom.py:MyScorer`, `services.scorers.custom:MyScorer`."""
    root: Path
    """The folder that imports start from; a guest sees it read-only."""
    module: str
    attribute: str
    code_hash: str
    """Of every Python file that the plugin may import from its root."""

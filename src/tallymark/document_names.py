"""The names by which plugins of the plugin document import their types: the package `services`.

It is not installed: a user may have a package of that name. Guests of the sandbox see its folder,
and a process that imports plugins itself, such as pytest, asks for it by `offer_document_names`.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

SHIMS = Path(__file__).parent / "shims" / "services"


class _DocumentNames(MetaPathFinder):
    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        first, *below = name.split(".")
        if first != SHIMS.name:
            return None
        return PathFinder.find_spec(name, [str(SHIMS.parent.joinpath(first, *below).parent)])


def offer_document_names() -> None:
    """Make the names importable; other packages of such a name come first."""
    if not any(isinstance(each, _DocumentNames) for each in sys.meta_path):
        sys.meta_path.append(_DocumentNames())

"""A plugin's Python files: compiled by one child, imported by the next.

The code is made in a locked-in child that runs none of it, and used in locked-in children only:
host and guest pass it on as bytes.
"""

from __future__ import annotations

import marshal
import os
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType


@dataclass(frozen=True, slots=True)
class PluginCode:
    """A plugin, found by its files alone: nothing of it was imported outside the sandbox."""

    name: str
    """The user's name for it: `scorers/custom.py:MyScorer`, `services.scorers.custom:MyScorer`."""
    root: Path
    """The folder that imports start from; a guest sees it read-only."""
    module: str
    attribute: str
    code_hash: str
    """Hash of every Python file that the plugin may import from its root."""


CompiledFiles = dict[str, tuple[str, bytes]]
"""By the module's name: the path of its file, and its code."""
_MOST_FOLDERS, _MOST_FILES, _MOST_BYTES = 200, 200, 2**18
"""A root may be any folder, with anything in it: this much of it is looked at."""


def read_python_files(root: str) -> Iterator[tuple[str, bytes]]:
    """Each file's path and text, in a fixed order; what is left out only costs time later."""
    folders, files, size = [root], 0, 0
    for _ in range(_MOST_FOLDERS):
        if not folders:
            return
        try:
            with os.scandir(folders.pop()) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                folders.append(entry.path)
            elif entry.name.endswith(".py") and entry.is_file():
                with open(entry.path, "rb") as file:  # noqa: PTH123 (pathlib is not needed else)
                    text = file.read(_MOST_BYTES + 1)
                files, size = files + 1, size + len(text)
                if files > _MOST_FILES or size > _MOST_BYTES:
                    return
                yield entry.path, text


def compile_files(root: str) -> CompiledFiles:
    """Every module of a plugin's root that can be compiled."""
    found: CompiledFiles = {}
    for path, text in read_python_files(root):
        try:
            # Our own `from __future__` must not change what theirs means.
            code = marshal.dumps(compile(text, path, "exec", dont_inherit=True))
        except Exception:  # noqa: BLE001, S112 (an import of it reports the mistake)
            continue
        within = path[len(root) :].strip("/").removesuffix(".py")
        found[within.removesuffix("/__init__").replace("/", ".")] = path, code
    return found


class CompiledImporter:
    """Finds modules among compiled ones; to be asked before files are looked at."""

    def __init__(self, code: CompiledFiles) -> None:
        self._code = code

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> Any:
        """The module's spec, if it is one of the plugin's."""
        if name not in self._code:
            return None
        path = self._code[name][0]
        folder = os.path.dirname(path) if path.endswith("/__init__.py") else None  # noqa: PTH120
        spec = ModuleSpec(name, self, origin=path, is_package=folder is not None)  # type: ignore[arg-type] # a loader by its methods
        spec.has_location = True
        if folder is not None:
            spec.submodule_search_locations = [folder]
        return spec

    def create_module(self, _spec: ModuleSpec) -> None:
        """Let Python create the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's code."""
        exec(marshal.loads(self._code[module.__name__][1]), vars(module))  # noqa: S102, S302 (a locked-in child)

"""The files of a plugin, found by reading: a module and all that it imports there."""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

from tallymark.challenges.plugins import module_facts
from tallymark.challenges.plugins.module_facts import read_facts
from tallymark.documents.bounded_json import read_bounded_json
from tallymark.errors import Place, ScorerError, WorkFailed, suggest
from tallymark.importing import parse_alone
from tallymark.sandbox.limits import Limits

MOST_FILES = 500
MOST_BYTES = 4_000_000
TAKEN_MODULES = sys.stdlib_module_names | {"tallymark", "msgspec"}
"""Modules that are always Python's or ours, whatever a plugin's folder contains.

The meaning of `import json` must not depend on the modules that a guest has already loaded.
"""
_PARSED_HERE = 64 * 1024
"""Maximum bytes that the host parses, a quarter of a second; the sandbox parses the rest."""
_LIMITS = Limits(wall_s=20.0, memory_mb=512, output_mb=8.0)
_LIMIT = f"{MOST_FILES} files or {MOST_BYTES // 1_000_000} MB"


@dataclass(frozen=True)
class PluginSources:
    """A module with its files, by their names under the folder that imports start from.

    Nothing is imported. The files are copied to a folder of their own, and that copy is all of the
    plugin that a guest sees: the code that was hashed is the code that runs, and what else lies in
    the organiser's folder stays out of its reach.
    """

    module: str
    bound: dict[str, str]
    """Facts on each name of the module: see `module_facts`."""
    files: dict[str, bytes]

    @cached_property
    def code_hash(self) -> str:
        """SHA-256 over names and contents, in the order of the names."""
        digest = hashlib.sha256()
        for name, content in sorted(self.files.items()):
            digest.update(f"{name}\0{len(content)}\0".encode())
            digest.update(content)
        return digest.hexdigest()

    def copy_files(self) -> Path:
        """A folder with these files and nothing else, the same for the same files."""
        return _copy_files(tuple(sorted(self.files.items())))


def read_sources(
    module: str, roots: Sequence[Path], *, only: str | None = None
) -> PluginSources | None:
    """A module's sources, None when no root has it; with `only`, from that package alone."""
    reader = _SourceReader([root.resolve() for root in roots], only)
    waiting = [module]
    while waiting:
        waiting += reader.take(waiting.pop())
    bound = reader.bound.get(module)
    return None if bound is None else PluginSources(module, bound, reader.files)


class _SourceReader:
    """Reads modules, each once."""

    def __init__(self, roots: Sequence[Path], only: str | None) -> None:
        self.files: dict[str, bytes] = {}
        self.bound: dict[str, dict[str, str]] = {}
        self._roots = roots
        self._only = only
        self._asked: set[str] = set()
        self._bytes = 0

    def take(self, module: str) -> Iterator[str]:
        """Read a module and the packages it is in; what they import is what comes next."""
        parts = module.split(".")
        if parts[0] in TAKEN_MODULES or self._only not in {None, parts[0]}:
            return
        for name in (".".join(parts[: at + 1]) for at in range(len(parts))):
            path = None if name in self._asked else self._find(name)
            self._asked.add(name)
            if path is not None:
                content = self._read_content(name, path)
                facts = _read_facts(content, path.name, here=self._bytes <= _PARSED_HERE)
                self.bound[name] = facts["bound"]
                is_package = path.name == "__init__.py"
                package = name if is_package else name.rpartition(".")[0]
                yield from _find_imports(facts["imports"], package)

    def _find(self, module: str) -> Path | None:
        stem = module.replace(".", "/")
        files = (root / f"{stem}{end}" for root in self._roots for end in ("/__init__.py", ".py"))
        return next(filter(is_file, files), None)

    def _read_content(self, module: str, path: Path) -> bytes:
        target = path.resolve()
        if not any(target.is_relative_to(root) for root in self._roots):
            raise ScorerError(f"{path} leads out of its folder", hint="put the file itself there")
        try:
            self._bytes += path.stat().st_size
            if self._bytes > MOST_BYTES or len(self.files) == MOST_FILES:
                raise ScorerError(f"the plugin and what it imports are more than {_LIMIT}")
            content = path.read_bytes()
        except OSError as error:
            raise ScorerError(f"cannot read {path}: {error.strerror}") from None
        stem = module.replace(".", "/")
        self.files[f"{stem}/__init__.py" if path.stem == "__init__" else f"{stem}.py"] = content
        return content


def is_file(path: Path) -> bool:
    """Also False for a name that no file can have."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _read_facts(content: bytes, name: str, *, here: bool) -> dict[str, Any]:
    """Imports and definitions of a Python file, or the place where it cannot be parsed."""
    facts = parse_alone(lambda: read_facts(content)) if here else _read_in_sandbox(content, name)
    if "error" in facts:
        said, line, column = facts["error"]
        raise ScorerError(f"this is not Python: {said}", place=Place(name, line, column))
    return facts


@lru_cache(maxsize=32)
def _read_in_sandbox(content: bytes, name: str) -> dict[str, Any]:
    # The walls load ctypes and subprocess, and hardly any plugin is so large.
    from tallymark.sandbox import run_program  # noqa: PLC0415

    program = Path(module_facts.__file__).read_bytes()
    outcome = run_program(
        ["python", "-I", "facts.py"], files={"facts.py": program}, stdin=content, limits=_LIMITS
    )
    try:
        facts: dict[str, Any] = read_bounded_json(outcome.stdout if outcome.ok else b"")
    except ValueError:
        why = f" ({outcome.stopped})" if outcome.stopped else ""
        raise ScorerError(
            f"{name} takes too much to be read{why}", hint="make it smaller"
        ) from None
    return facts


def _find_imports(imports: list[list[Any]], package: str) -> Iterator[str]:
    """Modules that a module of a package may import, by its text."""
    for level, module, names in imports:
        if level is None:
            yield from names
            continue
        parts = package.split(".") if level and package else []
        base = parts[: max(0, len(parts) - level + 1)] + (module.split(".") if module else [])
        yield from (".".join([*base, name]) for name in names)


@cache
def _copy_files(files: tuple[tuple[str, bytes], ...]) -> Path:
    """Exists until this process ends: a warm guest reads its plugin from here at every call."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="tally-plugin-"))
        atexit.register(_remove, folder, os.getpid())
        for name, content in files:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    except OSError as error:
        raise WorkFailed(f"the plugin's files cannot be copied: {error}") from None
    return folder


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a fork of it
        shutil.rmtree(folder, ignore_errors=True)


def require_class(bound: Mapping[str, str], name: str, where: str) -> None:
    """A ScorerError unless the module has a class of that name that can score."""
    kind = bound.get(name)
    if kind is None and "*" not in bound:
        classes = [each for each, what in bound.items() if what.startswith("class")]
        near = suggest(name, classes)
        raise ScorerError(f"{where} has no class {name!r}", hint=_suggest_class(near, classes))
    if kind == "function":
        raise ScorerError(
            f"{name} in {where} is a function", hint="a plugin is a class with a method score"
        )
    if kind == "class without score":
        raise ScorerError(
            f"the class {name} in {where} has no method score",
            hint="add: def score(self, metrics, config, ctx)",
        )


def _suggest_class(near: str | None, classes: list[str]) -> str | None:
    if near is not None:
        return f"did you mean {near!r}?"
    return f"it has {', '.join(classes[:5])}" if classes else None

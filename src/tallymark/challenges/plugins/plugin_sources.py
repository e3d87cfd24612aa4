"""The files of a plugin, found by reading: a module and all that it imports there."""

from __future__ import annotations

import ast
import atexit
import hashlib
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from tallymark.errors import Place, ScorerError, WorkFailed, suggest
from tallymark.importing import parse_alone

MOST_FILES = 500
MOST_BYTES = 4_000_000
TAKEN_MODULES = sys.stdlib_module_names | {"tallymark", "msgspec"}
"""Modules that are always Python's or ours, whatever a plugin's folder has.

What `import json` means must not depend on which modules a guest has loaded already.
"""
_LIMIT = f"{MOST_FILES} files or {MOST_BYTES // 1_000_000} MB"


@dataclass(frozen=True)
class PluginSources:
    """A module with its files, by their names under the folder that imports start from.

    Nothing is imported. The files are copied to a folder of their own, and that copy is all of the
    plugin that a guest sees: the code that was hashed is the code that runs, and what else lies in
    the organiser's folder stays out of its reach.
    """

    module: str
    tree: ast.Module
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
    tree = reader.trees.get(module)
    return None if tree is None else PluginSources(module, tree, reader.files)


class _SourceReader:
    """Reads modules, each once."""

    def __init__(self, roots: Sequence[Path], only: str | None) -> None:
        self.files: dict[str, bytes] = {}
        self.trees: dict[str, ast.Module] = {}
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
                tree = self.trees[name] = parse_source(self._read_content(name, path), path.name)
                is_package = path.name == "__init__.py"
                yield from _find_imports(tree, name if is_package else name.rpartition(".")[0])

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


def parse_source(content: bytes, name: str) -> ast.Module:
    """The tree of a Python file, or where it cannot be read."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes and the like, which are not ours
            return parse_alone(lambda: ast.parse(content))
    except SyntaxError as error:
        place = Place(name, error.lineno, error.offset)
        raise ScorerError(f"this is not Python: {error.msg}", place=place) from None
    except (ValueError, RecursionError, MemoryError) as error:
        said = str(error) or "it is nested too deeply"
        raise ScorerError(f"this is not Python: {said}", place=Place(name)) from None


def _find_imports(tree: ast.Module, package: str) -> Iterator[str]:
    """The modules that a module of a package may import, as far as its text says."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = _resolve_base(node, package)
            yield from (".".join([*base, alias.name]) for alias in node.names)


def _resolve_base(node: ast.ImportFrom, package: str) -> list[str]:
    """The module after `from`, written in full."""
    parts = package.split(".") if node.level and package else []
    above = parts[: max(0, len(parts) - node.level + 1)]
    return above + (node.module.split(".") if node.module else [])


@cache
def _copy_files(files: tuple[tuple[str, bytes], ...]) -> Path:
    """Kept until this process ends: a warm guest reads its plugin from here at every call."""
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


def require_class(tree: ast.Module, name: str, where: str) -> None:
    """A ScorerError unless the module has a class of that name that can score.

    A name that the module imports or assigns may be a class: only running it would tell.
    """
    bound = dict(_find_bound_names(tree.body))
    node = bound.get(name)
    if node is None and "*" not in bound:
        classes = [each for each, by in bound.items() if isinstance(by, ast.ClassDef)]
        near = suggest(name, classes)
        raise ScorerError(f"{where} has no class {name!r}", hint=_suggest_class(near, classes))
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        raise ScorerError(
            f"{name} in {where} is a function", hint="a plugin is a class with a method score"
        )
    if (
        isinstance(node, ast.ClassDef)
        and not node.bases
        and "score" not in dict(_find_bound_names(node.body))
    ):
        raise ScorerError(
            f"the class {name} in {where} has no method score",
            hint="add: def score(self, metrics, config, ctx)",
        )


def _suggest_class(near: str | None, classes: list[str]) -> str | None:
    if near is not None:
        return f"did you mean {near!r}?"
    return f"it has {', '.join(classes[:5])}" if classes else None


def _find_bound_names(body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """The names that statements bind, inside `if` and `try` too."""
    for node in body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield name, node
            case ast.AsyncFunctionDef(name=name):
                yield name, node
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                yield from ((each.asname or each.name, node) for each in names)
            case ast.Assign(targets=targets):
                yield from ((each.id, node) for each in targets if isinstance(each, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name, node
            case ast.If() | ast.Try() | ast.With():
                inner = (getattr(node, part, []) for part in ("body", "orelse", "finalbody"))
                for each in inner:
                    yield from _find_bound_names(each)
                for handler in getattr(node, "handlers", []):
                    yield from _find_bound_names(handler.body)

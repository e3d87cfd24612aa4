"""Resolves references to plugins: built in, a formula, or files with its class."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tallymark.challenges.attempt_formula import (
    PLUGIN_PREFIX,
    AttemptFormula,
    parse_formula_plugin,
)
from tallymark.challenges.plugins.plugin import BUILTINS, BuiltinPlugin, SandboxedPlugin
from tallymark.challenges.plugins.plugin_sources import (
    TAKEN_MODULES,
    PluginSources,
    is_file,
    read_sources,
    require_class,
)
from tallymark.errors import ScorerError, WorkFailed, suggest
from tallymark.importing import find_entry_points
from tallymark.sandbox.plugins.plugin_files import PluginCode

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from tallymark.challenges.plugins.plugin import Plugin
    from tallymark.sandbox import Sandbox

FoundPlugin: TypeAlias = BuiltinPlugin | AttemptFormula | PluginCode
"""A plugin that can be used as it is, or code that needs a sandbox."""
ENTRY_POINT_GROUP = "tallymark.scorers"
"""Entry point group of plugins in packages. They are found by metadata, never imported."""
OWN_PACKAGE = "tallymark"
_HOW = "write file.py:Class, module:Class, builtin.weighted_scorer or formula: ..."


def load_plugin(reference: str, *, folder: Path, sandbox: Callable[[], Sandbox] | None) -> Plugin:
    """The plugin of a reference, its code searched in the organiser's folder.

    `sandbox` opens a sandbox; it is called only for untrusted code.
    """
    found = find_plugin(reference, folder=folder)
    if not isinstance(found, PluginCode):
        return found
    if sandbox is None:
        raise WorkFailed(f"{found.name} is Python code, and there is no sandbox to run it in")
    return SandboxedPlugin(found, sandbox())


def find_plugin(reference: str, *, folder: Path) -> FoundPlugin:
    """Resolve a reference; a ScorerError gives the reason if it names nothing.

        builtin.weighted_scorer             built in
        formula: rating * 10 - elapsed_s    a formula over the metrics
        module:Class, path/file.py:Class    from the organiser's folder
        name, module:Class                  of a package's `tallymark.scorers` entry point

    Nothing else can be named, and nothing is imported to find it.
    """
    reference = reference.strip()
    if reference.startswith(PLUGIN_PREFIX):
        return parse_formula_plugin(reference)
    home, colon, name = reference.rpartition(":")
    if not colon:
        return _find_named(reference)
    if not home or not name.isidentifier() or not home.isprintable():
        raise ScorerError(f"{reference!r} does not name a plugin", hint=_HOW)
    if "/" in home or home.endswith(".py"):
        return _make_code(reference, name, _read_file(home, folder))
    # A file of the organiser with the name of a built-in plugin wins.
    sources = _read_module(home, folder)
    if sources is None and reference in BUILTINS:
        return BuiltinPlugin(reference)
    return _make_code(reference, name, sources or _read_installed(home, folder))


def _make_code(reference: str, name: str, sources: PluginSources) -> PluginCode:
    require_class(sources.bound, name, reference.rpartition(":")[0] or sources.module)
    return PluginCode(reference, sources.copy_files(), sources.module, name, sources.code_hash)


def _find_named(name: str) -> FoundPlugin:
    if name in BUILTINS:
        return BuiltinPlugin(name)
    point = _find_entry_by_name(name)
    if point is None:
        near = suggest(name, [*BUILTINS, *sorted({point.name for point in _list_entry_points()})])
        hint = f"did you mean {near!r}?" if near else _HOW
        raise ScorerError(f"there is no plugin {name!r}", hint=hint)
    return _make_code(name, point.attr, _read_entry_sources(point))


def _read_file(home: str, folder: Path) -> PluginSources:
    """A file of the organiser's folder; the packages that it lies in are part of its name."""
    top = folder.resolve()
    try:
        path = (top / home).resolve()
    except (OSError, RuntimeError):
        raise ScorerError(f"there is no Python file {home} in {folder}") from None
    if not path.is_relative_to(top):
        raise ScorerError(f"{home} is not in {folder}", hint="put it into the challenge's folder")
    if not is_file(path) or path.suffix != ".py":
        raise ScorerError(f"there is no Python file {home} in {folder}", hint=_suggest_file(path))
    root, parts = path.parent, [path.stem]
    while root != top and is_file(root / "__init__.py"):
        parts.insert(0, root.name)
        root = root.parent
    if not all(part.isidentifier() for part in parts):
        hint = "use letters, digits and underscores"
        raise ScorerError(f"{home} has a name that Python cannot import", hint=hint)
    _refuse_taken(parts[0], home)
    sources = read_sources(".".join(parts), [root, top])
    if sources is None:
        raise ScorerError(f"{home} was there, and is gone")
    return sources


def _read_module(module: str, folder: Path) -> PluginSources | None:
    """A module of the organiser's folder, if it has one."""
    parts = module.split(".")
    if not all(part.isidentifier() for part in parts):
        raise ScorerError(f"{module!r} is not the name of a module", hint=_HOW)
    _refuse_taken(parts[0], module)
    return read_sources(module, [folder])


def _refuse_taken(top: str, home: str) -> None:
    if top in TAKEN_MODULES:
        said = f"{home} cannot be a plugin: the module {top} is Python's or Tallymark's own"
        raise ScorerError(said, hint=_HOW)


def _read_installed(module: str, folder: Path) -> PluginSources:
    for point in _list_entry_points():
        if point.module == module:
            return _read_entry_sources(point)
    raise ScorerError(
        f"there is no module {module} in {folder}",
        hint=_suggest_file(folder.joinpath(*module.split(".")))
        or "an installed package has to name it in an entry point of tallymark.scorers",
    )


def _suggest_file(path: Path) -> str | None:
    near = suggest(path.stem, sorted(each.stem for each in path.parent.glob("*.py")))
    return f"did you mean {near}.py?" if near else None


def _find_entry_by_name(name: str) -> EntryPoint | None:
    """The entry point of that name; two packages that both have one is an error."""
    found = [point for point in _list_entry_points() if point.name == name]
    if len({point.value for point in found}) > 1:
        both = " and ".join(sorted(point.value for point in found))
        raise ScorerError(f"more than one plugin is named {name!r}: {both}")
    return found[0] if found else None


def _read_entry_sources(point: EntryPoint) -> PluginSources:
    """The files of its package that it needs."""
    top = point.module.partition(".")[0]
    for root in _list_roots(point):
        found = read_sources(point.module, [root], only=top)
        if found is not None:
            return found
    raise ScorerError(f"the plugin {point.value} of an installed package has no Python file")


def _list_entry_points() -> Iterator[EntryPoint]:
    """Entry points of other packages; our own are scorers of traces."""
    for point in find_entry_points(ENTRY_POINT_GROUP):
        if point.module.partition(".")[0] != OWN_PACKAGE:
            yield point


def _list_roots(point: EntryPoint) -> Iterator[Path]:
    if point.dist is not None:
        yield Path(str(point.dist.locate_file("")))
    yield from (Path(each) for each in sys.path if Path(each).is_absolute())

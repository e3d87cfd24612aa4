"""What a reference to a plugin means: one of ours, a formula, or files that hold its class."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from tallymark.challenges.plugins import installed
from tallymark.challenges.plugins.builtin import BUILTINS, BuiltinPlugin
from tallymark.challenges.plugins.classes import require_class
from tallymark.challenges.plugins.formula import FormulaPlugin
from tallymark.challenges.plugins.sources import TAKEN_MODULES, PluginSources, is_file, read_sources
from tallymark.errors import ScorerError, suggest
from tallymark.sandbox.code import PluginCode

FoundPlugin: TypeAlias = BuiltinPlugin | FormulaPlugin | PluginCode
"""A plugin that can be used as it is, or code that needs a sandbox."""

FORMULA_PREFIX = "formula:"
_HOW = "write file.py:Class, module:Class, builtin.weighted_scorer or formula: ..."


def find_plugin(reference: str, *, folder: Path) -> FoundPlugin:
    """What a reference names; a ScorerError says why it names nothing.

        builtin.weighted_scorer             ours
        formula: rating * 10 - elapsed_s    a formula over the metrics
        module:Class, path/file.py:Class    from the organiser's folder
        name, module:Class                  of a package's `tallymark.scorers` entry point

    Nothing else can be named, and nothing is imported to find out.
    """
    reference = reference.strip()
    if reference.startswith(FORMULA_PREFIX):
        return FormulaPlugin(reference.removeprefix(FORMULA_PREFIX).strip())
    home, colon, name = reference.rpartition(":")
    if not colon:
        return _find_named(reference)
    if not home or not name.isidentifier() or not home.isprintable():
        raise ScorerError(f"{reference!r} does not name a plugin", hint=_HOW)
    if "/" in home or home.endswith(".py"):
        return _make_code(reference, name, _read_file(home, folder))
    # A file of the organiser's that is called like one of ours comes before it.
    sources = _read_module(home, folder)
    if sources is None and reference in BUILTINS:
        return BuiltinPlugin(reference)
    return _make_code(reference, name, sources or _read_installed(home, folder))


def _make_code(reference: str, name: str, sources: PluginSources) -> PluginCode:
    require_class(sources.tree, name, reference.rpartition(":")[0] or sources.module)
    return PluginCode(reference, sources.copy_files(), sources.module, name, sources.code_hash)


def _find_named(name: str) -> FoundPlugin:
    if name in BUILTINS:
        return BuiltinPlugin(name)
    point = installed.find_by_name(name)
    if point is None:
        near = suggest(name, [*BUILTINS, *installed.list_entry_names()])
        hint = f"did you mean {near!r}?" if near else _HOW
        raise ScorerError(f"there is no plugin {name!r}", hint=hint)
    return _make_code(name, point.attr, installed.read_entry_sources(point))


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
    point = installed.find_by_module(module)
    if point is not None:
        return installed.read_entry_sources(point)
    raise ScorerError(
        f"there is no module {module} in {folder}",
        hint=_suggest_file(folder.joinpath(*module.split(".")))
        or "an installed package has to name it in an entry point of tallymark.scorers",
    )


def _suggest_file(path: Path) -> str | None:
    near = suggest(path.stem, sorted(each.stem for each in path.parent.glob("*.py")))
    return f"did you mean {near}.py?" if near else None

"""What a guest sees of this machine and of Python, decided by the host."""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tallymark.sandbox import bubblewrap
from tallymark.sandbox.plugins.sources import sources

if TYPE_CHECKING:
    from tallymark.sandbox.code import PluginCode

_OURS = ("__init__.py", "errors.py", "importing.py", "formula", "sandbox", "scoring", "traces")
"""What a guest needs of this package, and what scorers may import from it."""
_OFFERED = (
    "tallymark.formula",
    "tallymark.scoring",
    "tallymark.scoring.plugin",
    "tallymark.scoring.weighted",
    "tallymark.traces",
    "services.challenge_scorer_protocol",
    "services.scorers.weighted",
)
_NOT_AHEAD = "antigravity idlelib lib2to3 test this tkinter turtle turtledemo"
"""Of the standard library, but importing them opens windows, prints or brings in the world."""
_IMPORT = re.compile(rb"^[ \t]*(?:from|import)[ \t]+([a-zA-Z_][a-zA-Z0-9_.]*)", re.MULTILINE)


def binds(code: PluginCode) -> list[Path]:
    """The files and folders that a guest of this plugin may read."""
    return [*bubblewrap.python_binds(), *(path for path, _ in _packages()), code.root.resolve()]


def readable(code: PluginCode, *, alone: bool) -> list[Path]:
    """What Landlock lets a child read; `alone` in a view that holds nothing but the binds.

    There the folders at the top say the same in fewer rules, each of which costs every call.
    """
    places = binds(code)
    return sorted({Path("/", path.parts[1]) for path in places}) if alone else places


def import_path() -> list[str]:
    """Where the guest itself is imported from, the standard library aside."""
    return list(dict.fromkeys(str(home) for _, home in _packages()))


def _packages() -> list[tuple[Path, Path]]:
    """Our own files in the view, msgspec and the shims, each with the folder it is found in."""
    here = Path(__file__).parents[2]
    found = [(here / name, here.parent) for name in _OURS]
    found += [(_folder("msgspec"), _folder("msgspec").parent)]
    return [*found, (_folder("services.challenge_scorer_protocol"), here.parent)]


def _folder(module: str) -> Path:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"the module {module} is not installed")
    return Path(spec.origin).parent


def library() -> list[str]:
    """What a plugin can import from besides its own root: the standard library."""
    found = [Path(path) for path in sys.path if path]
    base = Path(sys.base_prefix)
    packages = {"site-packages", "dist-packages"}
    return [str(p) for p in found if p.is_relative_to(base) and packages.isdisjoint(p.parts)]


def modules(code: PluginCode) -> list[str]:
    """What the guest imports ahead: what this plugin's files name, as far as it is trusted.

    The files are searched, not parsed: strangers wrote them, and a miss only costs time.
    """
    named: dict[str, None] = {}
    for _, text in sources(str(code.root)):
        if b"tallymark" in text or b"services" in text:
            named |= dict.fromkeys(_OFFERED)
        for found in _IMPORT.finditer(text):
            top = found[1].decode().partition(".")[0]
            if top in sys.stdlib_module_names and top not in _NOT_AHEAD.split():
                named[found[1].decode()] = None
    return list(named)


def unload(code: PluginCode) -> list[str]:
    """Which of our `services` modules make way because the plugin's root has its own."""
    own = code.root / "services"
    if not own.exists() and not own.with_suffix(".py").exists():
        return []
    names = ["services", "services.scorers"]
    for name in ("services.challenge_scorer_protocol", "services.scorers.weighted"):
        place = code.root.joinpath(*name.split("."))
        if place.exists() or place.with_suffix(".py").exists():
            names.append(name)
    return names

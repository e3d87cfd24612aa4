"""The parts of this machine and of Python that a guest sees, chosen by the host."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tallymark.document_names import SHIMS
from tallymark.sandbox import interpreter

if TYPE_CHECKING:
    from tallymark.sandbox.plugins.plugin_files import PluginCode

_ROOT = Path("/plugin")
_PACKAGES = interpreter.HOME / "packages"
_FILES = (
    "tallymark",
    "tallymark.errors",
    "tallymark.event_loops",
    "tallymark.importing",
    "tallymark.abandonable_calls",
    "tallymark.text",
)
_FOLDERS = (
    "tallymark.formula",
    "tallymark.sandbox",
    "tallymark.scoring",
    "tallymark.traces",
    "msgspec",
)
"""Our modules that a guest needs and scorers may import: whole packages."""
_OFFERED = (
    "tallymark.formula",
    "tallymark.scoring",
    "tallymark.scoring.plugin_contract",
    "tallymark.scoring.weighted_scorer",
    "tallymark.traces",
    "services.challenge_scorer_protocol",
    "services.scorers.weighted",
)
_USUAL = """
bisect collections copy dataclasses datetime decimal enum fractions functools hashlib heapq
itertools json math operator random re statistics string textwrap time typing unicodedata
"""
MODULES_AHEAD = (*_OFFERED, *_USUAL.split())
"""Modules that every guest imports before it forks, independent of any plugin's text.

A plugin imports other modules itself, when it is confined, at the cost of some time.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestView:
    """The places of a guest's files."""

    python: Path
    root: Path
    """The plugin's files."""
    packages: list[Path]
    """Where the guest itself is imported from, besides the standard library."""
    readable: list[Path]
    """Paths that Landlock lets a child read."""


def list_binds(code: PluginCode) -> dict[Path, Path]:
    """Files that a guest of this plugin may read in bubblewrap, by their places inside."""
    packages = {_PACKAGES / within: path for within, path in _find_package_files().items()}
    return interpreter.files() | packages | {_ROOT: code.root.resolve()}


def plan_view_in_bubblewrap(code: PluginCode) -> GuestView:
    """In bubblewrap: at places that are the same for every plugin on every machine."""
    # The view holds nothing but the binds, so the folders at the top say the same in fewer rules,
    # each of which costs every call.
    top = sorted({Path("/", place.parts[1]) for place in list_binds(code)})
    python = interpreter.sandbox_path()
    return GuestView(python=python, root=_ROOT, packages=[_PACKAGES], readable=top)


def plan_view_in_place(code: PluginCode) -> GuestView:
    """Without bubblewrap: everything is where it is on this machine."""
    root, packages = code.root.resolve(), _find_package_files()
    homes = [path.parents[len(within.parts) - 1] for within, path in packages.items()]
    return GuestView(
        python=interpreter.host_path(),
        root=root,
        packages=list(dict.fromkeys(homes)),
        readable=[*interpreter.files().values(), *packages.values(), root],
    )


def _find_package_files() -> dict[Path, Path]:
    """Our own modules, msgspec and the shims, by their paths within a folder of packages."""
    found = {}
    for name in (*_FILES, *_FOLDERS):
        origin, within = _find_origin(name), Path(*name.split("."))
        if name in _FOLDERS:
            found[within] = origin.parent
        else:
            is_package = origin.name == "__init__.py"
            found[within / origin.name if is_package else within.with_suffix(".py")] = origin
    return found | {Path(SHIMS.name): SHIMS}


def _find_origin(module: str) -> Path:
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"the module {module} is not installed")
    return Path(spec.origin)


def find_shadowed_modules(code: PluginCode) -> list[str]:
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

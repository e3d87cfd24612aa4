"""How a module of this room is started as a program of its own, without the rest of Tallymark."""

from __future__ import annotations

from pathlib import Path

from tallymark.sandbox import interpreter

CODE = Path(__file__).parents[1]
"""Where this code is, as the host sees it."""

# Only the modules that it names are loaded, not what the packages above them export.
_BOOT = """
import sys, types
for name, folder in (("tallymark", sys.argv[1]), ("tallymark.sandbox", sys.argv[1] + "/sandbox")):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [folder]
name = sys.argv[2]
del sys.argv[1:3]
__import__(f"tallymark.sandbox.{name}")
sys.modules[f"tallymark.sandbox.{name}"].main()
"""


def words(module: str, *arguments: str, code: Path = CODE, python: Path | None = None) -> list[str]:
    """The command line that calls `main` of the module; `code` is where `sandbox/` lies."""
    start = [str(python or interpreter.here()), "-I", "-S", "-c", _BOOT]
    return [*start, str(code), module, *arguments]

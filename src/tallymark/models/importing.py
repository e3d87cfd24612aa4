"""Importing what a user names in `python/…`: a module, or a file of their own."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallymark.errors import InvalidInput, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType


def imported(home: str, name: str, folder: Path) -> Any:
    """The object `name` of a module or a `.py` file, looked for in the folder first."""
    module = _file(home, folder) if home.endswith(".py") else _module(home, folder)
    try:
        return getattr(module, name)
    except AttributeError:
        near = nearest(name, [each for each in vars(module) if not each.startswith("_")])
        hint = f"did you mean {near!r}?" if near else None
        raise InvalidInput(f"{home} has no function {name!r}", hint=hint) from None


def _file(home: str, folder: Path) -> ModuleType:
    path = next((p for p in (folder / home, Path(home)) if p.is_file()), None)
    if path is None:
        raise InvalidInput(f"there is no file {folder / home}")
    path = path.resolve()
    name = f"{path.stem} ({path})"  # cannot be the name of a real module
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidInput(f"{home} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _reachable(home, path.parent):
            spec.loader.exec_module(module)
    except InvalidInput:
        del sys.modules[name]
        raise
    return module


def _module(home: str, folder: Path) -> ModuleType:
    with _reachable(home, folder.resolve()):
        return importlib.import_module(home)


@contextmanager
def _reachable(home: str, folder: Path) -> Iterator[None]:
    """Import with a folder on the path; whatever the user's code raises becomes a sentence."""
    sys.path.insert(0, str(folder))
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 (a user's module may raise anything)
        raise _import_error(home, error) from None
    finally:
        if str(folder) in sys.path:
            sys.path.remove(str(folder))


def _import_error(home: str, error: BaseException) -> InvalidInput:
    frames = traceback.extract_tb(error.__traceback__)
    known = frames and not frames[-1].filename.startswith("<")
    place = f" (at {Path(frames[-1].filename).name}:{frames[-1].lineno})" if known else ""
    return InvalidInput(f"{home} cannot be imported: {type(error).__name__}: {error}{place}")

"""Imports of the user's own Python code: a module, or a file, named in a reference.

Any exception of that code during its import becomes one sentence with the line where it stopped.
Also the kind and parameters of functions, the entry points of installed packages, and parsing
Python code in one thread at a time.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from tallymark.errors import InvalidInput, suggest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_NAME = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")
_NOT_OWN = (f"{Path(os.__file__).parent}{os.sep}", f"{Path(__file__).parent}{os.sep}")
_INSTALLED = {"site-packages", "dist-packages"}
_TREE_TRIES = 10
"""Tries before the one whose error counts: threads of other libraries make trees too."""
_TREE_LOCK = [RLock()]
"""A list of one, so that a child of a fork can put its own there."""


def is_async(function: object) -> bool:
    """True for an async function, and for an object that is called like one."""
    called = getattr(function, "__call__", None)  # noqa: B004 (its own kind is what matters)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def import_object(
    home: str,
    name: str,
    *,
    folder: Path | None = None,
    what: str = "function",
    error: type[InvalidInput] = InvalidInput,
) -> Any:
    """Import the object of that name; `what` names its kind in messages, `error` is the error
    class.

    `home` is a module, or a file that ends with `.py`; both are looked for in `folder` first.
    """
    module = import_user_module(home, folder=folder, error=error)
    try:
        return getattr(module, name)
    except AttributeError:
        near = suggest(name, [each for each in vars(module) if not each.startswith("_")])
        hint = f"did you mean {near!r}?" if near else None
        raise error(f"{home} has no {what} {name!r}", hint=hint) from None


def match_parameters(
    name: str, function: Callable[..., Any], first: str, named: Sequence[str]
) -> tuple[bool, dict[str, str]]:
    """True if `first` is given by its position, and the parameters that are filled by name.

    Parameters with these names get the values of those names, the first other parameter gets
    `first`; one that nothing fills is refused.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature
        return True, {}
    filled = {p.name: p.name for p in parameters if p.name in named and p.kind in _BY_NAME}
    others = [p for p in parameters if p.name not in filled and p.kind is not p.VAR_KEYWORD]
    foremost = others.pop(0) if others and others[0].kind is not others[0].KEYWORD_ONLY else None
    by_position = foremost is not None and foremost.kind not in _BY_NAME
    if foremost is not None and not by_position:
        filled[foremost.name] = first
    open_ends = [p.name for p in others if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    if open_ends:
        raise InvalidInput(
            f"{name} has a parameter {open_ends[0]!r} that nothing fills",
            hint=describe_filling(first, named),
        )
    return by_position, filled


def describe_filling(first: str, named: Sequence[str]) -> str:
    """The parameters that are filled, for a message about one too many."""
    *some, last = named
    return f"its first parameter gets the {first}, and {', '.join(some)} and {last} get those"


def import_user_module(
    home: str, *, folder: Path | None = None, error: type[InvalidInput] = InvalidInput
) -> ModuleType:
    """A module, or the module of a file, executed once however often it is asked for."""
    here = folder or Path()
    if home.endswith(".py"):
        return _import_file(home, here, error)
    with _put_on_path(home, here.resolve(), error):
        return importlib.import_module(home)


def _import_file(home: str, folder: Path, error: type[InvalidInput]) -> ModuleType:
    path = next((p for p in (folder / home, Path(home)) if p.is_file()), None)
    if path is None:
        raise error(f"there is no file {folder / home}")
    path = path.resolve()
    name = f"{path.stem} ({path})"  # cannot be the name of a real module
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise error(f"{home} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    # Before it runs, as `import` does it: dataclasses look there for the module they are in.
    sys.modules[name] = module
    try:
        with _put_on_path(home, path.parent, error):
            spec.loader.exec_module(module)
    except InvalidInput:
        del sys.modules[name]  # else the next to ask would be given half a module
        raise
    return module


@contextmanager
def _put_on_path(home: str, folder: Path, error: type[InvalidInput]) -> Iterator[None]:
    """Import with a folder on the path."""
    sys.path.insert(0, str(folder))
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as raised:  # noqa: BLE001 (a user's module may raise anything)
        raise error(explain_import_failure(home, raised)) from None
    finally:
        if str(folder) in sys.path:  # the user's code may have changed the path itself
            sys.path.remove(str(folder))


def explain_import_failure(what: str, raised: BaseException) -> str:
    """One sentence with the line where it stopped: the user's own, even in a call of other code."""
    frames = traceback.extract_tb(raised.__traceback__)
    own = [each for each in frames if _is_own(each.filename)]
    stopped = [each for each in (own or frames)[-1:] if not each.filename.startswith("<")]
    place = "".join(f" (at {Path(each.filename).name}:{each.lineno})" for each in stopped)
    return f"{what} cannot be imported: {type(raised).__name__}: {raised}{place}"


def find_raising_line(raised: BaseException) -> str:
    """The last line of the user's own code in the traceback: ` (at agent.py:12 in answer)`.

    Empty where none of it was running, as when a model is a function of an installed package.
    """
    found, step = "", raised.__traceback__
    while step is not None:  # not `extract_tb`, which reads the files: scorers raise by the million
        code = step.tb_frame.f_code
        if _is_own(code.co_filename):
            found = f" (at {Path(code.co_filename).name}:{step.tb_lineno} in {code.co_name})"
        step = step.tb_next
    return found


def find_entry_points(group: str) -> Iterable[EntryPoint]:
    """Entry points of a group in the installed packages; nothing is imported yet."""
    points: Iterable[EntryPoint] = _metadata().entry_points(group=group)
    return points


def find_version(package: str) -> str | None:
    """The version of an installed package; None when it is not installed."""
    metadata = _metadata()
    try:
        return str(metadata.version(package))
    except metadata.PackageNotFoundError:
        return None


def _metadata() -> Any:
    import importlib.metadata  # noqa: PLC0415 (40 ms, seldom needed)

    return importlib.metadata


def read_own_code(used: Iterable[object] = ()) -> tuple[dict[str, bytes], dict[str, str]]:
    """The files of the user's modules that are loaded by now, and the variables that they name.

    The files of the modules of `used` are included even if they are installed. Together they are
    the inputs of a user's code besides its arguments, as far as that can be known without running
    it.
    """
    modules = {getattr(each, "__module__", None) for each in used}
    files: dict[str, bytes] = {}
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and path.endswith(".py") and (name in modules or _is_own(path)):
            with suppress(OSError):
                files[path] = Path(path).read_bytes()
    named = {each.decode() for text in files.values() for each in _NAME.findall(text)}
    return files, {name: os.environ[name] for name in named & os.environ.keys()}


@lru_cache(1024)
def _is_own(path: str) -> bool:
    """True for a file that is neither Python's, nor ours, nor installed."""
    return not path.startswith(("<", *_NOT_OWN)) and _INSTALLED.isdisjoint(Path(path).parts)


def parse_alone(parse: Callable[[], T]) -> T:
    """The result of `parse`, which makes a syntax tree of Python code, without concurrency.

    Before 3.11.8 and 3.12.2, Python counts the depth of all trees in progress together (its issue
    106905): two threads at once raise SystemError, which pauses of the garbage collector make
    likely.
    """
    # Reentrant: the collector may run a finalizer that parses, in the middle of our own tree.
    with _TREE_LOCK[0]:
        for _ in range(_TREE_TRIES):
            with suppress(SystemError):
                return parse()
        return parse()


def _replace_lock() -> None:
    _TREE_LOCK[0] = RLock()


if hasattr(os, "register_at_fork"):  # a child of a fork in the middle would wait for ever
    os.register_at_fork(after_in_child=_replace_lock)

"""Run as a script by stories: what the public Python names are, and what they answer.

    python sdk.py signatures ROOT     every name that the package exports or the docs show
    python sdk.py answers FILE        each expression of a file, and its value or its refusal

Nothing here names a module that could move: rooms are taken from what the docs import today.
"""

from __future__ import annotations

import builtins
import collections.abc
import importlib
import inspect
import re
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WHOLE = (
    "tallymark",
    "tallymark.testing",
    "tallymark.shims.services.challenge_scorer_protocol",
    "tallymark.shims.services.scorers.weighted",
)
"""All that these export is public; of other rooms, what the docs and examples import."""
AMBIGUOUS = {"Case", "Job", "Limits", "Options", "Program", "Record", "Source", "Verdict"}
"""Words that mean several things in the package, so that none of them is promised."""
_IMPORT = re.compile(r"^ *from (tallymark\.\w+) import (?:\(([^)]*)\)|([\w, ]+))", re.MULTILINE)


def main() -> None:
    if sys.argv[1] == "signatures":
        names = dict(sorted(public_names(Path(sys.argv[2])).items()))
        for name, value in names.items():
            sys.stdout.write("".join(f"{line}\n" for line in described(name, value, set(names))))
    else:
        room = {**_rooms(), "raises": raises}
        for line in Path(sys.argv[2]).read_text("utf-8").splitlines():
            if line.strip():
                sys.stdout.write(f">>> {line}\n{answer(line, room)}\n")


def public_names(root: Path) -> dict[str, Any]:
    """What users import, by its name alone."""
    found: dict[str, Any] = {}
    for room in WHOLE:
        module = importlib.import_module(room)
        found |= {name: getattr(module, name) for name in module.__all__}
    for path in sorted(
        [root / "README.md", *root.glob("docs/*.md"), *root.glob("examples/**/*.py")]
    ):
        for room, many, few in _IMPORT.findall(path.read_text("utf-8")):
            for name in re.findall(r"\w+", many or few):
                if name not in AMBIGUOUS:
                    found[name] = getattr(importlib.import_module(room), name)
    return found


def described(name: str, value: Any, public: set[str]) -> Iterator[str]:
    """A name with its signature and first line, and the public members of a class below it."""
    yield f"{_kind(value)} {name}{_signature(value, public)}"
    if (said := inspect.getdoc(value)) and callable(value):
        yield f"    {said.splitlines()[0]}"
    if not inspect.isclass(value):
        return
    if typing.is_typeddict(value):
        yield from (f"    [{key!r}]" for key in value.__annotations__)
        return
    for key in sorted(set(dir(value)) - set(dir(object))):
        if not key.startswith("_") and not _inherited(value, key):
            member = inspect.getattr_static(value, key)
            function = getattr(member, "__func__", getattr(member, "fget", member))
            sign = _signature(function, public) if callable(function) else ""
            yield f"    .{key}{sign}{_labelled(member)}"


def _inherited(value: type, key: str) -> bool:
    """From a library or a builtin: not ours to promise."""
    home = next((base for base in value.__mro__ if key in vars(base)), object)
    return not home.__module__.startswith(("tallymark", "services"))


def _kind(value: Any) -> str:
    if inspect.isclass(value):
        return "class"
    if inspect.ismodule(value):
        return "module"
    return "def" if callable(value) else "value"


def _labelled(member: Any) -> str:
    kinds = {property: " (property)", classmethod: " (classmethod)", staticmethod: " (static)"}
    return kinds.get(type(member), "")


def _signature(value: Any, public: set[str]) -> str:
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    shown = [
        each.replace(annotation=each.empty, default=each.empty)
        for each in found.parameters.values()
    ]
    parts = str(found.replace(parameters=shown, return_annotation=found.empty))[1:-1].split(", ")
    texts = [
        _parameter(part, found.parameters.get(part.strip("*")), public) for part in parts if part
    ]
    returned = _annotation(found.return_annotation, public)
    return f"({', '.join(texts)}){f' -> {returned}' if returned else ''}"


def _parameter(shown: str, parameter: inspect.Parameter | None, public: set[str]) -> str:
    if parameter is None:
        return shown  # the / or the * between parameters
    typed = _annotation(parameter.annotation, public)
    simple = isinstance(parameter.default, str | int | float | bool | None | tuple)
    default = repr(parameter.default) if simple else "..."
    text = f"{shown}: {typed}" if typed else shown
    return text if parameter.default is parameter.empty else f"{text} = {default}"


def _annotation(given: Any, public: set[str]) -> str:
    """Types by their own names; one that is not public is an ellipsis, so that it may move."""
    if given is inspect.Parameter.empty:
        return ""
    text = given if isinstance(given, str) else inspect.formatannotation(given)
    text = re.sub(r"\b(?:\w+\.)+(?=\w)", "", text)
    known = public | set(dir(builtins)) | set(dir(typing)) | set(dir(collections.abc))
    words = re.sub(r"'[^']*'|\"[^\"]*\"", "", text)
    for word in set(re.findall(r"[A-Za-z_]\w*", words)) - known:
        text = re.sub(rf"(?<!['\"\w]){word}(?!['\"\w])", "...", text)
    return text


def _rooms() -> dict[str, Any]:
    names: dict[str, Any] = {"math": importlib.import_module("math")}
    for room in ("tallymark", "tallymark.formula", "tallymark.dimensions", "tallymark.ratings"):
        module = importlib.import_module(room)
        names |= {name: getattr(module, name) for name in module.__all__}
    testing = importlib.import_module("tallymark.testing")
    return names | {name: getattr(testing, name) for name in testing.__all__}


def answer(line: str, room: dict[str, Any]) -> str:
    """The value of an expression, or what was raised, in one line."""
    try:
        return repr(eval(line, room))
    except Exception as error:  # noqa: BLE001 (whatever is raised is an answer)
        return f"{type(error).__name__}: {error}"


def raises(error: BaseException) -> Any:
    """For expressions that need something that fails."""
    raise error


if __name__ == "__main__":
    main()

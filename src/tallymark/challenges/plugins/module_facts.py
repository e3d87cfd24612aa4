"""Imports and definitions of a Python file as plain data, without running it.

Small files are read by the host. Larger ones are read by this very file in the sandbox, as a
program: parsing takes hundreds of times their size. So it uses only the standard library.
"""

from __future__ import annotations

import ast
import json
import sys
import warnings
from collections.abc import Iterator
from typing import Any


def read_facts(content: bytes) -> dict[str, Any]:
    """`imports`: level, module and names of each; `bound`: what each name of the module is.

    With `error`, why it is no Python, and where.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd escapes and the like, which are not ours
            tree = ast.parse(content)
            return {"imports": list(_find_imports(tree)), "bound": dict(_find_bound(tree.body))}
    except SyntaxError as error:
        return {"error": [error.msg, error.lineno, error.offset]}
    except (ValueError, RecursionError, MemoryError) as error:
        return {"error": [str(error) or "it is nested too deeply", None, None]}


def _find_imports(tree: ast.Module) -> Iterator[list[Any]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield [None, None, [alias.name for alias in node.names]]
        elif isinstance(node, ast.ImportFrom):
            yield [node.level, node.module, [alias.name for alias in node.names]]


def _find_bound(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    for name, node in _find_bound_names(body):
        yield name, _name_kind(node)


def _name_kind(node: ast.stmt) -> str:
    """A name that is imported or assigned may be a class: only running the file would show."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return "function"
    if not isinstance(node, ast.ClassDef):
        return "other"
    # What a class inherits is not looked at.
    scores = node.bases or "score" in dict(_find_bound_names(node.body))
    return "class" if scores else "class without score"


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


if __name__ == "__main__":
    sys.stdout.write(json.dumps(read_facts(sys.stdin.buffer.read())))

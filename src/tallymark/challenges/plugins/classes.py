"""Whether a module's text defines the class that a reference names."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tallymark.errors import ScorerError, suggest


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

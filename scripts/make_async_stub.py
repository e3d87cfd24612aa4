"""Writes `client/async_resources.pyi`, the types of the awaitable methods: `make client`.

A test compares what is there with what this would write.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from tallymark.service.resources import load_resources

STUB = Path(__file__).parents[1] / "src" / "tallymark" / "client" / "async_resources.pyi"
NOTE = """# Written by `make client` from the operations in service/: change those.
# ruff: noqa: I001
"""


def write_stub() -> str:
    """Write the text of the stub."""
    modules: set[str] = set()
    lines: list[str] = []
    for kind in load_resources():
        qualify = _Qualifier(sys.modules[kind.__module__], modules)
        methods = [
            f"    async def {name}{qualify.write_signature(each.run)}: ..."
            for name, each in kind.operations().items()
        ]
        for name, method in vars(kind).items():
            if hasattr(method, "stream_path"):
                signature = qualify.write_signature(method).replace(".Iterator[", ".AsyncIterator[")
                methods.append(f"    def {name}{signature}: ...")
        if methods:
            lines += [f"class Async{kind.__name__}:", *methods]
    imports = [f"import {module}" for module in sorted(modules)]
    text = NOTE + "\n".join([*imports, *lines, ""])
    for words in (["check", "--fix", "-q", "--select", "I"], ["format", "-q"]):
        done = subprocess.run(
            [Path(sys.executable).parent / "ruff", *words, "--stdin-filename", str(STUB), "-"],
            input=text,
            capture_output=True,
            text=True,
            check=True,
        )
        text = done.stdout
    return text


class _Qualifier(ast.NodeTransformer):
    """Rewrites annotations of one module so that they hold in another."""

    def __init__(self, module: ModuleType, modules: set[str]) -> None:
        tree = ast.parse(inspect.getsource(module))
        self._homes = {
            alias.asname or alias.name: each.module
            for each in ast.walk(tree)
            if isinstance(each, ast.ImportFrom)
            for alias in each.names
        }
        self._module = module
        self._modules = modules

    def write_signature(self, method: Callable[..., Any]) -> str:
        signature = inspect.signature(method)
        arguments = "".join(
            f", {key}: {self.write(arg.annotation)}"
            + ("" if arg.default is arg.empty else " = ...")
            for key, arg in list(signature.parameters.items())[1:]
        )
        return f"(self{arguments}) -> {self.write(signature.return_annotation)}"

    def write(self, annotation: str) -> str:
        return ast.unparse(self.visit(ast.parse(annotation, mode="eval")))

    def visit_Name(self, node: ast.Name) -> ast.expr:
        home = self._homes.get(node.id) or ""
        # A record belongs to the service of its subject, wherever it is made.
        if not home or home.startswith("tallymark.store"):
            if not hasattr(self._module, node.id):
                return node
            home = self._module.__name__
        self._modules.add(home)
        return ast.Attribute(ast.Name(home), node.id)


if __name__ == "__main__":
    STUB.write_text(write_stub(), encoding="utf-8")

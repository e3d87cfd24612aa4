"""What the package needs is pinned and declared; what is built is the same every time."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from scripts.dependencies import find_dependencies, list_extras, read_pins, read_project
from tests.container_file import copy_sources

ROOT = Path(__file__).parents[1]
NAMES = {
    "backports": "backports-zstd",
    "compression": None,  # in Python's library since 3.14
    "fastmcp": "fastmcp-slim",
    "google.protobuf": "protobuf",
    "jsonschema_specifications": "jsonschema-specifications",
    "markdown_it": "markdown-it-py",
    "opentelemetry.context": "opentelemetry-api",
    "opentelemetry.proto": "opentelemetry-proto",
    "opentelemetry.sdk": "opentelemetry-sdk",
    "opentelemetry.trace": "opentelemetry-api",
    "pydantic_ai": "pydantic-ai-slim",
    "yaml": "pyyaml",
}
"""Packages that are not called like what is imported from them."""
LICENCES = {
    *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "CNRI-Python", "ISC"),
    *("LGPL-3.0-only", "MIT", "MIT-0", "MPL-2.0", "PSF-2.0", "Unlicense", "Zlib"),
    # As classifiers and older metadata call them.
    *("3-Clause BSD License", "Apache 2.0", "Apache Software License", "BSD License"),
    *("ISC License ISCL", "MIT License", "Mozilla Public License 2.0 MPL 2.0"),
    *("The Unlicense Unlicense", "Python Software Foundation License"),
}
"""What may be needed by a package under Apache-2.0; libraries under the LGPL or MPL stay theirs."""
BROUGHT = {"deepeval", "inspect-ai", "pydantic-evals", "pytest"}
"""Libraries that a user has, whose scorers or tests we take."""


def test_all_that_an_install_brings_is_pinned_and_under_a_known_licence() -> None:
    pins = read_pins()
    found = find_dependencies(list_extras(read_project()))
    assert [name for name in found if name not in pins] == []
    shipped = find_dependencies()
    assert [name for name, each in shipped.items() if each.licence is None] == []
    assert {
        each.name: each.licence
        for each in shipped.values()
        if not set(re.split(" AND | OR ", re.sub("[()]", "", each.licence or ""))) <= LICENCES
    } == {}


def test_pins_are_what_the_project_asks_for() -> None:
    pins = read_pins()
    for texts in list_extras(read_project()).values():
        for wanted in map(Requirement, texts):
            pin = pins.get(canonicalize_name(wanted.name))
            assert pin is None or wanted.specifier.contains(pin, prereleases=True), (wanted, pin)


@pytest.mark.parametrize("line", ["numpy", "numpy>=2", "numpy==2.*", "-e .", "==1"])
def test_a_line_that_pins_nothing_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "constraints.txt"
    path.write_text(f"pyyaml==6.0.1\n{line}\n")
    with pytest.raises(ValueError, match=r"constraints.txt, line 2: "):
        read_pins(path)


def test_what_is_imported_is_declared() -> None:
    """Not only brought by another package, which may stop doing so; see tests/test_wheel.py too."""
    extras = list_extras(read_project())
    declared = {
        canonicalize_name(Requirement(text).name)
        for extra, texts in extras.items()
        if extra != "dev"
        for text in texts
    }
    undeclared = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / "src").rglob("*.py")
        for name in find_imports(path)
        if name not in declared | BROUGHT
    }
    assert not undeclared


def find_imports(path: Path) -> set[str]:
    """The packages of others that a module imports, anywhere in it."""
    modules: list[str] = []
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            modules += [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules += [f"{node.module}.{each.name}" for each in node.names]
    found: set[str] = set()
    for module in modules:
        first, *rest = module.split(".")
        if first not in {*sys.stdlib_module_names, "tallymark"}:
            name = NAMES.get(".".join((first, *rest[:1])), NAMES.get(first, first))
            found |= {canonicalize_name(name)} if name else set()
    return found


def build(folder: Path, mode: int, mask: int) -> dict[str, str]:
    """The hashes of wheel and sdist, built from a copy whose files have these rights."""
    folder.mkdir()
    copy_sources(folder)
    for path in folder.rglob("*"):
        if path.is_file():
            path.chmod(mode)
            os.utime(path, (mode * 1e6, mode * 1e6))
    words = ["-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", "dist"]
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        umask=mask,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (folder / "dist").iterdir()
    }


@pytest.mark.proof
def test_two_builds_are_the_same_to_the_byte(tmp_path: Path) -> None:
    """In other folders, from files of other times and rights, under another umask."""
    first = build(tmp_path / "one", 0o644, 0o022)
    assert len(first) == 2
    assert build(tmp_path / "another-place", 0o600, 0o077) == first

"""Imports flow downhill. The table is the architecture; code that disagrees with it fails here."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "tallymark"

LEVELS = {
    "errors": 0,
    "text": 0,
    "instrumentation": 0,
    "importing": 0,
    "installation": 0,
    "event_loops": 0,
    "abandonable_calls": 0,
    "document_names": 0,
    "parquet_rows": 0,
    "parquet_trial": 0,
    "documents": 1,
    "charts": 1,
    "formula": 1,
    "ratings": 1,
    "traces": 1,
    "scoring": 2,
    "models": 2,
    "judging": 3,
    "dimensions": 3,
    "sandbox": 3,
    "scorers": 4,
    "runs": 5,
    "suites": 6,
    "challenges": 6,
    "store": 7,
    "engine": 7,
    "service": 8,
    "client": 9,
    "http": 9,
    "web": 9,
    "mcp": 9,
    "connections": 9,
    "server": 10,
    "cli": 11,
    # Beside the rooms: what users import to test their own scorers and suites.
    "shims": 3,
    "testing": 7,
    "pytest_plugin": 7,
    "__init__": 7,
}
# Where a room may use less than everything below it.
ONLY = {
    "formula": {"errors", "text"},
    "ratings": {"errors"},
    # Code inside the sandbox sees these two and `formula`, so they need little themselves.
    "traces": {"errors", "text"},
    "scoring": {
        *("errors", "text", "importing", "event_loops", "abandonable_calls"),
        *("traces", "formula"),
    },
    "sandbox": {"errors", "text", "scoring", "instrumentation", "document_names"},
}
# A sibling of the same level, by file: whoever else wants one is in the wrong room.
SIBLINGS = {
    "mcp/stdio.py": {"client"},  # passes the calls of a local agent on to a server
    "challenges/evaluators/suite.py": {"suites"},  # an evaluator that runs a suite
    "importing.py": {"errors"},
    "traces/otlp_proto.py": {"installation"},
    "installation.py": {"errors"},
    "parquet_rows.py": {"errors", "installation"},
    "parquet_trial.py": {"errors", "parquet_rows"},
}

# Doors show what operations answer: no other way leads them to the store.
DOORS = {"http", "client", "mcp", "web", "cli", "server", "connections"}


def allowed(path: Path, room: str) -> set[str]:
    lower = {other for other, level in LEVELS.items() if level < LEVELS[room]}
    named = SIBLINGS.get(path.relative_to(SOURCE).as_posix(), set())
    return ONLY.get(room, lower) | named | {room}


def rooms() -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found.setdefault(parts[0], []).append(path)
    return found


def imported_rooms(path: Path) -> set[str]:
    """The rooms that a file imports anywhere, late imports and those for types included."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where a name comes from"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    ours = [name.split(".") for name in names if name.split(".")[0] == "tallymark"]
    return {parts[1] if parts[1] in LEVELS else "__init__" for parts in ours if len(parts) > 1}


def test_every_room_is_in_the_table() -> None:
    assert set(rooms()) <= set(LEVELS)


@pytest.mark.parametrize("room", sorted(rooms()))
def test_a_room_imports_only_what_lies_below_it(room: str) -> None:
    for path in rooms()[room]:
        wrong = imported_rooms(path) - allowed(path, room)
        assert not wrong, f"{path.relative_to(SOURCE)} may not import {sorted(wrong)}"


def uses_store(path: Path) -> bool:
    """Whether a file imports the store, or reaches one through what the service hands out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    reached = any(
        isinstance(node, ast.Attribute) and node.attr == "store" for node in ast.walk(tree)
    )
    return reached or "store" in imported_rooms(path)


def test_no_door_uses_the_store() -> None:
    doors = [path for room in DOORS & set(rooms()) for path in rooms()[room]]
    doors += [SOURCE / "client" / "async_resources.pyi"]
    found = {path.relative_to(SOURCE).as_posix() for path in doors if uses_store(path)}
    assert found == set(), "ask an operation instead"


def test_a_sibling_is_named_only_where_it_is_used() -> None:
    for name, siblings in SIBLINGS.items():
        assert siblings <= imported_rooms(SOURCE / name), f"{name} no longer needs {siblings}"


@pytest.mark.parametrize("name", ["utils", "common", "helpers", "core"])
def test_there_is_no_room_without_a_meaning(name: str) -> None:
    assert not list(SOURCE.rglob(f"{name}*"))


def test_the_map_has_a_line_for_every_room() -> None:
    text = (SOURCE.parents[1] / "docs" / "map.md").read_text(encoding="utf-8")
    for room in rooms():
        if room != "__init__":
            assert f"`{room}" in text, f"docs/map.md does not mention {room}"

"""Imports flow downhill. The table is the architecture; code that disagrees with it fails here."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "tallymark"

LEVELS = {
    "errors": 0,
    "text": 0,
    "importing": 0,
    "formula": 0,
    "ratings": 0,
    "traces": 0,
    "scoring": 1,
    "scorers": 2,
    "dimensions": 2,
    "sandbox": 2,
    "models": 2,
    "suites": 3,
    "challenges": 3,
    "store": 4,
    "engine": 4,
    "running": 5,
    "competition": 5,
    "app": 5,
    "api": 6,
    "web": 6,
    "cli": 6,
}
# Where a room may use less than everything below it.
ONLY = {
    "errors": set(),
    "text": set(),
    "importing": {"errors"},
    "formula": {"errors"},
    "ratings": {"errors"},
    "traces": {"errors"},
    "scoring": {"errors", "importing", "traces", "formula"},
    "scorers": {"errors", "text", "importing", "scoring", "traces", "models"},
    "dimensions": {"errors", "scoring"},
    "sandbox": {"errors", "scoring"},
    "models": {"errors", "importing", "traces"},
    # A sibling by name: the evaluator `suite` runs suites, and both read YAML the same way.
    "challenges": {room for room, level in LEVELS.items() if level <= 2} | {"suites"},
    "app": {room for room, level in LEVELS.items() if level <= 4} | {"running", "competition"},
    # Modules beside the rooms.
    "client": {room for room, level in LEVELS.items() if level <= 3},
    "testing": {room for room, level in LEVELS.items() if level <= 3},
    "pytest_plugin": {room for room, level in LEVELS.items() if level <= 3},
    "__init__": {room for room, level in LEVELS.items() if level <= 3},
}


def allowed(room: str) -> set[str]:
    if room in ONLY:
        return ONLY[room] | {room}
    return {other for other, level in LEVELS.items() if level < LEVELS[room]} | {room, "errors"}


def rooms() -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found.setdefault(parts[0], []).append(path)
    return found


def imported_rooms(path: Path) -> set[str]:
    """The rooms that a file imports anywhere, late imports included."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where a name comes from"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    ours = [name.split(".") for name in names if name.split(".")[0] == "tallymark"]
    return {parts[1] for parts in ours if len(parts) > 1 and parts[1] in (*LEVELS, *ONLY)}


def test_every_room_is_in_the_table() -> None:
    assert set(rooms()) <= set(LEVELS) | set(ONLY)


@pytest.mark.parametrize("room", sorted(rooms()))
def test_a_room_imports_only_what_lies_below_it(room: str) -> None:
    for path in rooms()[room]:
        wrong = imported_rooms(path) - allowed(room)
        assert not wrong, f"{path.relative_to(SOURCE)} may not import {sorted(wrong)}"


@pytest.mark.parametrize("name", ["utils", "common", "helpers", "core"])
def test_there_is_no_room_without_a_meaning(name: str) -> None:
    assert not list(SOURCE.rglob(f"{name}*"))


def test_the_map_has_a_line_for_every_room() -> None:
    text = (SOURCE.parents[1] / "docs" / "map.md").read_text(encoding="utf-8")
    for room in rooms():
        if room != "__init__":
            assert f"`{room}" in text, f"docs/map.md does not mention {room}"

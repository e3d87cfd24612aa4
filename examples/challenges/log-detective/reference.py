"""Solve the log as described in the goal."""

from __future__ import annotations

from typing import Any


def solve(data: dict[str, Any]) -> dict[str, Any]:
    lines = [line.split() for line in data["access.log"].splitlines()]
    failed: dict[str, set[str]] = {}
    entered: dict[str, list[str]] = {}
    for _, address, what, *rest in lines:
        if what == "login":
            name, outcome = rest
            if outcome == "failed":
                failed.setdefault(address, set()).add(name)
            else:
                entered.setdefault(address, []).append(name)
    attacker = next(a for a, names in failed.items() if len(names) >= 5 and a in entered)
    own = [(number, line) for number, line in enumerate(lines, 1) if line[1] == attacker]
    return {
        "attacker": attacker,
        "first_seen": own[0][1][0],
        "accounts": entered[attacker],
        "files": [line[3] for _, line in own if line[2] == "download"],
        "evidence": [number for number, _ in own],
    }

"""Evaluate a route: length, stops, and the stated lengths of its legs."""

from __future__ import annotations

from itertools import pairwise
from math import dist
from typing import Any


def evaluate(submission: Any, truth: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    chart = data["public"]["map.json"]
    start, places = chart["start"], chart["places"]
    given = submission if isinstance(submission, dict) else {}
    route, legs = given.get("route"), given.get("legs")
    if not isinstance(route, list) or not all(isinstance(n, str) and n in places for n in route):
        problem = "the route is no list of places on the map"
        return {"dimensions": _scores(0, 0, 0), "succeeded": False, "warnings": [problem]}

    lengths = [dist(places[a], places[b]) for a, b in pairwise(route)]
    once = [name for name in places if name != start and route.count(name) == 1]
    complete = len(once) / (len(places) - 1)
    whole = complete == 1 and len(route) == len(places) + 1 and route[0] == route[-1] == start
    longer = sum(lengths) / truth["shortest"] - 1 if whole else 1
    told = legs if isinstance(legs, list) and len(legs) == len(lengths) else []
    right = sum(_is_near(leg, length) for leg, length in zip(told, lengths, strict=False))
    sums = right / len(lengths) if whole else 0
    return {
        "dimensions": _scores(max(0, 1 - 5 * longer), sums, complete),
        "succeeded": longer < 0.001,
        "metrics": {"kilometres": sum(lengths)},
    }


def _scores(short: float, sums: float, complete: float) -> dict[str, float]:
    """Convert shares to points. The length counts 0 from 20 % above the shortest route."""
    return {
        "correctness": 1000 * min(1, short),
        "methodology": 1000 * sums,
        "completeness": 1000 * complete,
    }


def _is_near(leg: Any, length: float) -> bool:
    return isinstance(leg, (int, float)) and not isinstance(leg, bool) and abs(leg - length) <= 0.01

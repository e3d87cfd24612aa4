"""Find the shortest route by brute force over seven stops."""

from __future__ import annotations

from itertools import pairwise, permutations
from math import dist
from typing import Any


def solve(data: dict[str, Any]) -> dict[str, Any]:
    start, places = data["map.json"]["start"], data["map.json"]["places"]
    stops = [name for name in places if name != start]
    trips = ([start, *order, start] for order in permutations(stops))
    route = min(trips, key=lambda trip: sum(_legs(places, trip)))
    return {"route": route, "legs": [round(leg, 2) for leg in _legs(places, route)]}


def _legs(places: dict[str, list[int]], trip: list[str]) -> list[float]:
    return [dist(places[a], places[b]) for a, b in pairwise(trip)]

"""Generate a start, seven stops, and the length of the shortest round trip."""

from __future__ import annotations

import random
from itertools import pairwise, permutations
from math import dist
from typing import Any

STOPS = ["Ashby", "Birch", "Cove", "Dunes", "Elm", "Ford", "Glen"]


def generate(seed: int) -> dict[str, Any]:
    rng = random.Random(seed)  # noqa: S311 (the same map for the same seed)
    places = {name: [rng.randint(0, 99), rng.randint(0, 99)] for name in ["Depot", *STOPS]}
    shortest = min(length(places, ["Depot", *order, "Depot"]) for order in permutations(STOPS))
    return {
        "public": {"map.json": {"start": "Depot", "places": places}},
        "truth": {"shortest": shortest},
    }


def length(places: dict[str, list[int]], route: list[str]) -> float:
    return sum(dist(places[a], places[b]) for a, b in pairwise(route))

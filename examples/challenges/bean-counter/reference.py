"""Count the beans as described in the goal."""

from __future__ import annotations

import json
from typing import Any


def solve(data: dict[str, Any]) -> dict[str, Any]:
    jar = json.loads(data["layers.json"])
    layers = [layer["side"] ** 2 - layer["missing"] for layer in jar["layers"]]
    return {"layers": layers, "total": sum(layers), "volume_ml": sum(layers) * jar["bean_ml"]}

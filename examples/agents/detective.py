"""An agent for the challenge log-detective: it reads the log as a careful person would.

No model is asked. It shows how little an agent needs to compete:

    tally compete log-detective --function detective.py:solve
    tally compete log-detective --program "python detective.py"
"""

from __future__ import annotations

import json
import sys
from typing import Any


def solve(data: dict[str, Any]) -> dict[str, Any]:
    """The answer, from the files of the challenge."""
    lines = [line.split() for line in data["access.log"].splitlines()]
    logins = [line for line in lines if line[2] == "login"]
    for address in {line[1] for line in lines}:
        tried = {who for _, by, _, who, outcome in logins if (by, outcome) == (address, "failed")}
        entered = [who for _, by, _, who, outcome in logins if (by, outcome) == (address, "ok")]
        if len(tried) >= 5 and entered:
            own = [number for number, line in enumerate(lines, 1) if line[1] == address]
            return {
                "attacker": address,
                "first_seen": lines[own[0] - 1][0],
                "accounts": entered,
                "files": [lines[n - 1][3] for n in own if lines[n - 1][2] == "download"],
                "evidence": own,
            }
    raise ValueError("nobody in the log did what the goal describes")


if __name__ == "__main__":  # as a program: the brief comes in, the answer goes out
    print(json.dumps(solve(json.load(sys.stdin)["data"])))

"""The example prints the document's response."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "dimensions.py"


def test_the_example_prints_823_and_the_documents_breakdown() -> None:
    finished = subprocess.run(
        [sys.executable, "-W", "error", EXAMPLE], capture_output=True, text=True, check=True
    )
    response = json.loads(finished.stdout)
    assert (response["score"], response["result"]) == (823, "win")
    assert response["score_breakdown"]["methodology"] == {
        "score": 690,
        "weight": 0.15,
        "weighted": 103.5,
    }

"""What a guest of a plugin sees."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sandbox.backends import FIRST

from tallymark.sandbox import PluginCode, Policy, Sandbox


def code(root: Path, module: str = "scorer") -> PluginCode:
    return PluginCode("x", root, module, "Plugin", "x")


SCORER = """
class Plugin:
    def score(self, metrics, config, ctx):
        return {"score": float(VALUE)}
"""


@pytest.mark.parametrize("backend", FIRST)
@pytest.mark.parametrize(
    ("files", "value"),
    [
        (
            {"scorer.py": "import services.scorers.weighted as ours\nVALUE = len(dir(ours)) > 0\n"},
            1.0,
        ),
        (
            {
                "scorer.py": "from services.challenge_scorer_protocol import VALUE\n",
                "services/challenge_scorer_protocol.py": "VALUE = 3",
            },
            3.0,
        ),
        (
            {
                "scorer.py": "import services.own\nfrom services.challenge_scorer_protocol import "
                "AttemptMetrics\nVALUE = services.own.VALUE\n",
                "services/__init__.py": "",
                "services/own.py": "VALUE = 4",
            },
            4.0,
        ),
        (
            {
                "scorer.py": "from services.own import VALUE\n"
                "from services.scorers.weighted import WeightedScorer\n",
                "services/own.py": "VALUE = 5",
            },
            5.0,
        ),
        ({"scorer.py": "from json import VALUE\n", "json.py": "VALUE = 6"}, None),
        ({"scorer.py": "from beside.it import VALUE\n", "beside/it.py": "VALUE = 7"}, 7.0),
    ],
    ids=["ours", "its own", "its own package", "both", "the library wins", "a package beside it"],
)
def test_services_may_be_ours_or_the_plugins_own(
    tmp_path: Path, backend: str, files: dict[str, str], value: float | None
) -> None:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text + (SCORER if name == "scorer.py" else ""), encoding="utf-8")
    with Sandbox(Policy(backend)) as sandbox:  # type: ignore[arg-type] # one of FIRST
        score = sandbox.score(code(tmp_path), {}, {}, {})
    assert score.value == value, score.error

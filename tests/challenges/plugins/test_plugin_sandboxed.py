"""Plugins that are somebody's code, in the real sandbox."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.challenges.plugins.plugin_folders import SCORER, folder_with, install

from tallymark.challenges.plugins import check_plugin, load_plugin
from tallymark.challenges.plugins.plugin_check import ORDINARY
from tallymark.errors import WorkFailed
from tallymark.sandbox import Sandbox
from tallymark.scoring import Origin, Score

EXAMPLES = Path(__file__).parents[3] / "examples" / "plugins"
TELLING = """
class Mine:
    def score(self, metrics, config, ctx):
        return {"score": 1, "details": {"metrics": metrics, "config": config, "ctx": ctx}}
"""


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as sandbox:
        yield sandbox


def scored(text: str, folder: Path, sandbox: Sandbox, **metrics: Any) -> Score:
    folder_with(folder, {"custom.py": text})
    return load_plugin("custom.py:Mine", folder=folder, sandbox=lambda: sandbox).score(
        metrics, {}, {}
    )


def test_without_a_sandbox_there_is_no_plugin(tmp_path: Path) -> None:
    folder_with(tmp_path, {"custom.py": SCORER})
    with pytest.raises(WorkFailed, match=r"custom.py:Mine is Python code, and there is no sandbox"):
        load_plugin("custom.py:Mine", folder=tmp_path, sandbox=None)


@pytest.mark.parametrize(
    ("metrics", "value"),
    [
        ({"succeeded": True, "rating": 8}, 16.0),
        ({"succeeded": False, "rating": 8}, 0.0),
        ({"succeeded": True}, 0.0),
        ({"succeeded": True, "rating": None}, 0.0),
        ({}, 0.0),
    ],
    ids=["succeeded", "failed", "without rating", "null rating", "nothing known"],
)
def test_the_documents_my_custom_scorer_with_multiplier_2_0(
    metrics: dict[str, Any], value: float, sandbox: Sandbox
) -> None:
    plugin = load_plugin("custom.py:MyCustomScorer", folder=EXAMPLES, sandbox=lambda: sandbox)
    score = plugin.score(metrics, {"multiplier": 2.0}, {})
    assert (score.error, score.value) == (None, value)
    assert score.metadata["details"] == {"multiplier_used": 2.0}
    assert score.origin == Origin("custom.py:MyCustomScorer", plugin.code_hash, {"multiplier": 2.0})


@pytest.mark.parametrize(
    "packages",
    [
        [],
        ["services/scorers/__init__.py"],
        ["services/__init__.py", "services/scorers/__init__.py"],
    ],
    ids=["no packages", "scorers is a package", "services is one too"],
)
def test_the_documents_entrypoint_services_scorers_custom(
    packages: list[str], sandbox: Sandbox, tmp_path: Path
) -> None:
    text = (EXAMPLES / "custom.py").read_text()
    folder_with(tmp_path, {"services/scorers/custom.py": text} | dict.fromkeys(packages, ""))
    reference = "services.scorers.custom:MyCustomScorer"
    plugin = load_plugin(reference, folder=tmp_path, sandbox=lambda: sandbox)
    score = plugin.score({"succeeded": True, "rating": 8}, {"multiplier": 2.0}, {})
    assert (score.error, score.value) == (None, 16.0)


def test_it_gets_the_metrics_that_are_known_the_config_and_the_context(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    folder_with(tmp_path, {"custom.py": TELLING})
    plugin = load_plugin("custom.py:Mine", folder=tmp_path, sandbox=lambda: sandbox)
    context = {"challenge_id": "c-1", "end_user_id": None, "timeout_ms": 1}
    alone = plugin.score({**ORDINARY, "rating": None}, {"a": [1]}, context, timeout_s=2.5)
    (batched,) = plugin.score_many([{**ORDINARY, "rating": None}], {"a": [1]}, context, 2.5)
    known = {name: value for name, value in ORDINARY.items() if name != "rating"}
    assert alone.metadata["details"] == batched.metadata["details"]
    assert alone.metadata["details"] == {
        "metrics": known,
        "config": {"a": [1]},
        "ctx": {"challenge_id": "c-1", "end_user_id": None, "timeout_ms": 2500},
    }


def test_the_default_timeout_is_5_s(sandbox: Sandbox, tmp_path: Path) -> None:
    score = scored(TELLING, tmp_path, sandbox)
    assert score.metadata["details"]["ctx"]["timeout_ms"] == 5000


@pytest.mark.parametrize(
    ("body", "stopped", "error"),
    [
        ("raise ValueError('no')", "raised", "ValueError: no"),
        ("return 16.0", "bad answer", 'a plugin gives back {"score": number}, not 16.0'),
        ("return {'score': float('nan')}", "bad answer", "the score is a finite number, not nan"),
        ("import numpy", "raised", "ModuleNotFoundError: No module named 'numpy'"),
        ("open(__file__.replace('custom.py', 'truth.json'))", "raised", "FileNotFoundError"),
    ],
    ids=["exception", "no mapping", "nan", "foreign import", "a file beside it"],
)
def test_what_goes_wrong_is_a_failed_score(
    body: str, stopped: str, error: str, sandbox: Sandbox, tmp_path: Path
) -> None:
    folder_with(tmp_path, {"truth.json": "{}"})
    text = f"class Mine:\n    def score(self, metrics, config, ctx):\n        {body}\n"
    score = scored(text, tmp_path, sandbox)
    assert (score.value, score.metadata["stopped"]) == (None, stopped)
    assert error in (score.error or "")
    assert score.origin is not None
    assert score.origin.scorer == "custom.py:Mine"


def test_a_negative_score_is_raised_to_0(sandbox: Sandbox, tmp_path: Path) -> None:
    score = scored(SCORER, tmp_path, sandbox, rating=-5)
    assert (score.value, score.metadata["clamped_from"]) == (0.0, -5.0)


def test_it_may_import_from_its_folder(sandbox: Sandbox, tmp_path: Path) -> None:
    folder_with(tmp_path, {"lib/__init__.py": "", "lib/base.py": SCORER})
    score = scored("from lib.base import Mine\n", tmp_path, sandbox, rating=7)
    assert (score.error, score.value) == (None, 7.0)


def test_an_installed_plugin_runs(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "thrifty_pack/__init__.py": "from thrifty_pack.base import Mine",
        "thrifty_pack/base.py": SCORER,
    }
    install(tmp_path, "thrifty-pack", "thrifty = thrifty_pack:Mine", files)
    monkeypatch.syspath_prepend(tmp_path)
    plugin = load_plugin("thrifty", folder=tmp_path / "elsewhere", sandbox=lambda: sandbox)
    assert plugin.score({"rating": 7}, {}, {}).value == 7.0


def test_the_code_that_was_hashed_is_the_code_that_runs(sandbox: Sandbox, tmp_path: Path) -> None:
    folder_with(tmp_path, {"custom.py": SCORER})
    before = load_plugin("custom.py:Mine", folder=tmp_path, sandbox=lambda: sandbox)
    folder_with(tmp_path, {"custom.py": SCORER.replace("config.get", "10 * config.get")})
    after = load_plugin("custom.py:Mine", folder=tmp_path, sandbox=lambda: sandbox)
    scores = [plugin.score({"rating": 7}, {}, {}) for plugin in (before, after, before)]
    assert [score.value for score in scores] == [7.0, 70.0, 7.0]
    assert [score.origin.version for score in scores if score.origin] == [
        before.code_hash,
        after.code_hash,
        before.code_hash,
    ]


def test_many_are_scored_as_each_alone(sandbox: Sandbox, tmp_path: Path) -> None:
    folder_with(tmp_path, {"custom.py": SCORER})
    plugin = load_plugin("custom.py:Mine", folder=tmp_path, sandbox=lambda: sandbox)
    attempts: list[dict[str, Any]] = [{"rating": 3}, {}, {"rating": None}, {"rating": "x"}]
    many = plugin.score_many(attempts * 5, {}, {})
    assert many == [plugin.score(metrics, {}, {}) for metrics in attempts] * 5


def test_each_of_many_has_its_own_user(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "who.py").write_text(
        "class Who:\n"
        "    def score(self, metrics, config, ctx):\n"
        "        return {'score': len(ctx['end_user_id'])}\n"
    )
    plugin = load_plugin("who:Who", folder=tmp_path, sandbox=lambda: sandbox)
    users = ["a" * length for length in range(1, 40)]
    scores = plugin.score_many([{}] * 39, {}, {"end_user_id": None}, users=users)
    assert [score.value for score in scores] == list(range(1, 40))


def test_the_check_finds_chance(sandbox: Sandbox, tmp_path: Path) -> None:
    folder_with(
        tmp_path,
        {
            "custom.py": "import random\n"
            + SCORER.replace('metrics.get("rating", 0)', "random.random()")
        },
    )
    report = check_plugin(
        load_plugin("custom.py:Mine", folder=tmp_path, sandbox=lambda: sandbox), {}
    )
    assert report.problems[0].startswith("not deterministic: ordinary: 0.")

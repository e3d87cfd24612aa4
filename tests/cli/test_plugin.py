"""`tally plugin check | paused | resume`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.tally_process import Tally

ROOT = Path(__file__).parents[2]
CUSTOM = """
from services.challenge_scorer_protocol import AttemptMetrics

class Mine:
    def score(self, metrics, config, ctx):
        return {"score": metrics.get("rating", 0) * config["multiplier"]}
"""


@pytest.fixture
def tally(tmp_path: Path) -> Tally:
    (tmp_path / "custom.py").write_text(CUSTOM)
    return Tally(tmp_path)


def test_a_plugin_that_passes(tally: Tally) -> None:
    done = tally("plugin", "check", "custom.py:Mine", "--config", "multiplier=2.5")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "custom.py:Mine"
    assert lines[2] == 'config   {"multiplier": 2.5}'
    assert lines[5].split() == ["ordinary", "20", "20"]
    assert lines[-1] == "this plugin passes the check"


def test_a_plugin_that_does_not_pass_exits_with_1(tally: Tally) -> None:
    done = tally("plugin", "check", "custom.py:Mine")
    assert done.returncode == 1
    assert "problem  no score: " in done.stdout
    assert "raised KeyError: 'multiplier' (line 6 of custom.py) (ordinary and 37" in done.stdout
    assert done.stdout.endswith("this plugin does not pass the check\n")


def test_the_config_file_and_single_values_over_it(tally: Tally) -> None:
    (tally.folder / "config.json").write_text('{"multiplier": 1.0, "note": "x"}')
    arguments = ["plugin", "check", "custom:Mine", "--config-file", "config.json"]
    report = tally.json(*arguments, "-c", "multiplier=3", "-c", "more=plain text")
    assert report["config"] == {"multiplier": 3, "note": "x", "more": "plain text"}
    assert report["attempts"][0]["score"] == 24.0


def test_the_timeout_is_enforced(tally: Tally) -> None:
    slow = CUSTOM.replace("        return", "        while True: pass\n        return")
    (tally.folder / "slow.py").write_text(slow)
    done = tally("plugin", "check", "slow.py:Mine", "--timeout", "0.2", "--json")
    report = json.loads(done.stdout)
    assert done.returncode == 1
    assert (report["timeout_s"], report["attempts"][0]["score"]) == (0.2, None)
    assert any("the check ended early" in problem for problem in report["problems"])


def test_a_file_elsewhere_is_checked_beside_its_neighbours(tally: Tally, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "near.py").write_text("from custom import Mine\n")
    done = Tally(elsewhere)("plugin", "check", "../near.py:Mine", "-c", "multiplier=1")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_package_services_of_ones_own_comes_first(tally: Tally) -> None:
    own = tally.folder / "services"
    own.mkdir()
    (own / "__init__.py").touch()
    (own / "billing.py").write_text("FEE = 2.0\n")
    fee = "from services.billing import FEE\n" + CUSTOM.partition("\n\n")[2]
    (tally.folder / "fee.py").write_text(fee.replace('config["multiplier"]', "FEE"))
    report = tally.json("plugin", "check", "fee.py:Mine")
    assert report["attempts"][0]["score"] == 16.0


@pytest.mark.parametrize(
    "reference",
    ["builtin.weighted_scorer", "formula: 100 * succeeded + rating", "formula: -rating"],
)
def test_what_needs_no_sandbox_works_without_one(
    reference: str, tally: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TALLY_SANDBOX", "bubblewrap")
    monkeypatch.setenv("PATH", "/nowhere")
    done = tally("plugin", "check", reference)
    assert done.returncode == 0, done.stdout + done.stderr


def test_without_a_sandbox_code_is_not_run_and_it_exits_with_3(
    tally: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TALLY_SANDBOX", "bubblewrap")
    monkeypatch.setenv("PATH", "/nowhere")
    done = tally("plugin", "check", "custom.py:Mine", "-c", "multiplier=1")
    assert (done.returncode, done.stdout) == (3, "")
    assert "untrusted code is not run" in done.stderr


def test_insecure_local_does_without_and_says_so(
    tally: Tally, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TALLY_SANDBOX", "bubblewrap")
    monkeypatch.setenv("PATH", "/nowhere")
    done = tally("plugin", "check", "custom.py:Mine", "-c", "multiplier=1", "--insecure-local")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning  made without a sandbox (--insecure-local)" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["os:system"], "os cannot be a plugin"),
        (["custom.py:Mne"], "custom.py has no class 'Mne'; did you mean 'Mine'?"),
        (["nowhere/x.py:Mine"], "there is no Python file nowhere/x.py"),
        (["formula: ratng"], "did you mean 'rating'?"),
        (["custom.py:Mine", "--config", "multiplier"], "does not give a key a value"),
        (["custom.py:Mine", "--config-file", "gone.json"], "cannot read gone.json"),
        (["custom.py:Mine", "--config-file", "custom.py"], "custom.py is not JSON"),
        (["custom.py:Mine", "--config-file", "list.json"], "list.json is not a JSON object"),
        (["custom.py:Mine", "--timeout", "0"], "--timeout"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else None,
)
def test_wrong_usage_is_one_sentence_and_exit_code_2(
    arguments: list[str], said: str, tally: Tally
) -> None:
    (tally.folder / "list.json").write_text("[1]")
    done = tally("plugin", "check", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


@pytest.mark.parametrize(
    "reference",
    [
        "examples/plugins/custom.py:MyCustomScorer",
        "examples/plugins/cost_aware.py:CostAwareScorer",
    ],
)
def test_the_examples_pass(reference: str) -> None:
    done = Tally(ROOT)("plugin", "check", reference)
    assert done.returncode == 0, done.stdout + done.stderr


LOOPS = """
class Mine:
    def score(self, metrics, config, ctx):
        while metrics.get("rating") == 13 and config["loop"]: pass
        return {"score": metrics["rating"]}
"""
RULE = """
name: sums
goal: Be good.
evaluator: {type: reported}
scoring: {plugin: "scorer.py:Mine", strategy: custom, timeout: 0.2, config: {loop: true}}
"""


def test_who_is_paused_is_listed_and_resumed(tally: Tally) -> None:
    folder = tally.folder / "sums"
    folder.mkdir()
    (folder / "challenge.yaml").write_text(RULE)
    (folder / "scorer.py").write_text(LOOPS)
    tally("challenge", "publish", "sums")
    assert tally("plugin", "paused").stdout == "no agent is paused\n"
    report = ("attempt", "report", "sums", "--metric", "succeeded=true")
    for _ in range(5):
        assert tally(*report, "--agent", "mallory", "--metric", "rating=13").returncode == 0
    assert tally.json(*report, "--agent", "alice", "--metric", "rating=2")["score"] == 2
    said = tally(*report, "--agent", "mallory", "--metric", "rating=3").stdout
    paused = " ".join(said.split())
    assert "no score, because the plugin is paused for mallory: 5 of its attempts" in paused
    (found,) = tally.json("plugin", "paused")["paused"]
    assert (found["challenge"], found["agent"], found["deadly"]) == ("sums", "mallory", 5)
    assert found["reason"] == "the plugin took longer than 0.2 s"
    assert "mallory" in tally("plugin", "paused").stdout
    assert tally("plugin", "resume", "sums", "--agent", "alice").returncode == 2
    tally("rescore", "sums", "--config", "loop=false", "--apply", "--reason", "x")
    resumed = tally("plugin", "resume", "sums", "--agent", "mallory")
    assert resumed.stdout == "6 attempts at sums scored again\n"
    assert tally("plugin", "paused").stdout == "no agent is paused\n"
    scores = [each["score"] for each in tally.json("attempt", "list", "sums")["items"]]
    assert scores == [3, 2, 13, 13, 13, 13, 13]

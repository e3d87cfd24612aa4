"""What comes back from code that nobody trusts is bounded before anything is built of it."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest
from tests.challenges.challenge_folders import challenge_in, judged
from tests.sandbox.backends import SAFE
from tests.sandbox.sample_plugins import plugin

from tallymark.challenges.plugins import find_plugin
from tallymark.documents.bounded_json import read_bounded_json
from tallymark.errors import ScorerError
from tallymark.sandbox import PluginCode, Policy, Sandbox

DETAILS = """
    class Plugin:
        def score(self, metrics, config, ctx):
            kinds = {
                "lists": [[]] * 900_000,
                "some lists": [[]] * 60_000,
                "keys": {str(at): at for at in range(60_000)},
                "text": "x" * 900_000,
            }
            return {"score": 1, "details": {"more": kinds.get(metrics["kind"])}}
"""


@pytest.mark.parametrize("backend", SAFE)
def test_huge_details_cost_their_attempt_alone(backend: str, tmp_path: Path) -> None:
    """Thirty of them took minutes of the host's own time, outside of every deadline."""
    kinds = ["lists", "some lists", "keys", "text", "none"] * 12
    code = plugin(tmp_path, DETAILS)
    with Sandbox(Policy(backend)) as sandbox:  # type: ignore[arg-type] # one of them
        scores = sandbox.score_many(code, [{"kind": kind} for kind in kinds], {}, {})
    assert [score.value for score in scores] == [None, None, None, None, 1.0] * 12
    assert {score.metadata.get("stopped") for score in scores} == {"bad answer", None}


@pytest.mark.parametrize(
    "text",
    [
        "[" + ",".join(["[]"] * 900_000) + "]",
        "[" * 1000 + "]" * 1000,
        '{"a":' * 100 + "1" + "}" * 100,
        json.dumps("x" * 9_000_000),
    ],
    ids=["many", "deep", "deep maps", "long"],
)
def test_json_is_measured_before_it_is_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"more than|too deeply"):
        read_bounded_json(text.encode())


def test_brackets_in_texts_are_no_values() -> None:
    value = {"a": '[{",' * 100_000, "b[": ["\\", '\\"']}
    assert read_bounded_json(json.dumps(value).encode()) == value


def test_a_value_that_is_too_large_fails_its_case_alone(tmp_path: Path) -> None:
    text = """
        name: x
        submission: {format: text}
        evaluator: {type: tests, cases: cases.yaml}
    """
    cases = "\n".join(f"- {{name: c{n}, call: f, args: [{n}], value: {n}}}" for n in range(3))
    challenge = challenge_in(tmp_path, text, {"cases.yaml": cases})
    source = "def f(n):\n    return [[]] * 900_000 if n == 1 else n\n"
    found = judged(challenge, tmp_path, textwrap.dedent(source))
    assert [each["passed"] for each in found.details["cases"]] == [True, False, True]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("", None),
        pytest.param(
            "x = [" + "[]," * 1_200_000 + "]\n",
            "scorer.py takes too much to be read",
            marks=pytest.mark.proof,
        ),
        ("x = (\n" + "# comment\n" * 10_000, "this is not Python: '(' was never closed"),
    ],
    ids=["long", "huge tree", "broken"],
)
def test_large_sources_are_parsed_in_the_sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, said: str | None
) -> None:
    """Four megabytes of lists took 52 seconds and two gigabytes of the host."""
    source = f"class Mine:\n    def score(self, *_): pass\n# {'x' * 70_000}\n{body}"
    (tmp_path / "scorer.py").write_text(source, encoding="utf-8")
    monkeypatch.setattr("ast.parse", lambda *_: pytest.fail("parsed here"))
    if said is None:
        assert isinstance(find_plugin("scorer.py:Mine", folder=tmp_path), PluginCode)
        with pytest.raises(ScorerError, match="has no class 'Other'"):
            find_plugin("scorer.py:Other", folder=tmp_path)
    else:
        with pytest.raises(ScorerError) as caught:
            find_plugin("scorer.py:Mine", folder=tmp_path)
        assert said in str(caught.value)

"""The table of checks: a file and a line are all that a new one needs."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest
from tests.throw_away import WithOneMore

SHOUTING = """
    from tallymark.documents.shapes import Key, KindShape, NumberShape, RecordShape, TextShape
    from tallymark.runs.record import CheckResult
    from tallymark.suites.checks.check_definition import CheckType, expand_config

    def build(config, setting):
        word = expand_config(config, "word")["word"]
        def check(subject):
            heard = word.upper() in subject.answer.output
            said = f"{word} is shouted"
            value = float(heard)
            return CheckResult(
                kind="shouting", passed=heard, reason=said, name="loudness", value=value
            )
        return check

    def list_notices(config):
        if not isinstance(config, str) and config.get("times") == 0:
            yield "always", "shouting: 0 times is silence"

    SHOUTING = CheckType(
        "shouting",
        KindShape(
            scalar=TextShape("a word"),
            mapping=RecordShape(
                "a mapping with 'word'",
                {
                    "word": Key(TextShape(), "The word.", required=True),
                    "times": Key(NumberShape(low=0, whole=True), "How often."),
                },
            ),
        ),
        build,
        "A word that must be shouted.",
        list_notices,
        value_names=lambda _: ("loudness",),
    )
"""
LINE = """
import shouting
from tallymark.suites.checks.check_types import CHECK_TYPES
CHECK_TYPES["shouting"] = shouting.SHOUTING
"""


@pytest.fixture
def one_more(tmp_path: Path) -> WithOneMore:
    (tmp_path / "shouting.py").write_text(textwrap.dedent(SHOUTING), encoding="utf-8")
    return WithOneMore(tmp_path, LINE)


def write_suite(folder: Path, *checks: str) -> None:
    evals = [f"  - {{prompt: STOP the car, checks: [{each}]}}\n" for each in checks]
    text = "evals:\n" + "".join(evals) + "score: {formula: 10 * loudness}\n"
    (folder / "s.yaml").write_text(text, encoding="utf-8")


def test_a_new_check_is_run(one_more: WithOneMore) -> None:
    write_suite(
        one_more.folder, "shouting: stop", "shouting: {word: car}", "or: [shouting: a, shouting: o]"
    )
    done = one_more.tally("run", "s.yaml", "-m", "echo/x", "--json")
    (run,) = json.loads(done.stdout)["runs"]
    told = [(each["status"], each["checks"][0]["kind"]) for each in run["results"]]
    assert told == [("passed", "shouting"), ("failed", "shouting"), ("passed", "or")]


def test_formulas_use_its_value_by_name(one_more: WithOneMore) -> None:
    write_suite(one_more.folder, "shouting: stop", "shouting: car")
    done = one_more.tally("run", "s.yaml", "-m", "echo/x", "--json")
    (run,) = json.loads(done.stdout)["runs"]
    assert run["score"] == 5


@pytest.mark.parametrize(
    ("check", "told"),
    [
        pytest.param("shoutng: stop", "did you mean 'shouting'?", id="misspelt"),
        pytest.param("shouting: 7", "a word", id="value"),
        pytest.param("shouting: {times: 1}", "the key 'word' is missing", id="what it needs"),
        pytest.param("shouting: {word: a, tims: 1}", "did you mean 'times'?", id="option"),
        pytest.param("x-nothing: 1", ", todo, shouting, or", id="none at all"),
    ],
)
def test_what_is_wrong_with_its_config_is_told(
    one_more: WithOneMore, check: str, told: str
) -> None:
    write_suite(one_more.folder, check)
    done = one_more.tally("validate", "s.yaml")
    assert done.returncode == 2
    assert told in done.stdout


def test_its_notices_are_told(one_more: WithOneMore) -> None:
    write_suite(one_more.folder, "shouting: {word: a, times: 0}")
    assert "shouting: 0 times is silence" in one_more.tally("validate", "s.yaml").stdout


def test_it_stands_in_the_schema_and_in_the_docs(one_more: WithOneMore) -> None:
    check = json.loads(one_more.tally("schema").stdout)["$defs"]["check"]
    assert check["properties"]["shouting"]["description"] == "A word that must be shouted."
    assert {"required": ["shouting"]} in check["anyOf"]
    assert one_more.docs_row("checks", "shouting") == (
        "| `shouting` | a word, or `{word, times}` | A word that must be shouted. |"
    )

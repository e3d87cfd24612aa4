"""What scorers say of themselves: a file and an entry point are all that a new one needs."""

from __future__ import annotations

import json
import shutil
import textwrap
from importlib.metadata import distribution
from pathlib import Path

import pytest
from tests.throw_away import WithOneMore

from tallymark.errors import ScorerError
from tallymark.scoring import EvalContext, Registry, Scorer, configurable, scorer
from tallymark.scoring.scorer_descriptions import (
    ScorerOption,
    describe_scorer,
    describe_scorers,
)

POLITE = """
    from typing import Literal
    from tallymark.scoring import Score, configurable

    @configurable(blocking=False)
    def polite(words: list[str], tone: Literal["warm", "cold"] = "warm", most: int = 3):
        \"\"\"Polite words / `most`, at most 1.

        A cold tone halves it.
        \"\"\"
        def score(ctx):
            found = sum(word in ctx.output for word in words) / most
            return Score(min(found, 1.0) / (1 if tone == "warm" else 2), "counted")
        return score
"""
TRACE = '{"trace_id": "t", "spans": [{"span_type": "generation", "output": "please"}]}'
CHECK = "{use: polite, options: {words: [please], most: 1}}"
SUITE = f"evals: [{{prompt: please, checks: [scorer: {CHECK}]}}]"


@pytest.fixture
def one_more(tmp_path: Path) -> WithOneMore:
    """Tallymark as it would be installed with one entry point more in its pyproject.toml."""
    (tmp_path / "polite.py").write_text(textwrap.dedent(POLITE), encoding="utf-8")
    installed = distribution("tallymark")
    info = tmp_path / f"tallymark-{installed.version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(installed.read_text("METADATA") or "", encoding="utf-8")
    points = (installed.read_text("entry_points.txt") or "").replace(
        "[tallymark.scorers]", "[tallymark.scorers]\npolite = polite:polite"
    )
    (info / "entry_points.txt").write_text(points, encoding="utf-8")
    (tmp_path / "t.jsonl").write_text(TRACE, encoding="utf-8")
    return WithOneMore(tmp_path, "")


def test_tally_scorers_lists_a_new_one(one_more: WithOneMore) -> None:
    listed = one_more.tally("scorers").stdout.splitlines()
    assert "polite               Polite words / `most`, at most 1." in listed
    assert one_more.tally("scorers", "polite").stdout == (
        "polite: Polite words / `most`, at most 1.\n\n"
        "A cold tone halves it.\n\n"
        "OPTION  DEFAULT\n"
        "words   required\n"
        'tone    "warm" (or "cold")\n'
        "most    3\n"
    )
    told = json.loads(one_more.tally("scorers", "--json").stdout)["scorers"]
    (row,) = [each for each in told if each["name"] == "polite"]
    assert row["package"] == "tallymark"
    assert row["options"][0] == {
        "name": "words",
        "required": True,
        "default": None,
        "choices": [],
    }


def test_it_scores_traces_and_checks_answers(one_more: WithOneMore) -> None:
    reference = 'polite(words=["please"], most=1, tone="cold")'
    done = one_more.tally("score", "t.jsonl", "-s", reference, "--json")
    assert json.loads(done.stdout)["runs"][0]["scorers"]["polite"]["mean"] == 0.5
    (one_more.folder / "s.yaml").write_text(SUITE, encoding="utf-8")
    assert one_more.tally("run", "s.yaml", "-m", "echo/x").returncode == 0


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        ("polte", "did you mean 'polite'?"),
        ("polite", "polite needs the option 'words'"),
        ("polite(words=[], mots=1)", "did you mean 'most'?"),
        ("polite(words=7)", "the option 'words' is 7"),
        ('polite(words=[], tone="hot")', "the option 'tone' is 'hot'"),
    ],
)
def test_wrong_options_are_reported(one_more: WithOneMore, reference: str, told: str) -> None:
    done = one_more.tally("score", "t.jsonl", "-s", reference)
    assert done.returncode == 2
    assert told in done.stderr


def test_it_stands_in_the_docs(one_more: WithOneMore) -> None:
    assert one_more.docs_row("scorers", "polite") == (
        "| `polite` | Polite words / `most`, at most 1. "
        '| `words`, `tone` "warm" (or "cold"), `most` 3 |'
    )


def test_a_scorer_of_another_package_is_listed_but_not_documented(one_more: WithOneMore) -> None:
    info = one_more.folder / "other-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: other\nVersion: 1\n", encoding="utf-8")
    points = "[tallymark.scorers]\nkind = polite:polite\nlost = nowhere:lost\n"
    (info / "entry_points.txt").write_text(points, encoding="utf-8")
    listed = one_more.tally("scorers").stdout
    assert "\nkind " in listed
    assert "the scorer 'lost', nowhere:lost of the package other, cannot be imported" in listed
    with pytest.raises(ValueError, match="not enough values"):
        one_more.docs_row("scorers", "kind")
    shutil.rmtree(info)


def polite(ctx: EvalContext) -> float:
    """1 for a thank you.

    In any language.
    """
    return float("thank" in ctx.output)


def test_a_plain_scorer_has_no_options() -> None:
    registry = Registry(group=None)
    registry.register(scorer(polite))
    (found,) = describe_scorers(registry)
    assert (found.value, found.about) == ("1 for a thank you.", "In any language.")
    assert (found.options, found.package, found.error) == ((), None, None)


def test_a_scorer_of_a_file_is_described_by_its_own_name(tmp_path: Path) -> None:
    path = tmp_path / "judges.py"
    path.write_text(
        "from tallymark import scorer\n"
        "@scorer(name='politeness', description='How polite it is.')\n"
        "def polite(ctx):\n    return 1.0\n"
        "number = 3\n"
    )
    found = describe_scorer(f"{path}:polite")
    assert (found.name, found.value, found.package) == ("politeness", "How polite it is.", None)
    with pytest.raises(ScorerError, match="number is 3"):
        describe_scorer(f"{path}:number")


def test_a_description_that_was_given_counts_before_the_docstring() -> None:
    registry = Registry(group=None)

    @configurable(description="Its own words.")
    def odd(**options: int) -> Scorer:
        return scorer(polite)

    registry.register(odd)
    found = describe_scorer("odd", registry)
    assert (found.value, found.options) == ("Its own words.", ())


@pytest.mark.parametrize(
    ("option", "values"),
    [
        (ScorerOption(name="a", required=True), ""),
        (ScorerOption(name="a"), ""),
        (ScorerOption(name="a", default=0.0), "0"),
        (ScorerOption(name="a", default=10_000), "10000"),
        (ScorerOption(name="a", default=True), "true"),
        (ScorerOption(name="a", default=["x", "y"]), '["x", "y"]'),
        (ScorerOption(name="a", default="x" * 100), ""),
        (ScorerOption(name="a", default={"x": 1}), ""),
        (ScorerOption(name="a", default="x", choices=("y", "x", "z")), '"x" (or "y", "z")'),
        (ScorerOption(name="a", choices=("y", "z")), '(or "y", "z")'),
    ],
)
def test_an_option_has_its_default_and_its_choices(option: ScorerOption, values: str) -> None:
    assert option.values() == values

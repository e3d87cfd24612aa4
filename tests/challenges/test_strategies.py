"""The table of strategies: what each orders by, and that a row is all that a new one needs."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest
from tests.challenges.challenge_folders import folder_with

from tallymark.challenges.attempt import Metrics
from tallymark.challenges.strategies import STRATEGIES
from tallymark.store.contests.tables import attempt_scores

CHEAP = """
    name: cheap
    title: Be cheap
    goal: Spend little.
    evaluator: reported
    scoring: {strategy: cheapest}
"""
WITH_ONE_MORE = """
import sys
from tallymark.challenges.strategies import STRATEGIES, Strategy
STRATEGIES["cheapest"] = Strategy(
    name="cheapest", column="cost", metric="cost", heading="DOLLARS"
)
from tallymark.challenges.challenge_format import challenge_schema
assert "cheapest" in str(challenge_schema())
from tallymark.service import App
from tallymark.challenges.attempt import Metrics
games = App("cheap.db").competition()
from pathlib import Path
games.publish(Path("."))
for agent, cost in (("dear", 2.0), ("nobody-knows", None), ("cheap", 0.5)):
    games.report("cheap", agent, Metrics(succeeded=True, cost=cost))
games.close()
sys.argv = ["tally", "leaderboard", "cheap", "--db", "cheap.db"]
from tallymark.cli import main
main()
"""


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_row_names_a_column_and_a_metric_that_exist(name: str) -> None:
    row = STRATEGIES[name]
    assert row.name == name
    assert row.column in attempt_scores.c
    assert row.metric is None or hasattr(Metrics(), row.metric)


@pytest.mark.parametrize(
    ("name", "better", "worse"),
    [
        *((name, 1.0, 2.0) for name in ("first", "fastest", "fewest_tokens")),
        *((name, 2.0, 1.0) for name in ("highest_rating", "custom")),
    ],
)
def test_the_better_number_has_the_lower_place_and_none_the_last(
    name: str, better: float, worse: float
) -> None:
    place = STRATEGIES[name].place
    assert place(better) < place(worse) < place(None) == math.inf


def test_a_new_strategy_is_one_row(tmp_path: Path) -> None:
    folder_with(tmp_path, CHEAP)
    done = subprocess.run(
        [sys.executable, "-c", WITH_ONE_MORE],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    head, *rows = [line.split() for line in done.stdout.splitlines()[2:]]
    assert head[:4] == ["RANK", "AGENT", "DOLLARS", "TRIES"]
    assert [row[:3] for row in rows] == [
        ["1", "cheap", "0.5"],
        ["2", "dear", "2"],
        ["3", "nobody-knows", "-"],
    ]

"""Prompts down, models across."""

from __future__ import annotations

from msgspec.structs import replace
from tests.runs.reports.sample_runs import finished

from tallymark.runs.record import CaseResult, RunRecord
from tallymark.runs.run import Run
from tallymark.runs.score_matrix import find_best, make_matrix


def cell(prompt: str | None, model: str, passed: int, group: str | None = "g") -> Run:
    """A run of four cases."""
    results = [
        CaseResult(case=f"c{n}", status="passed" if n < passed else "failed", latency=1.0, cost=0.1)
        for n in range(4)
    ]
    tags = {} if prompt is None else {"prompt": prompt}
    record = RunRecord(id=f"r-{prompt}-{model}", suite="s", model=model, group=group, tags=tags)
    return finished(record, results)


GRID = [cell("p", "a", 1), cell("p", "b", 3), cell("q", "a", 3), cell("q", "b", 0)]


def test_runs_find_their_cells() -> None:
    matrix = make_matrix(GRID)
    assert matrix is not None
    assert matrix.to_dict() == {
        "prompts": ["p", "q"],
        "models": ["a", "b"],
        "scores": [[25.0, 75.0], [75.0, 0.0]],
        "runs": [["r-p-a", "r-p-b"], ["r-q-a", "r-q-b"]],
        "best": ["r-p-b", "r-q-a"],
    }


def test_a_run_that_is_missing_leaves_its_cell_empty() -> None:
    matrix = make_matrix(GRID[:3])
    assert matrix is not None
    assert matrix.to_dict()["scores"] == [[25.0, 75.0], [75.0, None]]


def test_there_is_none_without_prompts_or_for_runs_that_do_not_belong_together() -> None:
    assert make_matrix([cell(None, "a", 1), cell(None, "b", 1)]) is None
    assert make_matrix(GRID[:1]) is None
    assert make_matrix([*GRID, GRID[0]]) is None
    assert make_matrix([GRID[0], cell("q", "a", 1, "h")]) is None
    assert make_matrix([cell("p", "a", 1, None), cell("q", "a", 1, None)]) is None


def test_the_best_are_those_with_the_highest_score() -> None:
    assert find_best(GRID[:2]) == {"r-p-b"}
    assert find_best([GRID[1], GRID[2]]) == set()  # all alike: none is better
    unscored = GRID[3]
    none = Run(replace(unscored.record, score=None), unscored.results)
    assert find_best([GRID[1], GRID[2], none]) == {"r-p-b", "r-q-a"}
    assert find_best([none]) == set()

"""`ScoreMatrix`: the runs of one command, prompts down and models across."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tallymark.runs.run import Run


class ScoreMatrix(NamedTuple):
    """Runs by prompt and model."""

    prompts: list[str]
    models: list[str]
    cells: list[list[Run | None]]
    """A row for each prompt, in it a run for each model; None where there is no such run."""

    def to_dict(self) -> dict[str, Any]:
        """Scores as plain values that any JSON writer takes."""
        best = find_best([run for row in self.cells for run in row if run is not None])
        return {
            "prompts": self.prompts,
            "models": self.models,
            "scores": [[None if run is None else run.score for run in row] for row in self.cells],
            "runs": [[None if run is None else run.record.id for run in row] for row in self.cells],
            "best": sorted(best),
        }


def make_matrix(runs: Sequence[Run]) -> ScoreMatrix | None:
    """The matrix of models by prompts; None if a table of runs is enough."""
    found = {(run.record.tags.get("prompt"), run.record.model): run for run in runs}
    prompts = list(dict.fromkeys(prompt for prompt, _ in found))
    models = list(dict.fromkeys(model for _, model in found))
    grouped = len({run.record.group for run in runs}) == 1 and runs[0].record.group is not None
    # A model that ran twice has no unique cell.
    if not grouped or prompts[0] is None or len(runs) < 2 or len(found) < len(runs):
        return None
    cells = [[found.get((prompt, model)) for model in models] for prompt in prompts]
    return ScoreMatrix([str(prompt) for prompt in prompts], models, cells)


def find_best(runs: Sequence[Run]) -> set[str]:
    """The ids of the runs with the highest score; none where all are the same."""
    scores = {run.record.id: run.score for run in runs if run.score is not None}
    highest = max(scores.values(), default=None)
    same = len(scores) == len(runs) and len(set(scores.values())) == 1
    return set() if same else {run for run, score in scores.items() if score == highest}

"""The document's suites against a local server: all their metrics are what plain arithmetic gives.

Five suites of nine run-wide metrics, and nine named evals of three: 72.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.models.provider_server import ProviderServer, Reply
from tests.service.test_suite_runs import Silent

from tallymark.runs.run import Run
from tallymark.service.app import App
from tallymark.service.suite_runs import RunOptions
from tallymark.suites.suite_file import load_suite

ROOT = next(p for p in Path(__file__).parents if (p / "pyproject.toml").is_file())
MODEL = "anthropic/claude-3.5-sonnet"
IN, OUT = 3e-6, 15e-6
"""Dollars for a token of that model, by its public price list."""

# The prompt, the answer, tokens sent and answered, seconds that it takes, does it pass?
Asked = tuple[str, str, int, int, float, bool]
SUITES: dict[str, dict[str, Asked]] = {
    "my-eval-suite": {
        "math-question": ("What is 2 + 2?", "It is 4.", 14, 9, 0.03, True),
        "translation-test": ('Translate "hello" to Spanish', "Bonjour", 1207, 311, 0.01, False),
    },
    "eval-naming": {
        "critical-eval": ("Important question", "As EXPECTED.", 1_000_003, 1, 0.0, True),
        "secondary-eval": ("Less important question", "the expected one", 7, 8191, 0.02, True),
    },
    "cost-efficient-eval": {
        "#1": ("What is 2 + 2?", "5", 10, 10, 0.0, False),
        "#2": ("What is 3 + 3?", "6", 20, 30, 0.02, True),
    },
    "weighted-cost-eval": {
        "critical-math": ("What is 15 * 7?", "15 * 7 = 105", 33, 12, 0.01, True),
        "important-translation": ('Translate "hello" to Spanish', "¡Hola!", 29, 4, 0.02, True),
        "secondary-question": ("What color is the sky?", "grey today", 31, 3, 0.03, False),
    },
    "comprehensive-scoring": {
        "accuracy-test": ("Solve: 2x + 5 = 15", "x = 5", 41, 17, 0.02, True),
        "speed-test": ("Quick response test", "a quick response", 13, 51, 0.01, False),
    },
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Run]]:
    """One run of each suite."""
    app = App(str(tmp_path_factory.mktemp("document") / "tally.db"))
    found = {}
    with pytest.MonkeyPatch.context() as patch, ProviderServer() as server:
        server.pose_as_providers(patch)
        for name, asked in SUITES.items():
            for prompt, output, sent, said, delay, _ in asked.values():
                server.on(prompt, Reply(output, latency=delay, tokens=(sent, said)))
            suite = load_suite(ROOT / "examples" / "suites" / f"{name}.yaml")
            models = [] if suite.models else [MODEL]
            (found[name],) = app.runs.run(suite, models, RunOptions(), Silent())
    yield found
    app.close()


def arithmetic(asked: dict[str, Asked], latencies: list[float]) -> dict[str, float]:
    """All metrics of a run, worked out by hand but for the seconds that its answers took."""
    costs = [sent * IN + said * OUT for _, _, sent, said, _, _ in asked.values()]
    found = {
        "success_pct": 100 * [passes for *_, passes in asked.values()].count(True) / len(asked)
    }
    for measure, values in (("latency", latencies), ("cost", costs)):
        found[f"max_{measure}"] = max(values)
        found[f"min_{measure}"] = min(values)
        found[f"total_{measure}"] = sum(values)
        found[f"avg_{measure}"] = sum(values) / len(values)
    for (name, (*_, passes)), latency, cost in zip(asked.items(), latencies, costs, strict=True):
        if not name.startswith("#"):
            found |= {name: float(passes), f"{name}_latency": latency, f"{name}_cost": cost}
    return found


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_of_the_document_gives_the_metrics_of_arithmetic(
    runs: dict[str, Run], name: str
) -> None:
    run, asked = runs[name], SUITES[name]
    latencies = [result.latency or 0.0 for result in run.results]
    assert all(
        took >= delay for took, (*_, delay, _) in zip(latencies, asked.values(), strict=True)
    )
    expected = arithmetic(asked, latencies)
    assert {key: run.metrics[key] for key in expected} == pytest.approx(expected, rel=1e-12)


def test_they_are_72(runs: dict[str, Run]) -> None:
    shown = [arithmetic(asked, [0.0] * len(asked)) for asked in SUITES.values()]
    assert sum(map(len, shown)) == 72
    assert all(
        set(each) <= set(run.metrics) for each, run in zip(shown, runs.values(), strict=True)
    )


def test_their_formulas_give_the_scores_of_arithmetic(runs: dict[str, Run]) -> None:
    m = {name: run.metrics for name, run in runs.items()}
    latency = m["comprehensive-scoring"]["avg_latency"] or 0.0
    assert {name: run.score for name, run in runs.items()} == pytest.approx(
        {
            "my-eval-suite": 50 / (1221 * IN + 320 * OUT),
            "eval-naming": 100.0,
            "cost-efficient-eval": 50 / (30 * IN + 40 * OUT),
            "weighted-cost-eval": (3 + 2 + 0) / (93 * IN + 19 * OUT),
            "comprehensive-scoring": (0.6 + 0) * 50 / (latency * (54 * IN + 68 * OUT)),
        },
        rel=1e-12,
    )

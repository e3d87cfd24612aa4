"""The example challenges: each passes its check, and its samples score as they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.challenges.challenge_folders import attempt_at

from tallymark.challenges.attempt import Outcome
from tallymark.challenges.attempt_scores import score_attempt
from tallymark.challenges.challenge_check import check_challenge
from tallymark.challenges.challenge_file import load_challenge
from tallymark.challenges.evaluators import EvaluationSetting, Submitted, evaluate
from tallymark.challenges.plugins import load_plugin
from tallymark.documents.reader import read_plain

EXAMPLES = Path(__file__).parents[2] / "examples" / "challenges"
FOLDERS = sorted(path.parent for path in EXAMPLES.glob("*/challenge.*"))
SOLO = [folder for folder in FOLDERS if load_challenge(folder).kind == "solo"]
SAMPLES = [path for folder in SOLO for path in sorted(folder.glob("samples/*.yaml"))]


def scored(path: Path) -> Outcome:
    """What a sample gets, as its challenge's organiser would score it."""
    folder, sample = path.parents[1], read_plain(path, "challenge")
    challenge = load_challenge(folder)
    seed = sample.get("seed", 1)
    submitted = Submitted(answer=sample["submission"], seed=seed, trusted=True)
    attempt = attempt_at(challenge, seed=seed, entered_at=0.0, submitted_at=sample["elapsed_s"])
    named = challenge.scoring.plugin
    return score_attempt(
        challenge,
        evaluate(submitted, EvaluationSetting(challenge=challenge, folder=folder)),
        attempt=attempt,
        plugin=None if named is None else load_plugin(named, folder=folder, sandbox=None),
    )


def test_there_are_examples_of_every_evaluator_that_needs_no_model() -> None:
    kinds = {load_challenge(folder).evaluator.type for folder in SOLO}
    assert kinds == {"deterministic", "tests", "script", "reported"}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_every_example_passes_its_check_and_is_warned_of_nothing_but_paying_for_speed(
    folder: Path,
) -> None:
    report = check_challenge(folder, samples=3)
    warned = [each for each in report.findings if each.level != "ok"]
    assert all("for speed alone" in each.detail for each in warned), warned


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parents[1].name}/{path.stem}")
def test_every_sample_scores_what_it_says(path: Path) -> None:
    outcome, expected = scored(path), read_plain(path, "challenge")["expect"]
    found: dict[str, Any] = {
        "score": outcome.score,
        "result": outcome.result,
        "succeeded": outcome.metrics.succeeded,
        "dimensions": outcome.dimensions,
    }
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize("folder", SOLO, ids=lambda path: path.name)
def test_samples_are_named_as_samples(folder: Path) -> None:
    agents = [read_plain(path, "challenge")["agent"] for path in folder.glob("samples/*.yaml")]
    assert len(agents) >= 3
    assert all(agent.startswith("sample-") for agent in agents)


def test_dimension_scoring_score_breakdown_example() -> None:
    """The document's response: 900, 780, 690 and 760 by their weights show as 823."""
    outcome = scored(EXAMPLES / "bean-counter" / "samples" / "second-guess.yaml")
    assert outcome.score == 823
    assert outcome.details["score_breakdown"] == {
        "correctness": {"score": 900, "weight": 0.5, "weighted": 450},
        "speed": {"score": 780, "weight": 0.2, "weighted": 156},
        "methodology": {"score": 690, "weight": 0.15, "weighted": 103.5},
        "completeness": {"score": 760, "weight": 0.15, "weighted": 114},
    }


def test_dimension_scoring_dims_example() -> None:
    """The weights of the document's `dims()` call, with one description of its own."""
    dimensions = load_challenge(EXAMPLES / "route-planner").scoring.dimensions
    assert {each.key: each.weight for each in dimensions} == {
        "correctness": 0.40,
        "methodology": 0.25,
        "speed": 0.15,
        "completeness": 0.20,
    }
    assert dimensions[0].description is not None


def test_dimension_scoring_speed_at_90_percent_example() -> None:
    outcome = scored(EXAMPLES / "bean-counter" / "samples" / "careful.yaml")
    assert outcome.dimensions["speed"] == 100


def test_scorer_plugins_challenge_setup_example() -> None:
    """The document's challenge, word for word."""
    given = read_plain(EXAMPLES / "prompt-race" / "challenge.json", "challenge")
    assert {key: given[key] for key in given if key.startswith(("name", "scoring_"))} == {
        "name": "Advanced Prompt Challenge",
        "scoring_strategy": "custom",
        "scoring_plugin_id": "builtin.weighted_scorer",
        "scoring_entrypoint": "services.scorers.weighted:WeightedScorer",
        "scoring_config": {
            "success_bonus": 100.0,
            "rating_weight": 15.0,
            "time_penalty": 0.5,
            "token_penalty": 0.02,
        },
    }

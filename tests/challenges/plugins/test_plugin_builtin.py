"""The built-in scorer as a plugin."""

from __future__ import annotations

from tallymark.challenges.plugins.plugin import BuiltinPlugin
from tallymark.challenges.plugins.plugin_check import ORDINARY
from tallymark.scoring import Origin

WEIGHTED = BuiltinPlugin("builtin.weighted_scorer")


def test_it_scores_with_its_origin() -> None:
    score = WEIGHTED.score(ORDINARY, {"rating_weight": 15.0}, {})
    assert score.value == 193
    assert score.metadata["details"]["rating"] == 120
    assert score.origin == Origin(
        "builtin.weighted_scorer", WEIGHTED.code_hash, {"rating_weight": 15.0}
    )


def test_a_wrong_config_is_a_failed_score_that_names_the_key() -> None:
    score = WEIGHTED.score(ORDINARY, {"time_penalty": None}, {})
    assert (score.value, score.metadata) == (None, {"stopped": "raised"})
    assert score.error == "the config's time_penalty is a finite number, not None"


def test_one_bad_attempt_costs_no_other_its_score() -> None:
    scores = WEIGHTED.score_many([ORDINARY, {"rating": "high"}, ORDINARY], {}, {})
    assert [score.value for score in scores] == [153, None, 153]


def test_both_names_are_one_code() -> None:
    other = BuiltinPlugin("services.scorers.weighted:WeightedScorer")
    assert other.code_hash == WEIGHTED.code_hash
    assert len(other.code_hash) == 64

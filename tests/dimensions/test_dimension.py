"""`dims()` takes what the document shows, and names every mistake."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from tallymark.dimensions import CORE, EFFICIENCY, Dimension, dims
from tallymark.errors import InvalidInput

STYLE = Dimension("style", "Style", "How well it reads", "Rose")


@pytest.mark.parametrize(
    ("key", "label", "color", "description"),
    [
        (
            "correctness",
            "Correctness",
            "Emerald",
            "Accuracy of the primary answer or identification",
        ),
        (
            "completeness",
            "Completeness",
            "Gold",
            "Coverage of all required targets, actions, or parts",
        ),
        ("precision", "Precision", "Coral", "Fraction of reported findings that are genuine"),
        (
            "methodology",
            "Methodology",
            "Purple",
            "Quality of reasoning, investigation, and reporting",
        ),
        ("speed", "Speed", "Sky", "Time efficiency relative to the time limit"),
        (
            "code_quality",
            "Code Quality",
            "Coral",
            "Quality of generated, modified, or optimized code",
        ),
        ("analysis", "Analysis", "Gold", "Depth of evidence gathering and source investigation"),
    ],
)
def test_the_seven_core_dimensions(key: str, label: str, color: str, description: str) -> None:
    assert CORE[key] == Dimension(key, label, description, color)
    assert len(CORE) == 7


def test_the_two_efficiency_dimensions() -> None:
    chosen = dims({"token_efficiency": 0.5, "call_efficiency": 0.5})
    assert [each.dimension for each in chosen] == list(EFFICIENCY.values())


def test_the_documents_call_keeps_order_weights_and_the_override() -> None:
    chosen = dims(
        {"correctness": 0.40, "methodology": 0.25, "speed": 0.15, "completeness": 0.20},
        {"correctness": {"description": "Override description for this challenge"}},
    )
    assert [(each.key, each.weight) for each in chosen] == [
        ("correctness", Fraction(2, 5)),
        ("methodology", Fraction(1, 4)),
        ("speed", Fraction(3, 20)),
        ("completeness", Fraction(1, 5)),
    ]
    first = chosen[0].dimension
    assert first.description == "Override description for this challenge"
    assert (first.label, first.color) == ("Correctness", "Emerald")
    assert CORE["correctness"].description.startswith("Accuracy")


def test_a_custom_dimension_works_with_core_ones_and_can_be_overridden() -> None:
    chosen = dims({"speed": 0.5, STYLE: 0.5}, {"style": {"label": "Wording"}})
    assert chosen[1].dimension == Dimension("style", "Wording", "How well it reads", "Rose")


@pytest.mark.parametrize(
    "weights",
    [
        {"speed": 0.333, "analysis": 0.333, "precision": 0.333},
        {"speed": 0.501, "analysis": 0.5},
        {"speed": 1 / 3, "analysis": 1 / 3, "precision": 1 / 3},
    ],
)
def test_weights_may_miss_1_by_a_thousandth(weights: dict[str, float]) -> None:
    assert len(dims(weights)) == len(weights)


@pytest.mark.parametrize(
    ("weights", "overrides", "sentence"),
    [
        ({"speed": 1}, None, "choose 2 to 6 dimensions, not 1"),
        ({}, None, "choose 2 to 6 dimensions, not 0"),
        (
            dict.fromkeys(CORE, 1 / 7),
            None,
            "choose 2 to 6 dimensions, not 7",
        ),
        (
            {"speed": 0.5, "corectness": 0.5},
            None,
            "there is no dimension 'corectness'; did you mean 'correctness'?",
        ),
        (
            {"speed": 0.5, 7: 0.5},
            None,
            (
                "there is no dimension 7 (int); choose from correctness, completeness, precision, "
                "methodology, speed, code_quality, analysis, token_efficiency, call_efficiency, "
                "or give a Dimension of your own"
            ),
        ),
        (
            {"speed": 0.5, "analysis": 0.4989},
            None,
            "the weights of speed, analysis sum to 0.9989, not to 1",
        ),
        (
            {"speed": 0, "analysis": 1},
            None,
            "the weight of 'speed' must be a number above 0 and at most 1, not 0 (int)",
        ),
        (
            {"speed": float("nan"), "analysis": 1},
            None,
            "the weight of 'speed' must be a number above 0 and at most 1, not nan",
        ),
        (
            {"speed": True, STYLE: 1.5},
            None,
            (
                "the weight of 'speed' must be a number above 0 and at most 1, not True\n"
                "the weight of 'style' must be a number above 0 and at most 1, not 1.5"
            ),
        ),
        (
            {"speed": 0.5, CORE["speed"]: 0.5},
            None,
            "dimension 'speed' is given 2 times; give it once",
        ),
        (
            {"analysis": 0.5, Dimension("speed", "Haste", "Quick", "Red"): 0.5},
            None,
            (
                "'speed' is a dimension that already exists; "
                "change it by an override, or choose another key"
            ),
        ),
        (
            {"speed": 0.5, "analysis": 0.5},
            {"sped": {"label": "x"}},
            "'sped' is overridden but has no weight; did you mean 'speed'?",
        ),
        (
            {"speed": 0.5, "analysis": 0.5},
            {"speed": {"colour": "Red"}},
            "the override of 'speed' cannot change 'colour'; did you mean 'color'?",
        ),
        (
            {"speed": 0.5, "analysis": 0.5},
            {"speed": {"key": "haste"}},
            "the override of 'speed' cannot change 'key'; choose from label, description, color",
        ),
        (
            {"speed": 0.5, "analysis": 0.5},
            {"speed": {"label": " "}},
            "dimension 'speed': label must be text, not ' '",
        ),
        (
            {"speed": 0.5, "analysis": 0.5},
            {"speed": "Quick"},
            (
                "the override of 'speed' must be a mapping, not 'Quick'; "
                "its keys are label, description, color"
            ),
        ),
        (["speed"], None, "the weights must be a mapping by dimension, not ['speed'] (list)"),
        (
            {"speed": 2, "analisys": 0.5},
            {"precision": {"label": "P"}},
            (
                "there is no dimension 'analisys'; did you mean 'analysis'?\n"
                "the weight of 'speed' must be a number above 0 and at most 1, not 2 (int)\n"
                "'precision' is overridden but has no weight; "
                "give it a weight, or drop the override"
            ),
        ),
    ],
)
def test_refused_in_words(weights: Any, overrides: Any, sentence: str) -> None:
    with pytest.raises(InvalidInput) as error:
        dims(weights, overrides)
    assert str(error.value) == sentence


@pytest.mark.parametrize("key", ["", "Speed", "a-b", "1st", "x" * 65, "é", None])
def test_a_key_that_a_formula_could_not_name_is_refused(key: Any) -> None:
    with pytest.raises(InvalidInput, match="cannot be a dimension's key"):
        Dimension(key, "Label", "Description", "Red")

"""`semantic`: is the answer close in meaning to a text? Computed locally, without a model call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallymark.documents.shapes import AnyShape, Key, NumberShape, TextShape, record_or_short
from tallymark.documents.yaml_parser import MappingNode
from tallymark.suites.checks.check_definition import (
    CheckSetting,
    CheckType,
    Notice,
    QuickCheck,
    WaitingCheck,
    expand_config,
)
from tallymark.suites.checks.threshold_check import build_threshold_check

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHAPE = record_or_short(
    "expected",
    "a mapping with 'expected' and 'threshold'",
    {
        "expected": Key(TextShape(), "The text to be near to.", required=True),
        "threshold": Key(NumberShape(low=0, high=1), "The similarity that passes."),
        "options": Key(
            AnyShape(MappingNode, "a mapping of options"),
            "Options of the scorer semantic_similarity, such as an embeddings API in `model`.",
        ),
    },
)


def _build(config: Any, setting: CheckSetting) -> QuickCheck | WaitingCheck:
    given = expand_config(config, "expected")
    options = given.get("options", {})
    scorer = setting.load("semantic_similarity", **{**options, "reference": given["expected"]})
    return build_threshold_check(
        "semantic", scorer, setting.threshold_for(given.get("threshold"), scorer)
    )


def _list_notices(config: Any) -> Iterator[Notice]:
    if isinstance(config, dict) and config.get("threshold") == 0:
        yield "always", "semantic: the threshold is 0, so the check can never fail"


SEMANTIC = CheckType(
    "semantic",
    _SHAPE,
    _build,
    "A text that the answer must be near to in meaning, from 0 to 1.",
    _list_notices,
)

"""`semantic`: is the answer near in meaning to a text? Computed here, no model is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallymark.suites.checks.check import CheckType, Notice, Quick, Setting, Waiting, as_record
from tallymark.suites.checks.scoring import scored
from tallymark.suites.file.nodes import Mapping
from tallymark.suites.file.shapes import Anything, ByKind, Key, Number, Record, Text

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHAPE = ByKind(
    scalar=Text(),
    mapping=Record(
        "a mapping with 'expected' and 'threshold'",
        {
            "expected": Key(Text(), "The text to be near to.", required=True),
            "threshold": Key(Number(low=0, high=1), "The similarity that passes."),
            "options": Key(
                Anything(Mapping, "a mapping of options"),
                "Options of the scorer semantic_similarity, such as an embeddings API in `model`.",
            ),
        },
    ),
)


def _build(config: Any, setting: Setting) -> Quick | Waiting:
    given = as_record(config, "expected")
    options = given.get("options", {})
    scorer = setting.load("semantic_similarity", **{**options, "reference": given["expected"]})
    return scored("semantic", scorer, setting.threshold_for(given.get("threshold"), scorer))


def _notices(config: Any) -> Iterator[Notice]:
    if isinstance(config, dict) and config.get("threshold") == 0:
        yield "always", "semantic: the threshold is 0, so the check can never fail"


SEMANTIC = CheckType(
    "semantic",
    _SHAPE,
    _build,
    "A text that the answer must be near to in meaning, from 0 to 1.",
    _notices,
)

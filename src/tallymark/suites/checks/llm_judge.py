"""`llm_judge`: does a model find that the answer meets criteria?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tallymark.documents.nodes import MappingNode
from tallymark.documents.shapes import AnyShape, Key, KindShape, NumberShape, RecordShape, TextShape
from tallymark.errors import InvalidInput
from tallymark.scoring import Expected
from tallymark.suites.checks.check_definition import (
    CheckSetting,
    CheckType,
    QuickCheck,
    WaitingCheck,
    expand_config,
)
from tallymark.suites.checks.threshold_check import build_threshold_check

if TYPE_CHECKING:
    from tallymark.scoring import EvalContext
    from tallymark.suites.checks.answer_under_check import Subject

_RUBRIC = Path(__file__).parent / "criteria.toml"
_SHAPE = KindShape(
    scalar=TextShape("text with criteria"),
    mapping=RecordShape(
        "a mapping with 'criteria'",
        {
            "criteria": Key(TextShape(), "What the answer must meet, in words.", required=True),
            "model": Key(TextShape(), "The model that judges; metadata.judge without it."),
            "threshold": Key(NumberShape(low=0, high=1), "met is 1, partly met 0.5, not met 0."),
            "options": Key(
                AnyShape(MappingNode, "a mapping of options"),
                "Options of the scorer llm_judge, such as model_name or timeout.",
            ),
        },
    ),
)


def _build(config: Any, setting: CheckSetting) -> QuickCheck | WaitingCheck:
    given = expand_config(config, "criteria")
    judge = answer_nothing if setting.dry else given.get("model", setting.judge)
    if judge is None:
        raise InvalidInput(
            "no model is named to judge", hint="write metadata.judge, or `model` in the check"
        )
    reached = {"model": judge} if isinstance(judge, str) else {"judge": judge}
    options = {**given.get("options", {}), **reached, "rubric": str(_RUBRIC)}
    scorer = setting.load("llm_judge", **options)
    criteria = Expected(output=given["criteria"])  # what the rubric shows as the reference

    def context(subject: Subject) -> EvalContext:
        return replace(subject.context, expected=criteria)

    threshold = setting.threshold_for(given.get("threshold"), scorer)
    return build_threshold_check("llm_judge", scorer, threshold, context=context)


def answer_nothing(_: str) -> str:
    """Stands for the judge while a suite is only looked at."""
    return ""


LLM_JUDGE = CheckType(
    "llm_judge", _SHAPE, _build, "Criteria that a model judges the answer by, in words."
)

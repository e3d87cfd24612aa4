"""`llm_judge`: does a model find that the answer meets criteria?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tallymark.documents.shapes import AnyShape, Key, KindShape, NumberShape, RecordShape, TextShape
from tallymark.documents.yaml_parser import MappingNode
from tallymark.errors import InvalidInput
from tallymark.judging.rubric import make_criteria_rubric
from tallymark.suites.checks.check_definition import (
    CheckSetting,
    CheckType,
    QuickCheck,
    WaitingCheck,
    expand_config,
)
from tallymark.suites.checks.threshold_check import build_threshold_check

_REACHING = ("model", "model_name", "api_key_env")
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
    named = {key: given[key] for key in ("model",) if key in given}
    options = reach_judge({**given.get("options", {}), **named}, setting)
    rubric = make_criteria_rubric(given["criteria"])
    scorer = setting.load("llm_judge", **{**options, "rubric": rubric})
    threshold = setting.threshold_for(given.get("threshold"), scorer)
    return build_threshold_check("llm_judge", scorer, threshold)


def reach_judge(options: Mapping[str, Any], setting: CheckSetting) -> dict[str, Any]:
    """Options of the scorer llm_judge with an open judge; `validate` opens none."""
    others = {key: value for key, value in options.items() if key not in _REACHING}
    judge = answer_nothing if setting.dry else options.get("model", setting.judge)
    if judge is None:
        raise InvalidInput(
            "no model is named to judge", hint="write metadata.judge, or `model` in the check"
        )
    if not isinstance(judge, str):
        return {**others, "judge": judge}
    reaching = {key: options[key] for key in _REACHING[1:] if key in options}
    return {**others, "model": setting.open_judge(judge, **reaching)}


def answer_nothing(_: str) -> str:
    """Stands for the judge while a suite is only looked at."""
    return ""


LLM_JUDGE = CheckType(
    "llm_judge", _SHAPE, _build, "Criteria that a model judges the answer by, in words."
)

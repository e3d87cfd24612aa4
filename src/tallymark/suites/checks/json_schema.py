"""`json_schema`: is the answer JSON of the right shape, alone or in its first code block?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallymark.documents.shapes import AnyShape, KindShape, TextShape
from tallymark.documents.yaml_parser import MappingNode
from tallymark.runs.record import CheckResult
from tallymark.suites.checks.check_definition import (
    CheckSetting,
    CheckType,
    QuickCheck,
    WaitingCheck,
)

if TYPE_CHECKING:
    from tallymark.suites.checks.answer_under_check import Subject


def _build(config: Any, setting: CheckSetting) -> QuickCheck | WaitingCheck:
    given = (
        {"file": str(setting.folder / config)} if isinstance(config, str) else {"schema": config}
    )
    scorer = setting.load("json_schema", fenced=True, **given)

    def check(subject: Subject) -> CheckResult:
        score = scorer.score(subject.context)
        passed = score.value == 1.0
        return CheckResult(
            kind="json_schema", passed=passed, reason=score.reason, error=score.error
        )

    return check


JSON_SCHEMA = CheckType(
    "json_schema",
    KindShape(
        scalar=TextShape("the path of a file"), mapping=AnyShape(MappingNode, "a JSON Schema")
    ),
    _build,
    "A JSON Schema, or the path of a file with one, that the answer must fit.",
)

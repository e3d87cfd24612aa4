"""`json_schema`: is the answer JSON of the right shape, alone or in its first code block?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallymark.suites.checks.check import CheckType, Quick, Setting, Waiting
from tallymark.suites.file.nodes import Mapping
from tallymark.suites.file.shapes import Anything, ByKind, Text
from tallymark.suites.record import CheckResult

if TYPE_CHECKING:
    from tallymark.suites.checks.subject import Subject


def _build(config: Any, setting: Setting) -> Quick | Waiting:
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
    ByKind(scalar=Text("the path of a file"), mapping=Anything(Mapping, "a JSON Schema")),
    _build,
    "A JSON Schema, or the path of a file with one, that the answer must fit.",
)

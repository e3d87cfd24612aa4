"""`tool_called` and `not_tool_called`: did the model use a tool, with these arguments?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallymark.documents.shapes import AnyShape, Key, TextShape, record_or_short
from tallymark.documents.yaml_parser import MappingNode
from tallymark.judging.trace_evidence import find_tool_name, read_tool_arguments
from tallymark.runs.record import CheckResult
from tallymark.scorers.json_comparison import is_same
from tallymark.suites.checks.check_definition import (
    CheckSetting,
    CheckType,
    QuickCheck,
    expand_config,
)

if TYPE_CHECKING:
    from tallymark.suites.checks.answer_under_check import Subject
    from tallymark.traces import Span

_SHAPE = record_or_short(
    "name",
    "a mapping with the tool's name and arguments",
    {
        "name": Key(TextShape("a tool's name"), "The tool.", required=True),
        "arguments": Key(
            AnyShape(MappingNode, "a mapping of arguments"),
            "Arguments that the call must have; it may have others too.",
        ),
    },
)


def _build(kind: str, config: Any, setting: CheckSetting) -> QuickCheck:
    given = expand_config(config, "name")
    wanted, arguments = given["name"], given.get("arguments", {})
    named = setting.quote(wanted) + (" with these arguments" if arguments else "")
    asked = kind == "tool_called"

    def check(subject: Subject) -> CheckResult:
        names = []
        for span in subject.answer.spans:
            if span.span_type == "tool":
                names.append(find_tool_name(span))
                if names[-1] == wanted and _has_arguments(span, arguments):
                    return CheckResult(kind=kind, passed=asked, reason=f"{named} was called")
        called = ", ".join(dict.fromkeys(names)) or "no tool"
        reason = f"{named} was not called; called: {setting.redact(called)[:200]}"
        return CheckResult(kind=kind, passed=not asked, reason=reason)

    return check


def _has_arguments(span: Span, arguments: dict[str, Any]) -> bool:
    given = read_tool_arguments(span) if arguments else {}
    return all(key in given and is_same(value, given[key]) for key, value in arguments.items())


def _make_type(kind: str, what: str) -> CheckType:
    return CheckType(
        kind,
        _SHAPE,
        build=lambda config, setting: _build(kind, config, setting),
        help=f"A tool that {what}: its name, or name and arguments. A list: all of them.",
        many=True,
        settled=True,
    )


TOOL_CALLED = _make_type("tool_called", "must be called")
NOT_TOOL_CALLED = _make_type("not_tool_called", "must not be called")

"""What was said of an answer: warnings, violations, and what its evaluator and scorer told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

_SHOWN_APART = {
    *("score_breakdown", "dimension_score", "submission_warnings", "constraint_violations"),
    *("constraint_effect", "harness_warning", "unverified", "unranked", "warning", "sandbox"),
}
_MOST = 20_000


class Warned(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a competitor should know."""

    message: str
    about: str
    tone: str


def list_warnings(details: Mapping[str, Any]) -> Iterable[Warned]:
    """Of the evaluator, of the limits, and of how it was scored."""
    for each in details.get("submission_warnings") or ():
        severe = each.get("severity") == "error"
        about = (
            f"scores 0 in {each.get('dimension')}"
            if severe
            else "advice, which itself costs nothing"
        )
        yield Warned(
            message=str(each.get("message")), about=about, tone="bad" if severe else "warn"
        )
    effect = details.get("constraint_effect")
    for violation in details.get("constraint_violations") or ():
        yield Warned(
            message=str(violation),
            about=f"a limit was broken{f': {effect}' if effect else ', which is noted'}",
            tone="bad",
        )
    for name, about in (
        ("harness_warning", "by the harness"),
        ("warning", "about how it was scored"),
        ("unranked", "why it is not on the board"),
    ):
        if details.get(name):
            yield Warned(message=str(details[name]), about=about, tone="warn")


def list_fields(details: Mapping[str, Any]) -> list[tuple[str, float]]:
    """Scores of single fields, where the evaluator compares field by field."""
    found = (details.get("evaluation") or {}).get("fields")
    if not isinstance(found, Mapping):
        return []
    return [
        (str(name), float(value))
        for name, value in found.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    ]


def write_details(details: Mapping[str, Any]) -> str:
    """What evaluator and scorer told besides; as they wrote it."""
    kept = {key: value for key, value in details.items() if key not in _SHOWN_APART}
    evaluation = kept.get("evaluation")
    if isinstance(evaluation, Mapping) and evaluation.keys() == {"fields"}:
        kept.pop("evaluation")
    if not kept:
        return ""
    text = msgspec.json.format(msgspec.json.encode(kept), indent=2).decode()
    return text[:_MOST]

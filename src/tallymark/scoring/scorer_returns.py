"""`to_score`: the one place where what a scorer returned is judged."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.errors import ScorerError
from tallymark.scoring.score import Score, as_number, show_value

if TYPE_CHECKING:
    from tallymark.scoring.scorer import Scorer

_KEYS = ("value", "reason", "metadata", "label", "error")
# What names in formulas are made of too: there a score's value stands under its name.
SCORE_NAME = re.compile(r"[A-Za-z0-9_-]+")
_ROUNDING = 1e-9
"""Sums of weights may leave [0, 1] by a rounding error; that much is taken as the end itself."""
_WANTED = {
    "numeric": "a number from 0 to 1, True or False, or a Score",
    "boolean": "True or False (1 or 0), or a Score",
    "categorical": "a label (text), or a Score with one",
}


def to_score(raw: object, scorer: Scorer) -> Score:
    """The score that a scorer's return means; a return that means none is a failed score.

    Several scores of one call are the `parts` of the score, each with its name.
    """
    # What most scorers return most of the time goes past all the questions below.
    if (
        raw.__class__ is Score
        and (value := raw.value).__class__ is float
        and 0.0 <= value <= 1.0
        and raw.name is None
        and not scorer.gives
        and ((kind := scorer.data_type) == "numeric" or (kind == "boolean" and value in (0.0, 1.0)))
    ):
        if scorer.is_ours:
            msgspec.structs.force_setattr(raw, "origin", scorer.origin)
            return raw
        return raw.made_by(scorer.origin)
    numeric = scorer.data_type == "numeric" and not scorer.gives
    if numeric and type(raw) is float and 0.0 <= raw <= 1.0:
        return Score(raw, origin=scorer.origin)
    try:
        return _read(raw, scorer)
    except Exception as error:  # noqa: BLE001 (a user's class may raise when it is looked at)
        problem = f"returned a value that raises {type(error).__name__} when read"
        return _make_failed_score(problem, scorer)


def _read(raw: object, scorer: Scorer) -> Score:
    named = _list_named(raw)
    if named is not None:
        return _read_several(named, scorer)
    score = _read_one(raw, scorer)
    if not scorer.gives:
        return score
    why = score.error or f"{scorer.name} gave one score instead of {', '.join(scorer.gives)}"
    failed = Score.failed(why, reason=score.reason, metadata=score.metadata)
    parts = tuple(failed.made_by(scorer.origin, name) for name in scorer.gives)
    return Score(None, origin=scorer.origin, parts=parts)


def _list_named(raw: object) -> list[tuple[object, object]] | None:
    """The scores of a call by their names, where it gave several; None for a single one."""
    if isinstance(raw, Score):
        return None if raw.name is None else [(raw.name, raw)]
    if isinstance(raw, Mapping):
        return None if any(key in _KEYS for key in raw) or not raw else list(raw.items())
    if isinstance(raw, list | tuple) and raw and all(isinstance(each, Score) for each in raw):
        return [(each.name, each) for each in raw]
    return None


def _read_several(named: list[tuple[object, object]], scorer: Scorer) -> Score:
    parts: dict[str, Score] = {}
    for name, each in named:
        if not isinstance(each, Score | Mapping | int | float):
            return _make_failed_score(
                f"returned a mapping that is not {{value, reason, metadata}}, nor one of names "
                f"to scores: {show_value(dict(named))}",
                scorer,
            )
        if not isinstance(name, str) or not SCORE_NAME.fullmatch(name):
            hint = "give each a name" if name is None else "use letters, digits, '_' and '-'"
            return _make_failed_score(f"gave several scores, one named {name!r}; {hint}", scorer)
        if name in parts or (scorer.gives and name not in scorer.gives):
            said = "twice" if name in parts else "which is not in its list `gives`"
            return _make_failed_score(f"gave the score {name!r} {said}", scorer)
        parts[name] = _read_one(each, scorer).made_by(scorer.origin, name)
    for name in scorer.gives:
        if name not in parts:
            absent = _make_failed_score(f"gave no score {name!r}", scorer)
            parts[name] = absent.made_by(scorer.origin, name)
    return Score(None, origin=scorer.origin, parts=tuple(parts.values()))


def _read_one(raw: object, scorer: Scorer) -> Score:
    if isinstance(raw, Score):
        if raw.error is not None:
            return Score(None, raw.reason, raw.metadata, raw.error, raw.label, scorer.origin)
        return _judge_value(raw.value, raw.label, raw.reason, raw.metadata, scorer)
    if isinstance(raw, Mapping):
        return _read_mapping(raw, scorer)
    if raw is None:
        return _make_failed_score(f"returned None instead of {_WANTED[scorer.data_type]}", scorer)
    return _judge_value(raw, None, "", {}, scorer)


def _judge_value(
    value: object, label: str | None, reason: str, metadata: dict[str, Any], scorer: Scorer
) -> Score:
    kind = scorer.data_type
    if value.__class__ is float and (
        0.0 <= value <= 1.0 if kind == "numeric" else kind == "boolean" and value in (0.0, 1.0)
    ):
        return Score(value, reason, metadata, None, label, scorer.origin)
    try:
        if value is None and label is None:
            raise _Refusal(f"gave no value: {reason}" if reason else "gave no value")  # noqa: TRY301
        number, label = _read_number_and_label(value, label, scorer)
    except _Refusal as refusal:
        return _make_failed_score(str(refusal), scorer, reason, metadata)
    return Score(number, reason, metadata, None, label, scorer.origin)


class _Refusal(Exception):
    """A problem of a return, as the end of a sentence that starts with the scorer."""


def _read_number_and_label(
    value: object, label: str | None, scorer: Scorer
) -> tuple[float | None, str | None]:
    if scorer.data_type == "categorical":
        if label is None and isinstance(value, str):
            value, label = None, value
        if label is None:
            raise _make_refusal(value, scorer)
        mapped = _find_label_number(label, scorer)
        return (mapped if value is None else _check_range(value, scorer)), label
    return _check_range(value, scorer), label


def _find_label_number(label: str, scorer: Scorer) -> float | None:
    if scorer.labels is None:
        return None
    if label not in scorer.labels:
        known = ", ".join(scorer.labels)
        raise _Refusal(f"returned the label {show_value(label)}, which is not one of {known}")
    return scorer.labels[label]


def _check_range(value: object, scorer: Scorer) -> float:
    try:
        number = as_number(value)
    except ScorerError:
        raise _make_refusal(value, scorer) from None
    if not -_ROUNDING <= number <= 1 + _ROUNDING:
        raise _make_refusal(value, scorer)
    number = min(1.0, max(0.0, number))
    if scorer.data_type == "boolean" and number not in (0.0, 1.0):
        raise _make_refusal(value, scorer)
    return number


def _make_refusal(value: object, scorer: Scorer) -> _Refusal:
    hint = ""
    if isinstance(value, str):
        hint = '; for labels, write @scorer(data_type="categorical") or give their numbers: labels='
    return _Refusal(f"returned {show_value(value)} instead of {_WANTED[scorer.data_type]}{hint}")


def _read_mapping(raw: Mapping[Any, Any], scorer: Scorer) -> Score:
    reason = raw.get("reason")
    metadata = raw.get("metadata")
    label = raw.get("label")
    error = raw.get("error")
    unknown = [key for key in raw if key not in _KEYS]
    if unknown or not ("value" in raw or "label" in raw or "error" in raw):
        return _make_failed_score(
            f"returned a mapping that is not {{value, reason, metadata}}: {show_value(raw)}", scorer
        )
    for key, given, kind in (
        ("reason", reason, str),
        ("label", label, str),
        ("error", error, str),
        ("metadata", metadata, Mapping),
    ):
        if given is not None and not isinstance(given, kind):
            return _make_failed_score(f"returned {show_value(given)} as its {key}", scorer)
    kept = dict(metadata or {})
    if error is not None:
        return Score(None, reason or "", kept, error, label, scorer.origin)
    return _judge_value(raw.get("value"), label, reason or "", kept, scorer)


def _make_failed_score(
    problem: str, scorer: Scorer, reason: str = "", metadata: dict[str, Any] | None = None
) -> Score:
    error = f"{scorer.name} {problem}"
    return Score(None, reason, {} if metadata is None else metadata, error, None, scorer.origin)

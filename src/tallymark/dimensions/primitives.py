"""Scoring primitives: pure comparisons of an answer with the truth, each from 0 to 1000.

The answer is a competitor's and may be anything: None, or a value of the wrong type, scores 0.
The truth is the author's: None, or a wrong type, is refused. Values are compared as JSON: 1
equals 1.0 but not true, and text that differs only in how unicode composes it (NFC) is equal.

Speed and efficiency score the part of the time, tokens and calls that is left over. Only a verified
attempt has counts that can be believed; the efficiency of any other is 0.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from fractions import Fraction
from typing import Any

from tallymark.dimensions.dimension import MAX_SCORE, clamp_score, require_number, to_fraction
from tallymark.errors import InvalidInput
from tallymark.scoring.score import scalar, show_value

ZERO_AT = 5
"""A number this many tolerances away from the truth scores 0."""

_DEEPEST = 64
"""An answer nested deeper equals nothing; the limit also protects the process from such an
answer.
"""

_LARGE = 2**60
"""Larger numbers are hashed as text: thousands of them can be chosen to have one hash."""


def exact_match(answer: object, truth: object) -> float:
    """1000 if answer = truth, else 0."""
    if truth is None:
        raise InvalidInput("exact_match: the truth must be a value, not None")
    return float(MAX_SCORE * (_make_key(answer) == _make_key(truth)))


def exact_match_ratio(answer: object, truth: Iterable[object] | Mapping[str, object]) -> float:
    """1000 x entries that match / entries of either, by position in a list, by key in a mapping."""
    wanted = _list_entries(truth)
    if wanted is None:
        raise InvalidInput(
            f"exact_match_ratio: the truth must be a list or a mapping{_say_not(truth)}"
        )
    got = _list_entries(answer)
    if got is None or isinstance(answer, Mapping) != isinstance(truth, Mapping):
        return 0.0
    matching = sum(key in got and got[key] == value for key, value in wanted.items())
    return _ratio(matching, len(wanted.keys() | got.keys()))


def numeric_tolerance(answer: object, truth: float, tolerance: float) -> float:
    """1000 x (5t - error) / (4t), within 0-1000: full up to the tolerance t, 0 from 5t on."""
    wanted = require_number(truth, "numeric_tolerance: the truth")
    allowed = require_number(tolerance, "numeric_tolerance: the tolerance")
    if allowed < 0:
        raise InvalidInput(f"numeric_tolerance: the tolerance must be 0 or more, not {tolerance}")
    got = to_fraction(answer)
    if got is None:
        return 0.0
    error = abs(got - wanted)
    if error <= allowed:
        return float(MAX_SCORE)
    end = ZERO_AT * allowed
    return 0.0 if error >= end else float(MAX_SCORE * (end - error) / (end - allowed))


def fuzzy_string(answer: object, truth: str) -> float:
    """1000 x (1 - Levenshtein distance / longer length), ignoring case and runs of spaces."""
    if not isinstance(truth, str):
        raise InvalidInput(f"fuzzy_string: the truth must be text{_say_not(truth)}")
    if not isinstance(answer, str):
        return 0.0
    got, wanted = _fold_text(answer), _fold_text(truth)
    longer = max(len(got), len(wanted))
    return _ratio(longer - levenshtein(got, wanted), longer)


def set_overlap(answer: object, truth: Iterable[object]) -> float:
    """1000 x |answer and truth| / |answer or truth|; duplicates count once."""
    wanted = set(_require_items(truth, "set_overlap"))
    got = _list_items(answer)
    return 0.0 if got is None else _ratio(len(wanted & set(got)), len(wanted | set(got)))


def coverage(answer: object, truth: Iterable[object]) -> float:
    """1000 x required items done / items required; one required twice must be done twice."""
    wanted = Counter(_require_items(truth, "coverage"))
    got = _list_items(answer)
    return 0.0 if got is None else _ratio((wanted & Counter(got)).total(), wanted.total())


def precision(answer: object, truth: Iterable[object]) -> float:
    """1000 x genuine findings / findings reported; none reported is 0, unless none exist."""
    wanted = set(_require_items(truth, "precision"))
    got = _list_items(answer)
    if got is None or (wanted and not got):
        return 0.0
    return _ratio(len(wanted & set(got)), len(set(got)))


def recall(answer: object, truth: Iterable[object]) -> float:
    """1000 x genuine findings reported / genuine findings; duplicates count once."""
    wanted = set(_require_items(truth, "recall"))
    got = _list_items(answer)
    return 0.0 if got is None else _ratio(len(wanted & set(got)), len(wanted))


def time_decay(used: float, limit: float, full_until: float = 0) -> float:
    """1000 x (limit - used) / (limit - full_until), within 0-1000."""
    grace = require_number(full_until, "time_decay: full_until")
    end = require_number(limit, "time_decay: the limit")
    spent = require_number(used, "time_decay: the time used")
    if not 0 <= grace < end:
        raise InvalidInput(
            f"time_decay: full_until must be 0 or more and below the limit, not {full_until}"
        )
    return float(MAX_SCORE * min(max((end - spent) / (end - grace), Fraction(0)), Fraction(1)))


def _ratio(part: int, whole: int) -> float:
    """Nothing out of nothing is all of it."""
    return float(MAX_SCORE * Fraction(part, whole)) if whole else float(MAX_SCORE)


def _say_not(value: object) -> str:
    return f", not {show_value(value)}"


def _list_items(value: object) -> list[Hashable] | None:
    """Comparable items of a list or set; None for anything else, text and mappings included."""
    if not isinstance(value, list | tuple | set | frozenset):
        return None
    return [_make_key(item) for item in value]


def _require_items(truth: object, primitive: str) -> list[Hashable]:
    items = _list_items(truth)
    if items is None:
        raise InvalidInput(f"{primitive}: the truth must be a list or a set{_say_not(truth)}")
    return items


def _list_entries(value: object) -> dict[Any, Hashable] | None:
    if isinstance(value, Mapping):
        return {_make_key(key): _make_key(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return {position: _make_key(item) for position, item in enumerate(value)}
    return None


def _make_key(value: object, depth: int = 0) -> Hashable:
    """A hashable stand-in for a JSON value, equal for equal values only."""
    value = scalar(value)
    if isinstance(value, str):
        return ("text", unicodedata.normalize("NFC", value))
    if value is None or isinstance(value, bool):
        return ("constant", value)
    if isinstance(value, int | float | Fraction) and value == value:  # noqa: PLR0124 (not NaN)
        if (value >= _LARGE or value <= -_LARGE) and value % 1 == 0:  # not infinite
            return ("number", hex(int(value)))
        return ("number", value)
    if depth < _DEEPEST:
        if isinstance(value, Mapping):
            pairs = (
                (_make_key(k, depth + 1), _make_key(item, depth + 1)) for k, item in value.items()
            )
            return ("mapping", frozenset(pairs))
        if isinstance(value, list | tuple):
            return ("list", tuple(_make_key(item, depth + 1) for item in value))
        if isinstance(value, set | frozenset):
            return ("set", frozenset(_make_key(item, depth + 1) for item in value))
    # A new object equals nothing: so it is with NaN, what is too deep, what JSON does not know.
    return object()


def _fold_text(text: str) -> str:
    # Composed last, because casefold takes some letters apart.
    return unicodedata.normalize("NFC", " ".join(text.casefold().split()))


def levenshtein(one: str, other: str) -> int:
    """The fewest insertions, deletions and replacements of one character between two texts.

    By the bit vectors of Myers (1999) and Hyyrö (2003): a column of the table is two integers.
    """
    if one == other:
        return 0
    short, long = sorted((one, other), key=len)
    if not short:
        return len(long)
    places: dict[str, int] = {}
    for position, letter in enumerate(short):
        places[letter] = places.get(letter, 0) | 1 << position
    every = (1 << len(short)) - 1
    last = 1 << (len(short) - 1)
    rises, falls, distance = every, 0, len(short)
    for letter in long:
        here = places.get(letter, 0)
        diagonal = (((here & rises) + rises) ^ rises) | here | falls
        right = falls | (every & ~(diagonal | rises))
        left = rises & diagonal
        distance += bool(right & last) - bool(left & last)
        right = (right << 1 | 1) & every
        rises = (left << 1 & every) | (every & ~(diagonal | right))
        falls = right & diagonal
    return distance


def speed(used: float, limit: float) -> float:
    """1000 x (1 - used / limit), within 0-1000; both in the same unit, by the server's clock."""
    share = require_number(used, "the time used") / require_number(limit, "the time limit", above=0)
    return float(clamp_score(MAX_SCORE * (1 - share)))


def token_efficiency(used: float | None, allowed: float, *, verified: bool) -> float:
    """1000 x max(0, 1 - tokens used / tokens allowed); 0 when not verified."""
    return _efficiency(used, allowed, "tokens", verified=verified)


def call_efficiency(used: float | None, allowed: float, *, verified: bool) -> float:
    """1000 x max(0, 1 - calls made / calls allowed); 0 when not verified."""
    return _efficiency(used, allowed, "calls", verified=verified)


def _efficiency(used: float | None, allowed: float, what: str, *, verified: bool) -> float:
    budget = require_number(allowed, f"the number of {what} allowed", above=0)
    if not verified:
        return 0.0
    spent = require_number(used, f"the number of {what} used")
    if spent < 0:
        raise InvalidInput(f"the number of {what} used must be 0 or more, not {used}")
    return float(clamp_score(MAX_SCORE * (1 - spent / budget)))

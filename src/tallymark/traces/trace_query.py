"""The filter language of traces: `status:error tool:search cost>0.01 since:2h`.

A filter is a list of terms that must all be true. Only the words in these tables exist, and each
mistake is reported with its column. A single word is searched in the text of the trace.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal, NoReturn

from tallymark.errors import InvalidInput, Place, suggest

Operator = Literal[":", "=", "<", "<=", ">", ">="]
LABELS: Final = ("service", "model", "tool", "tag", "version", "session", "user", "name")
"""Texts, compared whole, or with * and ? as a glob."""
NUMBERS: Final = {
    "cost": "cost",
    "duration": "duration",
    "tokens": "tokens",
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "spans": "spans",
    "errors": "errors",
    "calls": "model_calls",
    "tool_calls": "tool_calls",
}
"""By the name of their column."""
CHOICES: Final = {"status": ("ok", "error"), "state": ("open", "settled")}
TIMES: Final = ("since", "until")
SCORE: Final = "score."
PEOPLE: Final = "people."
SCORES: Final = (SCORE, PEOPLE)
"""Scores by rules and by people, which are different scores under the same name."""
ATTRIBUTE: Final = "attr."
OTHERS: Final = ("id", "text")
FIELDS: Final = (
    *LABELS,
    *NUMBERS,
    *CHOICES,
    *TIMES,
    *OTHERS,
    "score.NAME",
    "people.NAME",
    "attr.NAME",
)
_LONGEST = 2_000
_MOST_TERMS = 30
_MOST_VALUES = 20
_HINT = f"there are {', '.join(FIELDS)}"
_TERM = re.compile(
    r"""(?P<no>-?)(?P<field>[A-Za-z_][\w.-]*?)(?P<op>:|<=|>=|<|>|=)(?P<value>"[^"]*"|[^\s"]*)"""
)
_WORD = re.compile(r"""(?P<no>-?)(?P<value>"[^"]*"|[^\s"]+)""")
_NOT_CLOSED = ("the quote is not closed", 'write a " at its end')
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|min|m|h|d|w)")


@dataclass(frozen=True, slots=True)
class Term:
    """One condition."""

    field: str
    operator: Operator
    values: tuple[Any, ...]
    """Texts; numbers of numbers and scores; seconds since 1970 of times. Any of them will do."""
    negated: bool = False

    @property
    def scans(self) -> bool:
        """True if the term needs the spans of a trace."""
        return self.field == "text" or self.field.startswith(ATTRIBUTE)


@dataclass(frozen=True, slots=True)
class TraceQuery:
    """A question, read and checked."""

    text: str = ""
    terms: tuple[Term, ...] = field(default=())

    @property
    def columns(self) -> tuple[Term, ...]:
        """Terms that columns can answer."""
        return tuple(term for term in self.terms if not term.scans)

    @property
    def scanned(self) -> tuple[Term, ...]:
        """Terms that need the spans."""
        return tuple(term for term in self.terms if term.scans)


def parse_query(text: str, *, now: float) -> TraceQuery:
    """Reads a question. Mistakes are an `InvalidInput` with their columns."""
    if len(text) > _LONGEST:
        raise InvalidInput(f"the filter has more than {_LONGEST:,} characters")
    terms: list[Term] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        found = _TERM.match(text, at)
        if found is None:
            found = _WORD.match(text, at)
            if found is None:
                _refuse(text, at, 1, *_NOT_CLOSED)
            terms.append(_make_word(text, found))
        else:
            terms.append(_make_term(text, found, now))
        at = found.end()
        if at < len(text) and not text[at].isspace():
            _refuse(text, at, 1, "a space is missing here", "put values with spaces in quotes")
    if len(terms) > _MOST_TERMS:
        raise InvalidInput(f"the filter has more than {_MOST_TERMS} conditions")
    return TraceQuery(text.strip(), tuple(terms))


def read_moment(text: str, *, now: float) -> float:
    """A time as people write it: 2h ago, or a day."""
    return _read_time(text, (0, max(1, len(text))), text, now)


def _make_word(text: str, found: re.Match[str]) -> Term:
    value = found["value"].strip('"')
    if not value:
        _refuse(text, found.start(), 1, "there is nothing in the quotes", "name a text")
    return Term("text", ":", (value,), bool(found["no"]))


def _make_term(text: str, found: re.Match[str], now: float) -> Term:
    name, operator, negated = found["field"].lower(), found["op"], bool(found["no"])
    if found["field"].lower().startswith((*SCORES, ATTRIBUTE)):
        # Names of scores and attributes are the users' own.
        name = name.partition(".")[0] + found["field"][len(name.partition(".")[0]) :]
    _check_field(text, found, name)
    raw = found["value"]
    at, size = found.start("value"), max(1, len(raw))
    quoted = raw.startswith('"')
    if not raw and text[at : at + 1] == '"':
        _refuse(text, at, 1, *_NOT_CLOSED)
    if raw in ("", '""'):
        _refuse(text, at, 1, f"{name} has no value", "write it behind the sign")
    parts = [raw[1:-1]] if quoted else raw.split(",")
    if len(parts) > _MOST_VALUES:
        _refuse(text, at, size, f"there are more than {_MOST_VALUES} values")
    if not all(parts):
        _refuse(text, at, size, "a value between commas is missing")
    values = tuple(_read_value(text, (at, size), (name, operator, each), now) for each in parts)
    return Term(name, operator, values, negated)  # type: ignore[arg-type]


def _check_field(text: str, found: re.Match[str], name: str) -> None:
    at, size, operator = found.start("field"), len(found["field"]), found["op"]
    if name.startswith((*SCORES, ATTRIBUTE)):
        if name in (*SCORES, ATTRIBUTE):
            _refuse(text, at, size, f"{name} lacks a name", f"write {name}NAME")
    elif name not in (*LABELS, *NUMBERS, *CHOICES, *TIMES, *OTHERS):
        near = suggest(name, FIELDS)
        hint = f"did you mean {near!r}?" if near else _HINT
        _refuse(text, at, size, f"there is no field {found['field']!r}", hint)
    compares = name in NUMBERS or name.startswith(SCORES)
    if not compares and operator not in (":", "="):
        where = found.start("op")
        _refuse(text, where, len(operator), f"{name} cannot be compared", f"write {name}:VALUE")


def _read_value(text: str, place: tuple[int, int], term: tuple[str, str, str], now: float) -> Any:
    name, operator, value = term
    if name in CHOICES:
        if value not in CHOICES[name]:
            near = suggest(value, CHOICES[name])
            hint = f"did you mean {near!r}?" if near else f"it is {' or '.join(CHOICES[name])}"
            _refuse(text, *place, f"{name} is never {value!r}", hint)
        return value
    if name in TIMES:
        return _read_time(text, place, value, now)
    if name in NUMBERS or name.startswith(SCORES):
        if name.startswith(SCORES) and operator == ":" and value in ("any", "none"):
            return value
        return _read_number(text, place, name, value)
    return value


def _read_number(text: str, place: tuple[int, int], name: str, value: str) -> float:
    shown = value.removeprefix("$") if name == "cost" else value
    if name == "duration" and (found := _SPAN.fullmatch(shown)) is not None:
        return float(found[1]) * _UNITS[found[2]]
    try:
        number = float(shown)
    except ValueError:
        number = float("nan")
    if number - number != 0:  # no number, or none that is finite
        hint = "write seconds, or 500ms, 2s, 1m" if name == "duration" else "write a number"
        if name.startswith(SCORES):
            hint = "write a number, or any or none"
        _refuse(text, *place, f"{name} cannot be {value!r}", hint)
    return number


def _read_time(text: str, place: tuple[int, int], value: str, now: float) -> float:
    if (found := _SPAN.fullmatch(value)) is not None:
        return now - float(found[1]) * _UNITS[found[2]]
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        hint = "write 30m, 2h, 7d, 2026-01-31 or 2026-01-31T08:00"
        _refuse(text, *place, f"{value!r} is no time", hint)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _refuse(text: str, at: int, size: int, message: str, hint: str | None = None) -> NoReturn:
    place = Place(column=at + 1, length=size, text=text)
    raise InvalidInput(message, place=place, hint=hint)

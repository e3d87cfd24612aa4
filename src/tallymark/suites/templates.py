"""Templates in text, `{{var('name')}}` and `{{secret('name')}}`, and which value each gets."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tallymark.documents.source import Source
from tallymark.errors import InvalidInput, Place, Problem, suggest
from tallymark.suites.redaction import SHORTEST_SECRET
from tallymark.text import clean_line, shorten_line

if TYPE_CHECKING:
    from tallymark.suites.suite_definition import Case, SuiteDefinition, TemplateUse

TemplateKind: TypeAlias = Literal["var", "secret"]
TemplateLookup: TypeAlias = Callable[[str, str], str]
"""From kind and name to the value."""

_TEMPLATE = re.compile(r"""\{\{\s*(var|secret)\s*\(\s*(?:'([^'{}]+)'|"([^"{}]+)")\s*\)\s*\}\}""")
_NEAR_MISS = re.compile(r"\{\{\s*(?:vars?|secrets?|env)\b[^{}]*\}\}", re.IGNORECASE)
_HINTS = {
    "var": "give it with --var, in the environment, an env file, or with `tally vars`",
    "secret": "give it in the environment, an env file, or with `tally secrets`",
}


def find_templates(text: str) -> Iterator[tuple[TemplateKind, str]]:
    """Kind and name of each template."""
    if "{{" in text:
        for match in _TEMPLATE.finditer(text):
            kind: TemplateKind = "var" if match[1] == "var" else "secret"
            yield kind, (match[2] or match[3]).strip()


def find_near_misses(text: str) -> Iterator[str]:
    """What looks like a template, and is sent as it stands."""
    if "{{" in text:
        for match in _NEAR_MISS.finditer(text):
            if not _TEMPLATE.fullmatch(match[0]):
                yield match[0]


def has_templates(value: Any) -> bool:
    """Is there a template in any text of some plain data?"""
    if isinstance(value, str):
        return "{{" in value and _TEMPLATE.search(value) is not None
    if isinstance(value, dict):
        return any(map(has_templates, value.values()))
    return isinstance(value, list | tuple) and any(map(has_templates, value))


def fill_templates(value: Any, lookup: TemplateLookup) -> Any:
    """Plain data with every template replaced by its value."""
    if isinstance(value, str):
        if "{{" not in value:
            return value
        # In one pass: what is filled in is never looked at again, so data cannot ask for a secret.
        parts, rest = _split_text(value)
        return "".join([before + lookup(kind, name) for before, kind, name in parts]) + rest
    if isinstance(value, dict):
        return {key: fill_templates(each, lookup) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(fill_templates(each, lookup) for each in value)
    return value


@lru_cache(maxsize=64)
def _split_text(text: str) -> tuple[list[tuple[str, str, str]], str]:
    """Each template with the text before it, and the rest; for all rows of a dataset once."""
    *pieces, rest = _TEMPLATE.split(text)
    groups = zip(*[iter(pieces)] * 4, strict=True)
    return [(before, kind, (one or two).strip()) for before, kind, one, two in groups], rest


def write_value(value: Any) -> str:
    """How a value is written into text: as it is, or as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def refuse_unknown(definition: SuiteDefinition, named: Iterable[str], where: str) -> None:
    """Refuses values that were given by name for what the suite never asks for; `where` is said."""
    known = {*definition.used_vars, *definition.secret_names, *definition.vars}
    problems = []
    for name in named:
        if name not in known:
            near = suggest(name, known)
            asked = f"it asks for {shorten_line(', '.join(sorted(known)) or 'none', 80)}"
            hint = f"did you mean '{near}'?" if near else asked
            message = f"the suite asks for no variable '{clean_line(name, 40)}'"
            problems.append(Problem(message, Place(source=where), hint))
    if problems:
        raise InvalidInput(problems)


class TemplateValues:
    """Which value a template gets. The nearest wins: row, eval, caller, suite."""

    def __init__(
        self, definition: SuiteDefinition, given: Mapping[str, Any], secrets: Mapping[str, str]
    ) -> None:
        self._definition = definition
        self._given = given
        self._offered = secrets
        self.secrets = {n: secrets[n] for n in definition.secret_names if n in secrets}

    def suite(self, kind: str, name: str) -> str:
        """For text outside the evals."""
        if kind == "secret" or name in self._given:
            return self._look_up_given(kind, name)
        return write_value(fill_templates(self._definition.vars[name], self._look_up_given))

    def case(self, case: Case) -> TemplateLookup:
        """For text of a case. A row's values are data: templates in them are not looked at."""
        columns, own = case.columns if case.row else {}, case.eval.vars

        def lookup(kind: str, name: str) -> str:
            if kind == "var" and name in columns:
                return write_value(columns[name])
            if kind == "var" and name in own:
                return write_value(fill_templates(own[name], self.suite))
            return self.suite(kind, name)

        return lookup

    def _look_up_given(self, kind: str, name: str) -> str:
        return self.secrets[name] if kind == "secret" else write_value(self._given[name])

    def problems(self) -> Iterator[Problem]:
        """Names without a value, and secrets that could not be kept secret."""
        told: set[tuple[str, str]] = set()
        for use in self._definition.uses:
            message = self._explain_missing(use)
            # An eval that a prompt asks has values of its own, so each that lacks one is told.
            told_as = (use.kind, use.name if use.prompt is None else f"{use.name} {use.eval}")
            if message is not None and told_as not in told:
                told.add(told_as)
                offered = self._given if use.kind == "var" else self._offered
                near = suggest(use.name, offered)
                hint = f"did you mean '{near}'?" if near else _HINTS[use.kind]
                place = Source("", self._definition.source).place(use.line, use.column)
                yield Problem(message, place, hint)
        for name, value in self.secrets.items():
            if len(value) < SHORTEST_SECRET:
                message = f"the secret '{name}' has fewer than {SHORTEST_SECRET} characters"
                yield Problem(message, hint="it could not be kept out of answers and reports")

    def _explain_missing(self, use: TemplateUse) -> str | None:
        if use.kind == "secret":
            return None if use.name in self.secrets else f"the secret '{use.name}' has no value"
        if use.name in self._given or self._definition.has_value(use):
            return None
        asked = "" if use.prompt is None else f" for the prompt '{use.prompt}' here"
        return f"the variable '{use.name}' has no value{asked}"

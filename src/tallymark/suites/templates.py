"""Templates in text, and which value each gets.

`{{var('name')}}` and `{{secret('name')}}` need a value. `{{name}}` is bare: the variable, where
there is one of that name, and otherwise text that is sent as it stands.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tallymark.errors import InvalidInput, Place, Problem, suggest
from tallymark.suites.redaction import SHORTEST_SECRET
from tallymark.text import clean_line, list_some, shorten_line

if TYPE_CHECKING:
    from tallymark.suites.suite_definition import Case, SuiteDefinition, TemplateUse

TemplateKind: TypeAlias = Literal["var", "secret", "bare"]
TemplateLookup: TypeAlias = Callable[[str, str], str | None]
"""From kind and name to the value; None leaves a bare name as it stands."""

_TEMPLATE = re.compile(
    r"""\{\{\s*(?:"""
    r"""(?P<kind>var|secret)\s*\(\s*(?:'(?P<one>[^'{}]+)'|"(?P<two>[^"{}]+)")\s*\)"""
    r"""|(?P<bare>(?!secrets?\.)[^\W\d][\w.-]*)"""
    r""")\s*\}\}"""
)
_NEAR_MISS = re.compile(r"\{\{\s*(?:vars?|secrets?|env)\b[^{}]*\}\}", re.IGNORECASE)
_HINTS = {
    "var": "give it with --var, in the environment, an env file, or with `tally vars`",
    "secret": "give it in the environment, an env file, or with `tally secrets`",
}


def find_templates(text: str) -> Iterator[tuple[TemplateKind, str]]:
    """Kind and name of each template."""
    if "{{" in text:
        yield from map(_read_template, _TEMPLATE.finditer(text))


def _read_template(found: re.Match[str]) -> tuple[TemplateKind, str]:
    if found["bare"]:
        return "bare", found["bare"]
    kind: TemplateKind = "var" if found["kind"] == "var" else "secret"
    return kind, (found["one"] or found["two"]).strip()


def find_column(line: str, name: str, start: int) -> int:
    """Column of a template in a line of the file, from a column on; that column if not found."""
    found = re.compile(r"\{\{[^{}]*?\b" + re.escape(name)).search(line, start - 1)
    return start if found is None else found.start() + 1


def find_near_misses(text: str) -> Iterator[str]:
    """Text that looks like a template and is sent unchanged."""
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
        # In one pass: filled-in text is never scanned again, so data cannot request a secret.
        parts, rest = _split_text(value)
        filled = list[str]()
        for before, template, kind, name in parts:
            found = lookup(kind, name)
            filled += (before, template if found is None else found)
        return "".join(filled) + rest
    if isinstance(value, dict):
        return {key: fill_templates(each, lookup) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(fill_templates(each, lookup) for each in value)
    return value


@lru_cache(maxsize=64)
def _split_text(text: str) -> tuple[list[tuple[str, str, str, str]], str]:
    """Each template with the text before it, and the rest; for all rows of a dataset once."""
    parts, end = list[tuple[str, str, str, str]](), 0
    for found in _TEMPLATE.finditer(text):
        parts.append((text[end : found.start()], found[0], *_read_template(found)))
        end = found.end()
    return parts, text[end:]


def write_value(value: Any) -> str:
    """Write a value into text: as it is, or as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def refuse_unknown(definition: SuiteDefinition, named: Iterable[str], where: str) -> None:
    """Refuse values given by name that the suite never uses; `where` goes into the message."""
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

    def suite(self, kind: str, name: str) -> str | None:
        """For text outside the evals."""
        if kind == "secret" or name in self._given:
            return self._look_up_given(kind, name)
        if kind == "bare" and name not in self._definition.vars:
            return None
        return write_value(fill_templates(self._definition.vars[name], self._look_up_given))

    def case(self, case: Case) -> TemplateLookup:
        """For text of a case. A row's values are data: templates in them are not looked at."""
        columns, own = case.columns if case.row else {}, case.eval.vars

        def lookup(kind: str, name: str) -> str | None:
            if kind != "secret" and name in columns:
                return write_value(columns[name])
            if kind != "secret" and name in own:
                return write_value(fill_templates(own[name], self.suite))
            return self.suite(kind, name)

        return lookup

    def _look_up_given(self, kind: str, name: str) -> str | None:
        if kind == "secret":
            return self.secrets[name]
        if kind == "bare" and name not in self._given:
            return None
        return write_value(self._given[name])

    def problems(self) -> Iterator[Problem]:
        """Names without a value, and secrets that are too short to hide."""
        told: set[tuple[str, str]] = set()
        for use in self._definition.uses:
            message = self._explain_missing(use)
            # An eval of a prompt has its own values, so each one that lacks a value is named.
            told_as = (use.kind, use.name if use.prompt is None else f"{use.name} {use.eval}")
            if message is not None and told_as not in told:
                told.add(told_as)
                offered = self._given if use.kind == "var" else self._offered
                near = suggest(use.name, (*offered, *self._definition.known_vars(use.eval)))
                meant = f"did you mean '{near}'?" if near else ""
                dataset = self._definition.find_dataset(use) if use.kind == "var" else None
                if dataset is not None:
                    meant = f"{meant} its columns are {list_some(dataset.columns)}".strip()
                place = _place(self._definition, use)
                yield Problem(message, place, meant or _HINTS[use.kind])
        for name, value in self.secrets.items():
            if len(value) < SHORTEST_SECRET:
                message = f"the secret '{name}' has fewer than {SHORTEST_SECRET} characters"
                yield Problem(message, hint="it could not be removed from answers and reports")

    def _explain_missing(self, use: TemplateUse) -> str | None:
        if use.kind == "bare":
            return None
        if use.kind == "secret":
            return None if use.name in self.secrets else f"the secret '{use.name}' has no value"
        if use.name in self._given or self._definition.has_value(use):
            return None
        asked = "" if use.prompt is None else f" for the prompt '{use.prompt}' here"
        if (dataset := self._definition.find_dataset(use)) is not None:
            return f"{dataset.file} has no column '{use.name}'{asked}"
        return f"the variable '{use.name}' has no value{asked}"


def find_unfilled(definition: SuiteDefinition, given: Iterable[str]) -> Iterator[Problem]:
    """Each bare name that is no variable, once; `given` are those that the caller has."""
    told = set(given)
    for use in definition.uses:
        if use.kind != "bare" or use.name in told or definition.has_value(use):
            continue
        told.add(use.name)
        # Also for `{{vars.city}}` and `{{env.CITY}}`, as others write them.
        names = definition.known_vars(use.eval)
        near = suggest(use.name, names) or suggest(use.name.rpartition(".")[2], names)
        wanted = "write it under `vars`, or give it with --var"
        if (dataset := definition.find_dataset(use)) is not None:
            wanted = f"the columns of {dataset.file} are {list_some(dataset.columns)}"
        message = f"{{{{{use.name}}}}} is sent as text: there is no variable '{use.name}'"
        hint = f"did you mean {{{{{near}}}}}?" if near else wanted
        yield Problem(message, _place(definition, use), hint)


def _place(definition: SuiteDefinition, use: TemplateUse) -> Place:
    if not use.line:
        return Place(definition.source)
    length = (use.text or "").find("}}", use.column) + 3 - use.column
    return Place(definition.source, use.line, use.column, max(1, length), use.text)

"""Which value a template gets. The nearest wins: row, eval, caller, suite."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tallymark.errors import Problem, suggest
from tallymark.suites.file.redaction import SHORTEST_SECRET
from tallymark.suites.file.templates import TemplateLookup, fill_templates, write_value

if TYPE_CHECKING:
    from tallymark.suites.file.definition import Case, SuiteDefinition, TemplateUse
    from tallymark.suites.file.source import Source

_HINTS = {
    "var": "give it in the environment, an env file, or with `tally vars`",
    "secret": "give it in the environment, an env file, or with `tally secrets`",
}


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
        columns, own = case.columns, case.eval.vars

        def lookup(kind: str, name: str) -> str:
            if kind == "var" and name in columns:
                return write_value(columns[name])
            if kind == "var" and name in own:
                return write_value(fill_templates(own[name], self.suite))
            return self.suite(kind, name)

        return lookup

    def _look_up_given(self, kind: str, name: str) -> str:
        return self.secrets[name] if kind == "secret" else write_value(self._given[name])

    def problems(self, source: Source) -> Iterator[Problem]:
        """Names without a value, and secrets that could not be kept secret."""
        told: set[tuple[str, str]] = set()
        for use in self._definition.uses:
            message = self._explain_missing(use)
            if message is not None and (use.kind, use.name) not in told:
                told.add((use.kind, use.name))
                offered = self._given if use.kind == "var" else self._offered
                near = suggest(use.name, offered)
                hint = f"did you mean '{near}'?" if near else _HINTS[use.kind]
                yield Problem(message, source.place(use.line, use.column), hint)
        for name, value in self.secrets.items():
            if len(value) < SHORTEST_SECRET:
                message = f"the secret '{name}' has fewer than {SHORTEST_SECRET} characters"
                yield Problem(message, hint="it could not be kept out of answers and reports")

    def _explain_missing(self, use: TemplateUse) -> str | None:
        if use.kind == "secret":
            return None if use.name in self.secrets else f"the secret '{use.name}' has no value"
        known = use.name in self._given or self._definition.has_value(use)
        return None if known else f"the variable '{use.name}' has no value"

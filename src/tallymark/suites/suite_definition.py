"""The checked content of a suite file: frozen values with templates as written."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from tallymark.formula import RUN_METRICS, Formula, Names, Variable
from tallymark.formula.formula_names import DERIVED
from tallymark.runs.tally import derive_scorer_names
from tallymark.suites.checks.check_definition import Checks, CheckSpec
from tallymark.suites.checks.check_types import find_value_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from tallymark.formula import Finding
    from tallymark.models.token_prices import Pricing

DEFAULT_FORMULA = "success_pct"


class Turn(msgspec.Struct, frozen=True):
    """Message of the user, and the fixed answer if the suite has one."""

    user: str
    assistant: str | None = None
    checks: tuple[CheckSpec, ...] = ()
    """Checks of the model's answer to this turn."""


class Prompt(msgspec.Struct, frozen=True):
    """One of the suite's prompts, for evals without their own."""

    name: str
    text: str
    system_prompt: str | None = None
    """None: the suite's."""


class Dataset(msgspec.Struct, frozen=True):
    """Rows from which an eval makes its cases."""

    file: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    """The values by column; UNSET where a row has none."""
    ids: tuple[str, ...]
    """The part in brackets of the case's key: `capitals[7]`."""
    digest: str
    """Changes whenever the file does."""


class Eval(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of `evals:`."""

    number: int
    """Its place in the file, from 1."""
    key: str
    """Its name, or `#3` for the third."""
    turns: tuple[Turn, ...]
    """A `prompt` is a conversation of one turn; without one, the suite's prompts are used."""
    checks: tuple[CheckSpec, ...] = ()
    """Checks of the last answer, including `scorers`."""
    name: str | None = None
    system_prompt: str | None = None
    """None: the suite's. Empty: none."""
    expected: Any = None
    threshold: float | None = None
    vars: dict[str, Any] = msgspec.field(default_factory=dict)
    dataset: Dataset | None = None
    epochs: int | None = None
    timeout: float | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    line: int = 0

    def all_checks(self) -> Iterator[CheckSpec]:
        """Every check of every turn, the parts of `or` included."""
        rest = [*self.checks, *(check for turn in self.turns for check in turn.checks)][::-1]
        while rest:
            check = rest.pop()
            yield check
            rest += check.parts[::-1]


class Case(msgspec.Struct, frozen=True, gc=False):
    """One case: an eval, or an eval with one row of its dataset."""

    key: str
    """Unique in the suite."""
    eval: Eval
    row: tuple[Any, ...] = ()

    @property
    def columns(self) -> dict[str, Any]:
        """The values of its row, by column."""
        dataset = self.eval.dataset
        if dataset is None:
            return {}
        found = dict(zip(dataset.columns, self.row, strict=True))
        if msgspec.UNSET not in self.row:
            return found
        return {column: value for column, value in found.items() if value is not msgspec.UNSET}


class TemplateUse(msgspec.Struct, frozen=True):
    """A template somewhere in the suite."""

    kind: Literal["var", "secret", "bare"]
    name: str
    eval: int | None
    """The number of the eval it is in; None in the metadata or the score."""
    line: int = 0
    column: int = 0
    prompt: str | None = None
    """The suite's prompt that it is in, with the line of the eval."""
    text: str | None = None
    """The line of the file, to be shown."""


# dict=True: `cached_property` needs a place for its value.
class SuiteDefinition(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A whole suite."""

    name: str
    evals: tuple[Eval, ...]
    formula: str = DEFAULT_FORMULA
    undefined: float | None = None
    """The score where the formula has no value."""
    parsed: Formula | None = None
    """The formula, read; None where it has templates."""
    description: str = ""
    models: tuple[str, ...] = ()
    system_prompt: str | None = None
    threads: int | None = None
    mcp_servers: tuple[dict[str, Any], ...] = ()
    """Servers as written; `resolve` makes `McpServer`s of them."""
    pricing: Pricing | None = None
    settings: dict[str, Any] = msgspec.field(default_factory=dict)
    timeout: float | None = None
    retries: int | None = None
    epochs: int = 1
    threshold: float | None = None
    judge: str | None = None
    vars: dict[str, Any] = msgspec.field(default_factory=dict)
    tags: dict[str, Any] = msgspec.field(default_factory=dict)
    prompts: tuple[Prompt, ...] = ()
    prompt: str | None = None
    """The one of them that `ask_with` chose."""
    uses: tuple[TemplateUse, ...] = ()
    ready_checks: tuple[tuple[tuple[CheckSpec, ...], Checks], ...] = ()
    """Checks that no run changes, each with the specs that they were built from."""
    document: dict[str, Any] = msgspec.field(default_factory=dict)
    """The file as plain data, which `to_json` writes."""
    hash: str = ""
    """Changes whenever the suite or one of its datasets does."""
    source: str | None = None
    warnings: tuple[Finding, ...] = ()
    """Notes on the file before it runs."""
    folder: Path = msgspec.field(default_factory=Path)
    """Folder in which relative paths of the suite start."""

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        """All cases, in the file's order."""
        made = list[Case]()
        for each in self.evals:
            if each.dataset is None:
                made.append(Case(each.key, each))
            else:  # one for each row
                rows = zip(each.dataset.ids, each.dataset.rows, strict=True)
                made += [Case(f"{each.key}[{key}]", each, row) for key, row in rows]
        return tuple(made)

    @cached_property
    def eval_names(self) -> tuple[str, ...]:
        """The names that evals have."""
        return tuple(each.name for each in self.evals if each.name is not None)

    @cached_property
    def scorer_names(self) -> tuple[str, ...]:
        """The names under which formulas find the values of checks that have one."""
        specs = (spec for each in self.evals for spec in each.all_checks())
        return tuple(dict.fromkeys(name for spec in specs for name in find_value_names(spec)))

    @cached_property
    def names(self) -> Names:
        """All names that the suite's formula may use."""
        return formula_names(self.eval_names, self.scorer_names)

    def parse_formula(self, text: str | None = None) -> Formula:
        """A formula over the suite's names; the suite's own when none is given."""
        if self.parsed is not None and text in (None, self.formula):
            return self.parsed
        return Formula.parse(self.formula if text is None else text, self.names)

    @cached_property
    def var_names(self) -> tuple[str, ...]:
        """The variables that the caller must give: those without a value in the suite."""
        lacking = (each for each in self.uses if each.kind == "var" and not self.has_value(each))
        return tuple(dict.fromkeys(use.name for use in lacking))

    @cached_property
    def used_vars(self) -> tuple[str, ...]:
        """All variables in use, including those with a value in the suite."""
        return tuple(dict.fromkeys(use.name for use in self.uses if use.kind != "secret"))

    @cached_property
    def own_vars(self) -> frozenset[str]:
        """Variables with a value in the suite wherever they are used."""
        asked = [use for use in self.uses if use.kind != "secret"]
        lacking = {use.name for use in asked if not self.has_value(use)}
        return frozenset(use.name for use in asked) - lacking

    @cached_property
    def secret_names(self) -> tuple[str, ...]:
        """The secrets that the caller must give."""
        return tuple(dict.fromkeys(use.name for use in self.uses if use.kind == "secret"))

    def has_value(self, use: TemplateUse) -> bool:
        """Has the suite itself a value for this variable here?"""
        return use.name in self.vars or use.name in self.known_vars(use.eval)

    def known_vars(self, number: int | None) -> tuple[str, ...]:
        """The variables with a value in the eval of this number; None for outside the evals."""
        if number is None:
            return tuple(self.vars)
        owner = self.evals[number - 1]
        columns = () if owner.dataset is None else owner.dataset.columns
        return (*owner.vars, *columns, *self.vars)

    def find_dataset(self, use: TemplateUse) -> Dataset | None:
        """The dataset of the eval in which a template stands."""
        return None if use.eval is None else self.evals[use.eval - 1].dataset

    def ask_with(self, prompt: Prompt) -> SuiteDefinition:
        """The suite with only one of its prompts."""
        replace, turns = msgspec.structs.replace, (Turn(prompt.text),)
        evals = tuple(
            each
            if each.turns
            else replace(
                each,
                turns=turns,
                system_prompt=prompt.system_prompt
                if each.system_prompt is None
                else each.system_prompt,
            )
            for each in self.evals
        )
        uses = tuple(use for use in self.uses if use.prompt in (None, prompt.name))
        return replace(self, evals=evals, prompt=prompt.name, uses=uses)

    def to_json(self) -> str:
        """The suite as JSON with templates as written, for storage with a run."""
        return msgspec.json.encode(self.document).decode()


def formula_names(evals: Iterable[str], scorers: Collection[str]) -> Names:
    """Names that formulas of a run may use: scorer means from 0 to 1, and other statistics."""
    variables = list(RUN_METRICS.values())
    for name in evals:
        variables.append(Variable(name, "eval", 0.0, 1.0))
        variables += [Variable(name + end, measure, 0.0) for end, measure in DERIVED.items()]
    if scorers:
        known = {each.name for each in variables} - set(scorers)
        names = [name for name in derive_scorer_names(scorers) if name not in known]
        variables += [Variable(name, "number", 0.0, 1.0) for name in names]
    return Names(variables, of_run=True)

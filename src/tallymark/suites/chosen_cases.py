"""`CaseChoice`: which cases a run is of, by name, by tag, or because they went wrong before."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tallymark.errors import InvalidInput, suggest
from tallymark.formula.formula_names import DERIVED
from tallymark.suites.checks.check_types import find_value_names
from tallymark.suites.templates import fill_templates, write_value
from tallymark.text import format_count

if TYPE_CHECKING:
    from tallymark.formula import Formula
    from tallymark.suites.suite_definition import Case, SuiteDefinition

_NAMES_SHOWN = 8


class Candidate(NamedTuple):
    """Properties that a case is selected by."""

    key: str
    tags: Collection[str] = ()
    asked: Sequence[str] = ()
    """Of a case without a name: its prompts, one for each of the suite's prompts."""

    @property
    def eval(self) -> str:
        """The eval of which `capitals[7]` and `#3[7]` are rows."""
        return self.key.partition("[")[0]


# dict=True: `cached_property` needs a place for its value.
class CaseChoice(msgspec.Struct, frozen=True, dict=True, omit_defaults=True):
    """Several of one kind mean any of them; different kinds must all be met."""

    only: tuple[str, ...] = ()
    """Names of evals, keys of cases, beginnings of prompts; `*` and `?` stand for any text."""
    tag: tuple[str, ...] = ()
    failed_of: str | None = None
    failed: tuple[str, ...] = ()
    """The cases that failed or could not run in that run, by key."""

    def __bool__(self) -> bool:
        return bool(self.only or self.tag or self.failed_of)

    @property
    def by(self) -> str:
        """The selection as a user writes it."""
        given = [("--only", each) for each in self.only] + [("--tag", each) for each in self.tag]
        given += [("--failed-of", self.failed_of)] if self.failed_of else []
        return " ".join(f"{option} {shlex.quote(value)}" for option, value in given)

    @cached_property
    def _patterns(self) -> list[_Pattern]:
        return [_Pattern.of(text) for text in self.only]

    @cached_property
    def _failed(self) -> frozenset[str]:
        return frozenset(self.failed)

    def takes(self, case: Candidate) -> bool:
        """Is this case chosen?"""
        return (
            (not self.only or any(each.fits(case) for each in self._patterns))
            and (not self.tag or any(each in self.tag for each in case.tags))
            and (self.failed_of is None or case.key in self._failed)
        )

    def choose(self, cases: Sequence[Candidate]) -> list[Candidate]:
        """The cases that are chosen; InvalidInput where a pattern, a tag or all choose none."""
        for pattern, text in zip(self._patterns, self.only, strict=True):
            if not any(map(pattern.fits, cases)):
                names = dict.fromkeys(each.eval for each in cases)
                raise InvalidInput(
                    f"--only {text}: no case has this name", hint=hint_at(text, names)
                )
        tags = dict.fromkeys(tag for each in cases for tag in each.tags)
        for text in self.tag:
            if text not in tags:
                raise InvalidInput(f"--tag {text}: no eval has this tag", hint=hint_at(text, tags))
        if self.failed_of is not None and self._failed.isdisjoint(each.key for each in cases):
            gone = format_count(len(self.failed), "case")
            message = f"the suite has none of the {gone} that failed in the run {self.failed_of}"
            raise InvalidInput(message, hint="name a run of this suite with --failed-of")
        chosen = [each for each in cases if self.takes(each)]
        if not chosen:
            raise InvalidInput(f"no case is chosen by {self.by} together", hint="leave one out")
        return chosen


class _Pattern(NamedTuple):
    name: re.Pattern[str]
    beginning: re.Pattern[str]

    @classmethod
    def of(cls, text: str) -> _Pattern:
        # Brackets stand for themselves: they are part of what cases are called.
        found = re.escape(" ".join(text.split())).replace(r"\*", ".*").replace(r"\?", ".")
        start = re.sub(r"(\\\.){3}$|…$", "", found)  # a prompt copied from where it was cut
        # Without a text, no prompt begins so.
        return cls(re.compile(found, re.DOTALL), re.compile(start or "(?!)", re.DOTALL))

    def fits(self, case: Candidate) -> bool:
        return (
            self.name.fullmatch(case.key) is not None
            or self.name.fullmatch(case.eval) is not None
            or any(self.beginning.match(text) for text in case.asked)
        )


def hint_at(wrong: str, known: Iterable[str]) -> str:
    """The nearest of the names that there are, or else these."""
    names = list(known)
    if near := suggest(wrong.strip("*"), names):
        return f"did you mean '{near}'?"
    more = f" and {len(names) - _NAMES_SHOWN:,} more" if len(names) > _NAMES_SHOWN else ""
    return f"there are {', '.join(names[:_NAMES_SHOWN])}{more}" if names else "there are none"


def list_candidates(definition: SuiteDefinition) -> list[Candidate]:
    """The cases of a suite in YAML."""
    return [
        Candidate(case.key, case.eval.tags, () if case.eval.name else _list_asked(case, definition))
        for case in definition.cases
    ]


def _list_asked(case: Case, definition: SuiteDefinition) -> list[str]:
    """The prompt with the values that the suite itself has: others may change with every run."""
    known = {**definition.vars, **case.eval.vars, **case.columns}

    def lookup(kind: str, name: str) -> str:
        return write_value(known[name]) if kind != "secret" and name in known else f"{{{{{name}}}}}"

    prompts = [each.text for each in definition.prompts]
    said = [turn.user for turn in case.eval.turns[:1]] or prompts
    return [" ".join(fill_templates(text, lookup).split()) for text in said]


def ask_with_each(definition: SuiteDefinition, wanted: Sequence[str]) -> list[SuiteDefinition]:
    """The suite as each of its prompts asks it, or those that `--prompt` names."""
    prompts = definition.prompts
    if wanted and not prompts:
        raise InvalidInput(f"--prompt {wanted[0]}: the suite has no prompts to choose from")
    patterns = [_Pattern.of(text) for text in wanted]
    for pattern, text in zip(patterns, wanted, strict=True):
        if not any(pattern.fits(Candidate(each.name)) for each in prompts):
            hint = hint_at(text, [each.name for each in prompts])
            raise InvalidInput(f"--prompt {text}: there is no prompt with this name", hint=hint)
    chosen = [
        each
        for each in prompts
        if not patterns or any(pattern.fits(Candidate(each.name)) for pattern in patterns)
    ]
    return [definition.ask_with(each) for each in chosen] or [definition]


def describe_part(
    by: str,
    chosen: Collection[str],
    everything: Collection[str],
    formula: Formula,
    scorers: Iterable[str],
) -> dict[str, Any]:
    """Note on a partial run, with the reason why it lacks names of the formula.

    `scorers` score none of the selected cases.
    """
    evals = {key.partition("[")[0] for key in chosen}
    ends = ("", *DERIVED)
    left_out = {}
    for name in dict.fromkeys(key.partition("[")[0] for key in everything):
        if name not in evals and any(name + end in formula.names for end in ends):
            left_out[name] = f"the eval {name!r} was not chosen"
    for name in scorers:
        if name in formula.names:
            left_out[name] = f"no case with the scorer {name!r} was chosen"
    return {"by": by, "cases": len(chosen), "of": len(everything), "left_out": left_out}


def choose_cases(
    definition: SuiteDefinition, choice: CaseChoice, limit: int | None, formula: Formula
) -> tuple[frozenset[str], dict[str, Any]]:
    """Keys of the selected cases, and the record of the selection."""
    candidates = list_candidates(definition)
    keys = [each.key for each in (choice.choose(candidates) if choice else candidates)][:limit]
    given = msgspec.to_builtins(choice)
    by = " ".join(filter(None, (choice.by, f"--limit {limit}" if limit else "")))
    chosen = frozenset(keys)
    asked = {case.eval.number: case.eval for case in definition.cases if case.key in chosen}
    specs = (spec for each in asked.values() for spec in each.all_checks())
    used = {name for spec in specs for name in find_value_names(spec)}
    idle = set(definition.scorer_names) - used
    part = describe_part(by, keys, [each.key for each in candidates], formula, idle)
    return chosen, given | part


def restore_choice(kept: Mapping[str, Any]) -> CaseChoice:
    """The choice that `choose_cases` described."""
    return msgspec.convert(kept, CaseChoice)

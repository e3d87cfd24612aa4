"""Definition of a rule, as a file, a request or options: one table, read and checked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from tallymark.documents.reader import Reader, open_document
from tallymark.documents.shapes import (
    AnyShape,
    ChoiceShape,
    Key,
    KindShape,
    ListShape,
    NumberShape,
    RecordShape,
    TextShape,
    make_inline_schema,
    read_value,
)
from tallymark.documents.yaml_parser import MappingNode
from tallymark.errors import Conflict, InvalidInput
from tallymark.scoring.scorer_registry import ScorerReference
from tallymark.store.traces.rules import RuleDefinition, refuse_name
from tallymark.traces.trace_query import SCORES, TIMES, parse_query

if TYPE_CHECKING:
    from collections.abc import Mapping

WAYS = ("scorer", "composite", "judge", "formula")
"""Exactly one of these scores."""
LONGEST_QUIET = 86_400.0
MOST_OUTPUT = 4_000
"""Default maximum tokens of a judge's answer."""

JUDGE = RecordShape(
    "a mapping with 'rubric' and 'model'",
    {
        "rubric": Key(
            TextShape("a rubric's name, a .toml file or a question"),
            "A built-in rubric, a question of several words, or one's own file.",
            required=True,
        ),
        "model": Key(TextShape("a model"), "Any that `-m` takes.", required=True),
        "choices": Key(AnyShape(MappingNode, "labels with numbers"), "Other labels and numbers."),
        "timeout": Key(NumberShape(above=0), "Seconds for each request.", default=60),
        "max_tokens": Key(
            NumberShape(low=1, whole=True), "The longest answer, in tokens.", default=MOST_OUTPUT
        ),
        "pricing": Key(
            RecordShape(
                "a mapping with 'input' and 'output'",
                {
                    "input": Key(NumberShape(low=0), "Of a million tokens.", required=True),
                    "output": Key(NumberShape(low=0), "Of a million tokens.", required=True),
                },
            ),
            "US dollars, where no table knows them.",
        ),
    },
)
_PART = RecordShape(
    "a mapping with 'scorer' or 'judge'",
    {
        "scorer": Key(TextShape("a scorer"), "A scorer, with its options in brackets."),
        "judge": Key(JUDGE, "A judge."),
        "name": Key(TextShape("a name"), "What formulas and breakdowns call it."),
        "weight": Key(NumberShape(above=0), "How much it counts.", default=1),
    },
    lambda node, reader: _demand_one(node, reader, ("scorer", "judge")),
)
COMPOSITE = RecordShape(
    "a mapping with 'parts'",
    {
        "parts": Key(
            ListShape(KindShape(scalar=TextShape("a scorer"), mapping=_PART), 1),
            "Scorers and judges.",
            required=True,
        ),
        "formula": Key(TextShape("a formula"), "Over the parts' names, instead of weights."),
        "on_error": Key(
            ChoiceShape(("fail", "skip", "zero")), "When a part fails.", default="fail"
        ),
    },
)


def _demand_one(node: MappingNode, reader: Reader, keys: tuple[str, ...]) -> None:
    given = [key for key in keys if key in node.entries]
    if len(given) == 1:
        return
    said = "it has no scorer" if not given else f"{' and '.join(given)} are both given"
    reader.wrong(node, said, f"give one of {', '.join(keys)}")


def _check_rule(node: MappingNode, reader: Reader) -> None:
    _demand_one(node, reader, WAYS)
    if "undefined" in node.entries and "formula" not in node.entries:
        reader.wrong(node.entries["undefined"][0], "undefined: only a formula can be undefined")


RULE = RecordShape(
    "a mapping with 'name' and one of scorer, composite, judge, formula",
    {
        "name": Key(TextShape("a name"), "What commands, filters and pages call it."),
        "scorer": Key(
            TextShape("a scorer"),
            "A scorer, with its options in brackets; `file.py:name` on one's own store.",
        ),
        "composite": Key(COMPOSITE, "Several scorers and judges as one."),
        "judge": Key(JUDGE, "A model judges by a rubric."),
        "formula": Key(TextShape("a formula"), "Over the numbers of the trace."),
        "undefined": Key(NumberShape(), "What an undefined formula is worth; else it fails."),
        "filter": Key(TextShape("a filter", may_be_empty=True), "Which traces; all.", default=""),
        "rate": Key(
            NumberShape(low=0, high=100), "Percent of those that meet the filter.", default=100
        ),
        "cap_cost": Key(NumberShape(above=0), "US dollars that judges may cost a day (UTC)."),
        "cap_count": Key(NumberShape(low=1, whole=True), "Traces that are scored a day (UTC)."),
        "quiet": Key(
            NumberShape(low=0, high=LONGEST_QUIET),
            "Seconds without new spans before it scores, where that is longer than the tenant's.",
            default=0,
        ),
        "reserve": Key(
            NumberShape(low=0),
            "US dollars reserved for each trace before a judge is called; estimated from prices.",
        ),
    },
    _check_rule,
)
"""All keys of a rule."""
RuleDocument = Annotated[dict[str, Any], Meta(extra_json_schema=make_inline_schema(RULE))]
"""A rule as plain data; `read_rule` reports every mistake in it."""


def read_rule(
    given: Mapping[str, Any] | Path, *, folder: Path | None
) -> tuple[str, RuleDefinition]:
    """Read a rule from a file or plain data: its name ('' if it has none) and definition.

    `folder` has its files, for the owner of the database; None for a sent rule. InvalidInput has
    every mistake.
    """
    if isinstance(given, Path):
        reader = open_document(given, "rule")
        values = RULE.read(reader.root, reader)
        reader.check()
    else:
        values = read_value(RULE, dict(given), "rule")
    name = values.pop("name", "")
    if name:
        refuse_name(name)
    said = msgspec.convert(values, RuleDefinition)
    said = msgspec.structs.replace(
        said,
        filter=said.filter.strip(),
        rate=float(said.rate),
        quiet=float(said.quiet),
        folder=None if folder is None else str(folder.absolute()),
    )
    check_filter(said.filter)
    return name, said if folder is None else _find_files(said, folder)


def refuse_other_name(named: str, name: str) -> None:
    """A definition may repeat the rule's name, and no other."""
    if name and named not in ("", name):
        raise Conflict(
            f"it is called {named!r}, and the rule {name!r}",
            hint="scores are known by the name of their rule: it never gets another one",
        )


def check_filter(text: str) -> None:
    """Refuses a filter that no trace could meet in time: scores come after it."""
    for term in parse_query(text, now=0.0).terms:
        if term.field.startswith(SCORES):
            raise InvalidInput(
                f"filter: {term.field} is not known yet when a rule looks at a trace",
                hint="filter by fields of the trace itself",
            )
        if term.field in (*TIMES, "state"):
            raise InvalidInput(
                f"filter: {term.field} has no meaning for traces that are scored as they arrive",
                hint="to score a period, use a backfill",
            )


def write_rule(said: RuleDefinition) -> dict[str, Any]:
    """The definition as it would be written, without defaults."""
    told: dict[str, Any] = msgspec.to_builtins(said)
    told.pop("folder", None)
    return told


def _find_files(said: RuleDefinition, folder: Path) -> RuleDefinition:
    """Files by their whole paths: a worker may have been started anywhere."""
    changes: dict[str, Any] = {}
    if said.scorer is not None:
        changes["scorer"] = _find_file(said.scorer, folder)
    if said.judge is not None:
        changes["judge"] = _find_rubric(said.judge, folder)
    if said.composite is not None:
        parts = [_find_part(each, folder) for each in said.composite["parts"]]
        changes["composite"] = {**said.composite, "parts": parts}
    return msgspec.structs.replace(said, **changes)


def _find_part(part: Any, folder: Path) -> Any:
    if isinstance(part, str):
        return _find_file(part, folder)
    if "scorer" in part:
        return {**part, "scorer": _find_file(part["scorer"], folder)}
    return {**part, "judge": _find_rubric(part["judge"], folder)}


def _find_file(reference: str, folder: Path) -> str:
    home = ScorerReference.parse(reference).home
    if home is None or not home.endswith(".py") or os.path.isabs(home):  # noqa: PTH117 (a text)
        return reference
    return reference.replace(home, str((folder / home).absolute()), 1)


def _find_rubric(judge: dict[str, Any], folder: Path) -> dict[str, Any]:
    rubric = judge["rubric"]
    if not rubric.endswith(".toml"):
        return judge
    return {**judge, "rubric": str((folder / rubric).absolute())}

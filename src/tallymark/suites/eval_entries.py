"""Entries of `evals:` and their conversion to `Eval`s, with the datasets they name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.documents.shapes import (
    AnyShape,
    Key,
    KindShape,
    ListShape,
    MapShape,
    NumberShape,
    RecordShape,
    TextShape,
    one_or_many,
)
from tallymark.documents.yaml_parser import MappingNode, Node, ScalarNode, SequenceNode
from tallymark.formula.formula_names import make_name_schema
from tallymark.scoring import Expected
from tallymark.suites.checks.check_definition import CheckSpec
from tallymark.suites.checks_format import CHECK_KEYS, CHECKS
from tallymark.suites.datasets import read_dataset
from tallymark.suites.suite_definition import Eval, Turn
from tallymark.suites.templates import has_templates

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallymark.documents.reader import Reader

COUNT = NumberShape(low=1, high=10_000, whole=True)
SECONDS = NumberShape(above=0)
THRESHOLD = NumberShape(low=0, high=1)
VARS = MapShape(AnyShape(ScalarNode, "text, a number or a truth value"))
TEXTS = ListShape(TextShape())


def _refuse_check_of_given(node: MappingNode, reader: Reader) -> None:
    if "assistant" in node.entries and "checks" in node.entries:
        reader.wrong(node, "a turn with 'assistant' has no answer to check")


TURN = KindShape(
    scalar=TextShape(),
    mapping=RecordShape(
        "a mapping with 'user'",
        {
            "user": Key(TextShape(), "Message of the user.", required=True),
            "assistant": Key(TextShape(), "Fixed answer to this turn; the model is not called."),
            "checks": Key(CHECKS, "Checks of the model's answer to this turn."),
        },
        _refuse_check_of_given,
        {"not": {"required": ["assistant", "checks"]}},
    ),
)


def _require_prompt_and_checks(node: MappingNode, reader: Reader) -> None:
    given = ("prompt" in node.entries) + ("turns" in node.entries)
    # Without either, the suite's prompts are used.
    if given == 2 or (not given and reader.find("prompts") is None):
        reader.wrong(node, "an eval has either a 'prompt' or 'turns'")
    said: list[Node] = []
    if "turns" in node.entries and isinstance(turns := node.entries["turns"][1], SequenceNode):
        said = turns.items
    if said and _has_key(said[-1], "assistant"):
        reader.wrong(said[-1], "the last turn has an 'assistant', so the model is never called")
    checked = "checks" in node.entries or "scorers" in node.entries
    if not checked and not any(_has_key(turn, "checks") for turn in said):
        hint = "add 'checks'; write checks: [] to measure only"
        reader.wrong(node, "nothing is checked", hint)


def _has_key(node: Node, key: str) -> bool:
    return isinstance(node, MappingNode) and key in node.entries


_DATASET = {"pattern": r"\.([cCtT][sS][vV]|([nN][dD])?[jJ][sS][oO][nN][lL]?)$"}
CASES_FROM = KindShape(
    scalar=TextShape("the path of a .csv, .json or .jsonl file", rules=_DATASET),
    mapping=RecordShape(
        "a mapping with 'file'",
        {
            "file": Key(
                TextShape(rules=_DATASET), "A .csv, .tsv, .json or .jsonl file.", required=True
            ),
            "id": Key(TextShape(), "The column that names its rows; `id` where there is one."),
            "limit": Key(NumberShape(low=1, whole=True), "Take the first rows only."),
        },
    ),
)
EVAL = RecordShape(
    "a mapping with 'prompt' and 'checks'",
    {
        "name": Key(
            TextShape("a name", rules=make_name_schema(of_eval=True)),
            "How formulas call it: letters, digits, _ and -; unique, not reserved.",
        ),
        "prompt": Key(TextShape(), "Prompt for the model."),
        "turns": Key(ListShape(TURN, 1), "A conversation, instead of a prompt."),
        "system_prompt": Key(
            TextShape(may_be_empty=True), "Instead of the suite's; empty for none."
        ),
        "checks": Key(
            CHECKS, "All must pass; `or:` for alternatives. An empty list only measures."
        ),
        "scorers": Key(one_or_many(TextShape("a scorer")), "Short for a `scorer` check each."),
        "expected": Key(
            KindShape(
                scalar=TextShape(may_be_empty=True),
                mapping=AnyShape(
                    MappingNode, "a mapping with output, output_contains or tool_calls"
                ),
            ),
            "What scorers compare with: the output, or a mapping.",
        ),
        "threshold": Key(THRESHOLD, "What this eval's scorers must reach."),
        "vars": Key(VARS, "Values for {{var('name')}} in this eval."),
        "cases_from": Key(
            CASES_FROM,
            "A dataset beside the suite: a case for each row, its columns as {{var('column')}}.",
        ),
        "epochs": Key(COUNT, "Number of times the case is run."),
        "timeout": Key(SECONDS, "Seconds for the case."),
        "tags": Key(TEXTS, "For choosing cases."),
        "metadata": Key(AnyShape(MappingNode, "a mapping"), "What scorers see as metadata."),
    },
    _require_prompt_and_checks,
    {
        "not": {"required": ["prompt", "turns"]},
        "anyOf": [
            {"required": ["checks"]},
            {"required": ["scorers"]},
            {
                "required": ["turns"],
                "properties": {
                    "turns": {
                        "description": "Without checks of the eval, a turn has some.",
                        "contains": {"type": "object", "required": ["checks"]},
                    }
                },
            },
        ],
    },
    elsewhere={
        **{kind: f"checks: [{{{kind}: ...}}]" for kind in CHECK_KEYS},
        "assert": "checks",
        "dataset": "cases_from",
        "data": "cases_from",
        "input": "prompt",
    },
)

_COPIED_KEYS = ("name", "system_prompt", "expected", "threshold", "vars", "epochs", "timeout")


def read_evals(values: list[Any], items: list[Node], reader: Reader) -> Iterator[Eval]:
    """The evals that could be read, each with its number in the file."""
    for number, (value, item) in enumerate(zip(values, items, strict=True), start=1):
        if isinstance(value, dict) and isinstance(item, MappingNode):
            reader.path = ["evals", f"#{number}"]
            yield _read_eval(number, value, item, reader)
    reader.path = []


def _read_eval(number: int, value: dict[str, Any], node: MappingNode, reader: Reader) -> Eval:
    specs: list[CheckSpec] = []
    if "scorers" in value:
        scorers, at = value["scorers"], node.entries["scorers"][1]
        specs = [
            CheckSpec("scorer", each, line=at.line, column=at.column)
            for each in (scorers if isinstance(scorers, list) else [scorers])
            if isinstance(each, str)
        ]
    prompt = [Turn(value["prompt"])] if "prompt" in value else []
    expected = value.get("expected")
    if expected is not None and not has_templates(expected):  # those are looked at when filled in
        with reader.errors_of(node.entries["expected"][1]):
            read_expected(expected)
    dataset = None
    if "cases_from" in value:
        with reader.errors_of(node.entries["cases_from"][1]):
            dataset = read_dataset(reader.source.folder, value["cases_from"])
    return Eval(
        number=number,
        key=value.get("name") or f"#{number}",
        turns=(*prompt, *(_read_turns(value["turns"]) if "turns" in value else ())),
        checks=(*value.get("checks", ()), *specs),
        dataset=dataset,
        tags=tuple(value.get("tags", ())),
        metadata=value.get("metadata", {}),
        line=node.line,
        **{key: value[key] for key in _COPIED_KEYS if key in value},
    )


def _read_turns(given: list[Any]) -> Iterator[Turn]:
    for turn in given:
        if isinstance(turn, str):
            yield Turn(turn)
        elif isinstance(turn, dict) and "user" in turn:
            yield Turn(turn["user"], turn.get("assistant"), tuple(turn.get("checks", ())))


def read_expected(given: Any) -> Expected:
    """Expected values for scorers: a text is the output."""
    if isinstance(given, dict):
        return Expected.from_dict(given, "expected")
    return Expected(output=given)


def find_missing_values(entry: Eval, names: set[str]) -> Iterator[str]:
    """Rows that lack a column which the eval uses and has no other value for."""
    dataset = entry.dataset
    if dataset is None:
        return
    for at, column in enumerate(dataset.columns):
        if column in names and column not in entry.vars:
            lacking = [
                i
                for i, row in zip(dataset.ids, dataset.rows, strict=True)
                if row[at] is msgspec.UNSET
            ]
            if lacking:
                yield f"{dataset.file}: row {lacking[0]} has no {column!r}"

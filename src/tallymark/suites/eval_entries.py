"""From what stands under `evals:` to `Eval`s, with the datasets that they name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.documents.nodes import MappingNode, Node, SequenceNode
from tallymark.errors import InvalidInput
from tallymark.scoring import Expected
from tallymark.suites.checks.check_definition import CheckSpec
from tallymark.suites.datasets import read_dataset
from tallymark.suites.suite_definition import Dataset, Eval, Turn
from tallymark.suites.templates import has_templates

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallymark.documents.reader import Reader

_COPIED_KEYS = ("name", "system_prompt", "expected", "threshold", "vars", "epochs", "timeout")


def read_evals(values: list[Any], node: Node | None, reader: Reader) -> Iterator[Eval]:
    """The evals that could be read, each with its number in the file."""
    items = node.items if isinstance(node, SequenceNode) else []
    for number, (value, item) in enumerate(zip(values, items, strict=True), start=1):
        if isinstance(value, dict) and isinstance(item, MappingNode):
            reader.path = ["evals", f"#{number}"]
            yield _read_eval(number, value, item, reader)
    reader.path = []


def _read_eval(number: int, value: dict[str, Any], node: MappingNode, reader: Reader) -> Eval:
    scorers, at = value.get("scorers", []), node.get("scorers") or node
    specs = [
        CheckSpec("scorer", each, line=at.line, column=at.column)
        for each in (scorers if isinstance(scorers, list) else [scorers])
        if isinstance(each, str)
    ]
    prompt = [Turn(value["prompt"])] if "prompt" in value else []
    if "expected" in value:
        _check_expected(value["expected"], node, reader)
    return Eval(
        number=number,
        turns=(*prompt, *(_read_turns(value["turns"]) if "turns" in value else ())),
        checks=(*value.get("checks", ()), *specs),
        dataset=_read_dataset(value["cases_from"], node, reader) if "cases_from" in value else None,
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


def _check_expected(given: Any, node: MappingNode, reader: Reader) -> None:
    """Expectations that hold templates are looked at when those are filled in."""
    if not has_templates(given):
        try:
            read_expected(given)
        except InvalidInput as error:
            for problem in error.problems:
                reader.wrong(node.get("expected") or node, problem.message, problem.hint)


def read_expected(given: Any) -> Expected:
    """What scorers compare with: a text is the output."""
    if isinstance(given, dict):
        return Expected.from_dict(given, "expected")
    return Expected(output=given)


def _read_dataset(given: Any, node: MappingNode, reader: Reader) -> Dataset | None:
    try:
        return read_dataset(reader.source.folder, given)
    except InvalidInput as error:
        for problem in error.problems:
            if problem.place is None:
                reader.wrong(node.get("cases_from") or node, problem.message, problem.hint)
            else:
                reader.report(problem)
    return None


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

"""The test cases of a challenge: what a program is given, and what it ought to answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tallymark.challenges.evaluators.deterministic import PRIMITIVES, compare, find_excess
from tallymark.documents.reader import MISSING, Reader, open_document
from tallymark.documents.shapes import (
    AnyShape,
    ChoiceShape,
    Key,
    ListShape,
    NumberShape,
    RecordShape,
    TextShape,
)
from tallymark.documents.source import Source
from tallymark.documents.yaml_parser import MappingNode, Node, ScalarNode, SequenceNode, make_nodes
from tallymark.errors import InvalidInput

CALL_KEYS = ("kwargs", "value", "primitive", "tolerance")
RUN_KEYS = ("stdin", "stdout", "exit")


def _check_kind(node: MappingNode, reader: Reader) -> None:
    call = "call" in node.entries
    for key in RUN_KEYS if call else CALL_KEYS:
        if key in node.entries:
            kind = "that calls a function" if call else "without 'call'"
            reader.wrong(node.entries[key][0], f"a case {kind} has no '{key}'")
    if call and "value" not in node.entries:
        reader.wrong(node, "a case that calls a function needs the 'value' it ought to give")
    args = node.get("args")
    if not call and any(
        isinstance(each, ScalarNode) and not each.text for each in _list_items(args)
    ):
        reader.wrong(node.entries["args"][0], "a program's arguments are not empty")
    if not call and not {"stdout", "exit"} & node.entries.keys():
        reader.wrong(
            node, "nothing is expected", "write 'call' and 'value', or 'stdout', or 'exit'"
        )


CASES = ListShape(
    RecordShape(
        "a mapping with 'name' and what is expected",
        {
            "name": Key(TextShape("a name"), "What results call it.", required=True),
            "call": Key(TextShape("a function's name"), "The function to call."),
            "args": Key(AnyShape(SequenceNode, "a list"), "Its arguments, or the program's."),
            "kwargs": Key(AnyShape(MappingNode, "a mapping"), "Its arguments by name."),
            "value": Key(AnyShape(), "What it ought to give."),
            "primitive": Key(ChoiceShape(tuple(PRIMITIVES)), "How that is compared; exact_match."),
            "tolerance": Key(NumberShape(low=0), "For numeric_tolerance."),
            "stdin": Key(TextShape(may_be_empty=True), "What the program reads."),
            "stdout": Key(TextShape(may_be_empty=True), "What it ought to print."),
            "exit": Key(NumberShape(low=0, high=255, whole=True), "Its exit code; 0."),
        },
        _check_kind,
    ),
    1,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramCase:
    """One case. Nothing but `inputs` may reach a sandbox with submitted code in it."""

    name: str
    call: str | None = None
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    value: Any = None
    primitive: str = "exact_match"
    tolerance: float | None = None
    stdin: str = ""
    stdout: str | None = None
    exit: int = 0

    @property
    def inputs(self) -> list[Any]:
        """Parameters of a call."""
        return [self.call, self.args, self.kwargs]

    def accepts(self, value: object) -> bool:
        """True if a function returned the expected value."""
        if self.value is None:
            return value is None
        spec: dict[str, Any] = {"primitive": self.primitive}
        if self.tolerance is not None:
            spec["tolerance"] = self.tolerance
        return (
            find_excess(value, self.primitive) is None and compare(spec, value, self.value) == 1000
        )

    def prints(self, printed: str) -> bool:
        """True if a program printed the expected text, ignoring spaces at line ends."""
        return self.stdout is None or _tidy(printed) == _tidy(self.stdout)


def read_cases(path: Path) -> list[ProgramCase]:
    """The cases in a file: a list, or a mapping with `cases`."""
    return _read_case_nodes(open_document(path, "challenge"))


def parse_cases(truth: object, where: str) -> list[ProgramCase]:
    """The cases in a truth that was generated."""
    listed = truth.get("cases") if isinstance(truth, Mapping) else None
    if not isinstance(listed, list):
        raise InvalidInput(f'the truth of {where} must be {{"cases": [...]}}')
    return _read_case_nodes(Reader(Source("", where), make_nodes(listed)))


def _read_case_nodes(reader: Reader) -> list[ProgramCase]:
    root = reader.root
    listed = root.get("cases") if isinstance(root, MappingNode) else root
    values = MISSING if listed is None else CASES.read(listed, reader)
    if listed is None:
        reader.wrong(root, "the key 'cases' is missing")
    reader.check()
    cases = [ProgramCase(**value) for value in values]
    names = Counter(case.name for case in cases)
    for case, node in zip(cases, _list_items(listed), strict=True):
        if names[case.name] > 1:
            reader.wrong(node, f"two cases are named '{case.name}'", "give each its own name")
        with reader.errors_of(node):
            case.accepts(case.value)
    reader.check()
    return cases


def _list_items(node: Node | None) -> list[Node]:
    return node.items if isinstance(node, SequenceNode) else []


def _tidy(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines())

"""The test cases of a challenge: what a program is given, and what it ought to answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping as MappingType
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tallymark.challenges.evaluators.deterministic import PRIMITIVES, compare, too_much
from tallymark.challenges.file.plain import read_nodes
from tallymark.challenges.file.shapes import Choice
from tallymark.errors import InvalidInput
from tallymark.suites.file.nodes import Mapping, Node, Scalar, Sequence, nodes_of
from tallymark.suites.file.reader import MISSING, Reader
from tallymark.suites.file.shapes import Anything, Key, ListOf, Number, Record, Text
from tallymark.suites.file.source import Source

CALL_KEYS = ("kwargs", "value", "primitive", "tolerance")
RUN_KEYS = ("stdin", "stdout", "exit")


def _one_kind(node: Mapping, reader: Reader) -> None:
    call = "call" in node.entries
    for key in RUN_KEYS if call else CALL_KEYS:
        if key in node.entries:
            kind = "that calls a function" if call else "without 'call'"
            reader.wrong(node.entries[key][0], f"a case {kind} has no '{key}'")
    if call and "value" not in node.entries:
        reader.wrong(node, "a case that calls a function needs the 'value' it ought to give")
    args = node.get("args")
    if not call and any(isinstance(each, Scalar) and not each.text for each in _items(args)):
        reader.wrong(node.entries["args"][0], "a program's arguments are not empty")
    if not call and not {"stdout", "exit"} & node.entries.keys():
        reader.wrong(
            node, "nothing is expected", "write 'call' and 'value', or 'stdout', or 'exit'"
        )


CASES = ListOf(
    Record(
        "a mapping with 'name' and what is expected",
        {
            "name": Key(Text("a name"), "What results call it.", required=True),
            "call": Key(Text("a function's name"), "The function to call."),
            "args": Key(Anything(Sequence, "a list"), "Its arguments, or the program's."),
            "kwargs": Key(Anything(Mapping, "a mapping"), "Its arguments by name."),
            "value": Key(Anything(), "What it ought to give."),
            "primitive": Key(Choice(tuple(PRIMITIVES)), "How that is compared; exact_match."),
            "tolerance": Key(Number(low=0), "For numeric_tolerance."),
            "stdin": Key(Text(may_be_empty=True), "What the program reads."),
            "stdout": Key(Text(may_be_empty=True), "What it ought to print."),
            "exit": Key(Number(low=0, high=255, whole=True), "Its exit code; 0."),
        },
        _one_kind,
    ),
    1,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
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
        """What a call needs to know."""
        return [self.call, self.args, self.kwargs]

    def accepts(self, value: object) -> bool:
        """Whether a function gave what it ought to."""
        if self.value is None:
            return value is None
        spec: dict[str, Any] = {"primitive": self.primitive}
        if self.tolerance is not None:
            spec["tolerance"] = self.tolerance
        return too_much(value, self.primitive) is None and compare(spec, value, self.value) == 1000

    def prints(self, printed: str) -> bool:
        """Whether a program printed what it ought to, spaces at the ends of lines aside."""
        return self.stdout is None or _tidy(printed) == _tidy(self.stdout)


def read_cases(path: Path) -> list[Case]:
    """The cases in a file: a list, or a mapping with `cases`."""
    root, reader = read_nodes(path, "challenge")
    return _cases(root, reader)


def cases_of(truth: object, where: str) -> list[Case]:
    """The cases in a truth that was generated."""
    listed = truth.get("cases") if isinstance(truth, MappingType) else None
    if not isinstance(listed, list):
        raise InvalidInput(f'the truth of {where} must be {{"cases": [...]}}')
    return _cases(nodes_of(listed), Reader(Source("", where)))


def _cases(root: Node, reader: Reader) -> list[Case]:
    listed = root.get("cases") if isinstance(root, Mapping) else root
    values = MISSING if listed is None else CASES.read(listed, reader)
    if listed is None:
        reader.wrong(root, "the key 'cases' is missing")
    reader.check()
    cases = [Case(**value) for value in values]
    names = Counter(case.name for case in cases)
    for case, node in zip(cases, _items(listed), strict=True):
        if names[case.name] > 1:
            reader.wrong(node, f"two cases are named '{case.name}'", "give each its own name")
        try:
            case.accepts(case.value)
        except InvalidInput as error:
            reader.wrong(node, error.problems[0].message, error.problems[0].hint)
    reader.check()
    return cases


def _items(node: Node | None) -> list[Node]:
    return node.items if isinstance(node, Sequence) else []


def _tidy(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines())

"""The `evaluator:` part of a challenge: its type, and the options of that type."""

from __future__ import annotations

from collections.abc import Mapping as Mapping_
from dataclasses import dataclass, field
from typing import Any, get_args

from tallymark.challenges.definition import EvaluatorType, JudgeType
from tallymark.challenges.evaluators.deterministic import PRIMITIVES
from tallymark.challenges.file.file_name import FileName
from tallymark.challenges.file.shapes import Choice, Duration
from tallymark.suites.file.nodes import Mapping, Node, Scalar
from tallymark.suites.file.reader import MISSING, Reader
from tallymark.suites.file.shapes import (
    Anything,
    ByKind,
    Flag,
    Key,
    ListOf,
    MapOf,
    Number,
    Record,
    Shape,
    Text,
)

TYPES = Choice(get_args(EvaluatorType))
SCORE = Number(low=0, high=1000)
MEMORY = Number(low=16, high=64_000, whole=True)
NAMES = ListOf(Text("a name"))


def _tolerance(node: Mapping, reader: Reader) -> None:
    primitive = node.get("primitive")
    numeric = isinstance(primitive, Scalar) and primitive.text == "numeric_tolerance"
    if numeric != ("tolerance" in node.entries):
        reader.wrong(node, "numeric_tolerance needs a 'tolerance', and nothing else takes one")


class _Field(ByKind):
    """A primitive's name alone is short for a mapping with it."""

    def read(self, node: Node, reader: Reader) -> Any:
        value = super().read(node, reader)
        if value is MISSING:
            return MISSING
        given = value if isinstance(value, dict) else {"primitive": value}
        return {"primitive": "exact_match"} | given


FIELD = _Field(
    scalar=Choice(tuple(PRIMITIVES)),
    mapping=Record(
        "a mapping with 'primitive'",
        {
            "primitive": Key(Choice(tuple(PRIMITIVES)), "How it is compared; exact_match."),
            "dimension": Key(Text(), "The dimension that it counts for; correctness."),
            "weight": Key(Number(above=0), "Its share in that dimension; 1."),
            "tolerance": Key(Number(low=0), "Full marks within it, none from five times it on."),
            "truth": Key(Text(), "Where its truth lies, if not at the same path."),
        },
        _tolerance,
    ),
)
DIMENSION = Key(Text(), "The dimension that it scores.")
PASS_AT = Key(SCORE, "Without dimensions, the score that an attempt succeeds with; 1000.")
METRICS = Key(NAMES, "Names of its own metrics, for formulas.")
TRUTH = Key(FileName(), "The file with the truth: JSON or YAML; else a text.")
LIMITS = {
    "time": Key(Duration(), "How long one run may take."),
    "memory": Key(MEMORY, "Megabytes that it may use."),
    "packages": Key(Flag(), "May it import the packages that are installed here?"),
}
RUN = Record(
    "a mapping with 'command'",
    {
        "command": Key(ListOf(Text("a word"), 1), "Such as [python, main.py].", True),
        "stdin": Key(Text(may_be_empty=True), "What it reads."),
        **LIMITS,
    },
)

OPTIONS: dict[str, dict[str, Key]] = {
    "deterministic": {
        "truth": TRUTH,
        "fields": Key(MapOf(FIELD), "How each field, by its path `a.b.0`, is compared.", True),
        "pass_at": PASS_AT,
    },
    "tests": {
        "cases": Key(FileName(), "A YAML or JSON file with the test cases."),
        "entry": Key(Text(), "The submitted file that is run or called; solution.py."),
        "dimension": DIMENSION,
        "pass_at": PASS_AT,
        **LIMITS,
    },
    "script": {
        "script": Key(FileName(), "The file with `evaluate(submission, truth, data)`.", True),
        "truth": TRUTH,
        "run": Key(RUN, "Runs the submitted files first; what they print goes to the script."),
        **LIMITS,
    },
    "judge": {
        "rubric": Key(FileName(), "A text file: what the judge goes by.", True),
        "model": Key(Text(), "The model that judges."),
        "max_rating": Key(Number(above=0), "The best rating; 10."),
        "pass_at": Key(Number(low=0), "The rating that an attempt succeeds with."),
        "dimension": DIMENSION,
        "temperature": Key(Anything(Scalar, "a number or null"), "0; null for models without."),
        "max_chars": Key(Number(above=0, whole=True), "How much of a submission it is shown."),
        "timeout": Key(Duration(), "How long it may take to answer."),
    },
    "reported": {},
    "suite": {
        "suite": Key(FileName(), "A suite of evals, run against the submitted agent.", True),
        "allow": Key(NAMES, "Kinds of models that may be submitted."),
        "pass_at": Key(Number(low=0, high=100), "The success_pct that it succeeds with; 100."),
        "dimension": DIMENSION,
        "vars": Key(Anything(Mapping, "a mapping"), "Values for the suite's variables."),
        "timeout": Key(Duration(), "How long one request may take."),
        "time_limit": Key(Duration(), "How long all of them may take."),
    },
}
_SCRIPT = {"script": Key(FileName(), "The file with `judge(attack, defence, category)`.", True)}
JUDGES: dict[str, dict[str, Key]] = {
    "script": {**_SCRIPT, **LIMITS},
    "judge": {
        name: OPTIONS["judge"][name]
        for name in ("rubric", "model", "temperature", "max_chars", "timeout")
    },
    "scorer": {
        "scorer": Key(Text(), "A built-in or installed scorer; it sees attack and defence.", True),
        "threshold": Key(Number(low=0, high=1), "The value from which on it is a breach; 0.5."),
    },
}


@dataclass(frozen=True)
class EvaluatorShape(Shape):
    """A mapping with `type` and the options of that type; the type alone where it needs none."""

    types: Choice = TYPES
    options: Mapping_[str, dict[str, Key]] = field(default_factory=lambda: OPTIONS)
    more: dict[str, Key] = field(default_factory=lambda: {"metrics": METRICS})

    def words(self) -> str:
        return "a mapping with 'type'"

    def read(self, node: Node, reader: Reader) -> Any:
        if isinstance(node, Scalar):
            alone = Mapping(node.line, node.column)
            alone.entries = {"type": (node, node)}
            return self.read(alone, reader)
        if not isinstance(node, Mapping):
            return self.refuse(node, reader)
        named = node.get("type")
        if named is None:
            return reader.wrong(node, "the key 'type' is missing", f"write {self.types.words()}")
        name = reader.read("type", self.types, named)
        return MISSING if name is MISSING else self._record(name).read(node, reader)

    def schema(self) -> dict[str, Any]:
        alone = [name for name, keys in self.options.items() if not keys]
        shapes = [_typed(name, self._record(name)) for name in self.options]
        return {"anyOf": [*([{"enum": alone}] if alone else []), *shapes]}

    def _record(self, name: str) -> Record:
        kind = Key(self.types, "How a submission is judged.", required=True)
        keys = {"type": kind} | self.options[name] | self.more
        return Record(f"a mapping with the options of {name}", keys)


EVALUATOR = EvaluatorShape()
JUDGE = EvaluatorShape(Choice(get_args(JudgeType)), JUDGES, {})


def _typed(name: str, record: Record) -> dict[str, Any]:
    schema = record.schema()
    schema["properties"]["type"] = {"const": name}
    return schema

"""The `evaluator:` part of a challenge: its type, that type's options, the files they name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from tallymark.challenges.challenge import EvaluatorType, JudgeType
from tallymark.challenges.challenge_folder import find_name_problem
from tallymark.challenges.evaluators.deterministic import PRIMITIVES
from tallymark.documents.nodes import MappingNode, Node, ScalarNode
from tallymark.documents.reader import MISSING, Reader
from tallymark.documents.shapes import (
    AnyShape,
    FlagShape,
    Key,
    KindShape,
    ListShape,
    MapShape,
    NumberShape,
    RecordShape,
    Shape,
    TextShape,
)
from tallymark.documents.word_shapes import ChoiceShape, DurationShape
from tallymark.errors import suggest

_TEXT = TextShape()


@dataclass(frozen=True)
class FileNameShape(Shape):
    """The name of a file in the challenge's folder, which must be there."""

    may_be_folder: bool = False

    def words(self) -> str:
        return "the name of a file in the challenge's folder"

    def read(self, node: Node, reader: Reader) -> Any:
        name = _TEXT.read(node, reader)
        if name is MISSING:
            return MISSING
        tidy = name.rstrip("/") if self.may_be_folder else name
        if (problem := find_name_problem(tidy)) is not None:
            return reader.wrong(node, problem)
        path = reader.source.folder / tidy
        # A link could lead out of the folder, which is all that a published challenge has.
        if path.is_symlink() or not (path.is_file() or (self.may_be_folder and path.is_dir())):
            near = suggest(tidy, _list_beside(reader))
            hint = f"did you mean '{near}'?" if near else "names start at the challenge's folder"
            return reader.wrong(node, f"there is no file '{tidy}'", hint)
        return tidy

    def schema(self) -> dict[str, Any]:
        return _TEXT.schema()


def _list_beside(reader: Reader) -> list[str]:
    return sorted(path.name for path in reader.source.folder.iterdir())


TYPES = ChoiceShape(get_args(EvaluatorType))
SCORE = NumberShape(low=0, high=1000)
MEMORY = NumberShape(low=16, high=64_000, whole=True)
NAMES = ListShape(TextShape("a name"))


def _require_tolerance(node: MappingNode, reader: Reader) -> None:
    primitive = node.get("primitive")
    numeric = isinstance(primitive, ScalarNode) and primitive.text == "numeric_tolerance"
    if numeric != ("tolerance" in node.entries):
        reader.wrong(node, "numeric_tolerance needs a 'tolerance', and nothing else takes one")


class _FieldShape(KindShape):
    """A primitive's name alone is short for a mapping with it."""

    def read(self, node: Node, reader: Reader) -> Any:
        value = super().read(node, reader)
        if value is MISSING:
            return MISSING
        given = value if isinstance(value, dict) else {"primitive": value}
        return {"primitive": "exact_match"} | given


FIELD = _FieldShape(
    scalar=ChoiceShape(tuple(PRIMITIVES)),
    mapping=RecordShape(
        "a mapping with 'primitive'",
        {
            "primitive": Key(ChoiceShape(tuple(PRIMITIVES)), "How it is compared; exact_match."),
            "dimension": Key(TextShape(), "The dimension that it counts for; correctness."),
            "weight": Key(NumberShape(above=0), "Its share in that dimension; 1."),
            "tolerance": Key(
                NumberShape(low=0), "Full marks within it, none from five times it on."
            ),
            "truth": Key(TextShape(), "Where its truth lies, if not at the same path."),
        },
        _require_tolerance,
    ),
)
DIMENSION = Key(TextShape(), "The dimension that it scores.")
PASS_AT = Key(SCORE, "Without dimensions, the score that an attempt succeeds with; 1000.")
METRICS = Key(NAMES, "Names of its own metrics, for formulas.")
TRUTH = Key(FileNameShape(), "The file with the truth: JSON or YAML; else a text.")
LIMITS = {
    "time": Key(DurationShape(), "How long one run may take."),
    "memory": Key(MEMORY, "Megabytes that it may use."),
    "packages": Key(FlagShape(), "May it import the packages that are installed here?"),
}
RUN = RecordShape(
    "a mapping with 'command'",
    {
        "command": Key(ListShape(TextShape("a word"), 1), "Such as [python, main.py].", True),
        "stdin": Key(TextShape(may_be_empty=True), "What it reads."),
        **LIMITS,
    },
)

OPTIONS: dict[str, dict[str, Key]] = {
    "deterministic": {
        "truth": TRUTH,
        "fields": Key(MapShape(FIELD), "How each field, by its path `a.b.0`, is compared.", True),
        "pass_at": PASS_AT,
    },
    "tests": {
        "cases": Key(FileNameShape(), "A YAML or JSON file with the test cases."),
        "entry": Key(TextShape(), "The submitted file that is run or called; solution.py."),
        "dimension": DIMENSION,
        "pass_at": PASS_AT,
        **LIMITS,
    },
    "script": {
        "script": Key(FileNameShape(), "The file with `evaluate(submission, truth, data)`.", True),
        "truth": TRUTH,
        "run": Key(RUN, "Runs the submitted files first; what they print goes to the script."),
        **LIMITS,
    },
    "judge": {
        "rubric": Key(FileNameShape(), "A text file: what the judge goes by.", True),
        "model": Key(TextShape(), "The model that judges."),
        "max_rating": Key(NumberShape(above=0), "The best rating; 10."),
        "pass_at": Key(NumberShape(low=0), "The rating that an attempt succeeds with."),
        "dimension": DIMENSION,
        "temperature": Key(AnyShape(ScalarNode, "a number or null"), "0; null for models without."),
        "max_chars": Key(NumberShape(above=0, whole=True), "How much of a submission it is shown."),
        "timeout": Key(DurationShape(), "How long it may take to answer."),
    },
    "reported": {},
    "suite": {
        "suite": Key(FileNameShape(), "A suite of evals, run against the submitted agent.", True),
        "allow": Key(NAMES, "Kinds of models that may be submitted."),
        "pass_at": Key(NumberShape(low=0, high=100), "The success_pct that it succeeds with; 100."),
        "dimension": DIMENSION,
        "vars": Key(AnyShape(MappingNode, "a mapping"), "Values for the suite's variables."),
        "timeout": Key(DurationShape(), "How long one request may take."),
        "time_limit": Key(DurationShape(), "How long all of them may take."),
    },
}
_SCRIPT = {
    "script": Key(FileNameShape(), "The file with `judge(attack, defence, category)`.", True)
}
JUDGES: dict[str, dict[str, Key]] = {
    "script": {**_SCRIPT, **LIMITS},
    "judge": {
        name: OPTIONS["judge"][name]
        for name in ("rubric", "model", "temperature", "max_chars", "timeout")
    },
    "scorer": {
        "scorer": Key(
            TextShape(), "A built-in or installed scorer; it sees attack and defence.", True
        ),
        "threshold": Key(
            NumberShape(low=0, high=1), "The value from which on it is a breach; 0.5."
        ),
    },
}


@dataclass(frozen=True)
class EvaluatorShape(Shape):
    """A mapping with `type` and the options of that type; the type alone where it needs none."""

    types: ChoiceShape = TYPES
    options: Mapping[str, dict[str, Key]] = field(default_factory=lambda: OPTIONS)
    more: dict[str, Key] = field(default_factory=lambda: {"metrics": METRICS})

    def words(self) -> str:
        return "a mapping with 'type'"

    def read(self, node: Node, reader: Reader) -> Any:
        if isinstance(node, ScalarNode):
            alone = MappingNode(node.line, node.column)
            alone.entries = {"type": (node, node)}
            return self.read(alone, reader)
        if not isinstance(node, MappingNode):
            return self.refuse(node, reader)
        named = node.get("type")
        if named is None:
            return reader.wrong(node, "the key 'type' is missing", f"write {self.types.words()}")
        name = reader.read("type", self.types, named)
        return MISSING if name is MISSING else self._make_record(name).read(node, reader)

    def schema(self) -> dict[str, Any]:
        alone = [name for name, keys in self.options.items() if not keys]
        shapes = [_make_schema(name, self._make_record(name)) for name in self.options]
        return {"anyOf": [*([{"enum": alone}] if alone else []), *shapes]}

    def _make_record(self, name: str) -> RecordShape:
        kind = Key(self.types, "How a submission is judged.", required=True)
        keys = {"type": kind} | self.options[name] | self.more
        return RecordShape(f"a mapping with the options of {name}", keys)


EVALUATOR = EvaluatorShape()
JUDGE = EvaluatorShape(ChoiceShape(get_args(JudgeType)), JUDGES, {})


def _make_schema(name: str, record: RecordShape) -> dict[str, Any]:
    schema = record.schema()
    schema["properties"]["type"] = {"const": name}
    return schema

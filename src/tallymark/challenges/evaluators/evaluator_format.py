"""The `evaluator:` part of a challenge, and others like it: a type, and that type's options."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tallymark.challenges.evaluators.evaluator_options import METRICS, Option
from tallymark.challenges.evaluators.evaluator_types import EVALUATORS, find_evaluator
from tallymark.documents.nodes import MappingNode, Node, ScalarNode
from tallymark.documents.reader import MISSING, Reader
from tallymark.documents.shapes import Key, RecordShape, Shape
from tallymark.documents.word_shapes import ChoiceShape


@dataclass(frozen=True)
class TypedShape(Shape):
    """A mapping with `type` and the options of that type; the type alone where it needs none."""

    names: Iterable[str]
    options: Callable[[str], Mapping[str, Option]]
    """Of a type by its name, asked for when the type is met: it may have to be imported."""

    @property
    def _types(self) -> ChoiceShape:
        return ChoiceShape(tuple(self.names))

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
            return reader.wrong(node, "the key 'type' is missing", f"write {self._types.words()}")
        name = reader.read("type", self._types, named)
        return MISSING if name is MISSING else self._make_record(name).read(node, reader)

    def schema(self) -> dict[str, Any]:
        alone = [name for name in self.names if not self._needs_options(name)]
        shapes = [self._make_schema(name) for name in self.names]
        return {"anyOf": [*([{"enum": alone}] if alone else []), *shapes]}

    def _needs_options(self, name: str) -> bool:
        return any(each.required for each in self.options(name).values())

    def _make_record(self, name: str) -> RecordShape:
        kind = Key(self._types, "How a submission is judged.", required=True)
        keys: dict[str, Key] = {"type": kind, **self.options(name)}
        return RecordShape(f"a mapping with the options of {name}", keys)

    def _make_schema(self, name: str) -> dict[str, Any]:
        schema = self._make_record(name).schema()
        schema["properties"]["type"] = {"const": name}
        for key, option in self.options(name).items():
            if option.default is not None:
                schema["properties"][key]["default"] = option.default
        return schema


EVALUATOR = TypedShape(
    EVALUATORS, lambda name: {**find_evaluator(name).options, "metrics": METRICS}
)

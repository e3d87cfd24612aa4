"""Entries of `prompts:` and their conversion to `Prompt`s, with the files they name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallymark.documents.shapes import Key, KindShape, ListShape, MapShape, RecordShape, TextShape
from tallymark.documents.yaml_parser import MappingNode, Node, SequenceNode
from tallymark.errors import InvalidInput
from tallymark.suites.suite_definition import Prompt
from tallymark.suites.templates import fill_templates
from tallymark.text import clean_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tallymark.documents.reader import Reader

_MOST_BYTES = 1_000_000
_MOST_NAME = 60
_BEGINNING = 40
"""Characters of a prompt that stand for its name."""


def _require_one_text(node: MappingNode, reader: Reader) -> None:
    if ("prompt" in node.entries) == ("file" in node.entries):
        reader.wrong(node, "a prompt has either a 'prompt' or a 'file'")


_BODY = {
    "prompt": Key(TextShape(), "What the model is asked, with the {{var('name')}} of each eval."),
    "file": Key(TextShape(), "A text file beside the suite, instead of `prompt`."),
    "system_prompt": Key(
        TextShape(may_be_empty=True), "Instead of the suite's; an eval's own goes before it."
    ),
}
_RULES = {"oneOf": [{"required": ["prompt"]}, {"required": ["file"]}]}
PROMPT = RecordShape(
    "a mapping with 'prompt' or 'file'",
    {
        "name": Key(
            TextShape("a name"), "What it is called; its file's name or first words without it."
        ),
        **_BODY,
    },
    _require_one_text,
    _RULES,
)
_NAMED = RecordShape("a mapping with 'prompt' or 'file'", _BODY, _require_one_text, _RULES)
PROMPTS = KindShape(
    sequence=ListShape(KindShape(scalar=TextShape(), mapping=PROMPT), 1),
    mapping=MapShape(KindShape(scalar=TextShape(), mapping=_NAMED)),
)


def read_prompts(values: Any, node: Node, reader: Reader) -> tuple[Prompt, ...]:
    """The prompts that could be read; each has a name of its own."""
    found: dict[str, Prompt] = {}
    for name, given, item in _list_entries(values, node):
        reader.path = ["prompts", name or f"#{len(found) + 1}"]
        value = {"prompt": given} if isinstance(given, str) else given
        if not isinstance(value, dict) or not value.keys() & {"prompt", "file"}:
            continue  # it was refused
        with reader.errors_of(item):
            text = value["prompt"] if "prompt" in value else _read_text(reader, value["file"])
            called = name or value.get("name") or _name_prompt(value, text, found)
            if called in found:
                raise InvalidInput(f"another prompt is called {called!r} too")
            if clean_line(called, _MOST_NAME) != called:
                raise InvalidInput(f"a name is one line of at most {_MOST_NAME} characters")
            found[called] = Prompt(called, text, value.get("system_prompt"))
    reader.path = []
    if not found and not reader.problems:
        reader.wrong(node, "prompts: there is none")
    return tuple(found.values())


def _list_entries(values: Any, node: Node) -> Iterator[tuple[str | None, Any, Node]]:
    if isinstance(node, SequenceNode):
        yield from ((None, *each) for each in zip(values, node.items, strict=True))
    elif isinstance(node, MappingNode):
        for name, value in values.items():
            yield name, value, node.entries[name][1]


def _name_prompt(value: dict[str, Any], text: str, taken: dict[str, Prompt]) -> str:
    """The file's name, or how it begins; with its number where another begins so too."""
    shown = fill_templates(text, lambda _, name: f"{{{name}}}")
    name = Path(value["file"]).stem if "file" in value else clean_line(shown, _BEGINNING)
    return name if name not in taken else f"#{len(taken) + 1} {name}"


def _read_text(reader: Reader, file: str) -> str:
    try:
        with (reader.source.folder / file).open("rb") as opened:
            text = opened.read(_MOST_BYTES + 1).decode("utf-8-sig")
    except OSError as error:
        hint = "a path starts at the suite's folder"
        raise InvalidInput(f"{file} cannot be read: {error.strerror}", hint=hint) from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{file} is not UTF-8 text") from None
    if len(text) > _MOST_BYTES or not text.strip():
        what = "is empty" if not text.strip() else "has more than 1 MB"
        raise InvalidInput(f"{file} {what}")
    return text.rstrip("\n")

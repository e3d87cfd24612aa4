"""`import_suite`: a suite made of another tool's file, and what could not be carried over."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tallymark.documents.reader import open_document
from tallymark.documents.yaml_parser import (
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    scalar_value,
)
from tallymark.errors import InvalidInput, Place, Problem
from tallymark.formula import eval_name_problems
from tallymark.suites.checks.check_types import CHECK_TYPES

Check = dict[str, Any]
_MOST_NAME = 60


class NotCarried(Exception):
    """Why something has no counterpart in a suite."""


@dataclass
class ImportedSuite:
    """A suite as plain data, and what could not be carried over, each with its place."""

    source: str
    document: dict[str, Any] = field(default_factory=dict)
    left_out: list[Problem] = field(default_factory=list)
    _lines: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Places of the lists and mappings of the source, by identity."""
    _kept: list[Any] = field(default_factory=list)
    """The source; it must stay alive for the identities to be valid."""

    def read(self, path: Path) -> Any:
        """A file in YAML or JSON as plain data whose places are known."""
        return self._take(open_document(path, "configuration").root, str(path))

    def _take(self, node: Node, file: str) -> Any:
        if isinstance(node, ScalarNode):
            return scalar_value(node.text, node.style, node.tag)
        value: Any
        if isinstance(node, MappingNode):
            value = {key: self._take(each, file) for key, (_, each) in node.entries.items()}
        else:
            assert isinstance(node, SequenceNode)  # noqa: S101 (there are three kinds of nodes)
            value = [self._take(item, file) for item in node.items]
        self.locate(value, file, node.line)
        return value

    def locate(self, value: Any, file: str, line: int) -> None:
        """Remembers where a list or mapping came from."""
        self._kept.append(value)
        self._lines[id(value)] = (file, line)

    def find_place(self, value: Any) -> tuple[str, int]:
        """The file and the line of a list or mapping; line 0 where it is not known."""
        return self._lines.get(id(value), (self.source, 0))

    def leave_out(self, at: Any, message: str, hint: str | None = None) -> None:
        """Report something that was not imported; `at` is the list or mapping that contains it."""
        file, line = self.find_place(at)
        problem = Problem(message, Place(file, line or None), hint)
        if problem not in self.left_out:
            self.left_out.append(problem)

    def leave_out_check(self, at: Any, what: str, why: object) -> list[Check]:
        """Report an assertion that was not imported, and leave a `todo` in its place.

        A case that lost a check must not pass.
        """
        self.leave_out(at, f"{what}: {why}")
        file, line = self.find_place(at)
        return [{"todo": f"{what} ({Place(Path(file).name, line or None)}): {why}"}]

    def count_unfinished(self) -> int:
        """Number of evals with a `todo`, which cannot pass."""
        return sum(any("todo" in check for check in each["checks"]) for each in self.evals)

    @property
    def evals(self) -> list[dict[str, Any]]:
        """The evals of the suite."""
        listed: list[dict[str, Any]] = self.document["evals"]
        return listed

    def name_evals(self) -> None:
        """Turns descriptions into names; those that cannot be one are dropped."""
        names: list[str | None] = []
        for entry in self.evals:
            name = make_name(entry.pop("name", None))
            tried, number = name, 1
            while tried is not None and eval_name_problems([*names, tried]):
                number += 1
                tried = f"{name}-{number}" if name in names and number < 10_000 else None
            names.append(tried)
            if tried is not None:
                # First, as one writes it.
                rest = dict(entry)
                entry.clear()
                entry.update({"name": tried, **rest})


def make_name(text: str | None) -> str | None:
    """A name for formulas from a description; None where nothing is left of it."""
    allowed = [c if c.isascii() and (c.isalnum() or c in "_-") else " " for c in text or ""]
    return "-".join("".join(allowed).split())[:_MOST_NAME].strip("-") or None


def merge_checks(checks: list[Check]) -> Check:
    """One mapping in which all must pass, as an alternative of `or` needs it."""
    merged: dict[str, list[Any]] = {}
    for check in checks:
        for kind, config in check.items():
            many = kind in CHECK_TYPES and CHECK_TYPES[kind].many
            merged.setdefault(kind, []).extend(
                config if many and isinstance(config, list) else [config]
            )
            if len(merged[kind]) > 1 and not many:
                raise NotCarried(f"two {kind} checks cannot be one alternative")
    return {kind: each if len(each) > 1 else each[0] for kind, each in merged.items()}


def import_suite(path: Path) -> ImportedSuite:
    """The suite that a promptfoo configuration or an Inspect log makes."""
    if path.suffix.lower() in (".js", ".cjs", ".mjs", ".ts"):
        hint = "import the YAML or JSON of the configuration"
        raise InvalidInput(f"{path} is a program, which is not run", hint=hint)
    made = ImportedSuite(str(path))
    from tallymark.suites.imports.inspect_log import import_log, is_log  # noqa: PLC0415 (one of two)

    if is_log(path):
        import_log(path, made)
    else:
        from tallymark.suites.imports.promptfoo import import_config  # noqa: PLC0415 (one of two)

        import_config(path, made)
    made.name_evals()
    return made


def write_yaml(document: dict[str, Any]) -> str:
    """A document as YAML that people read: texts in quotes, those of several lines as they are."""
    import yaml  # type: ignore[import-untyped]  # noqa: PLC0415 (20 ms)

    class Writer(yaml.SafeDumper):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
            return True

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> Any:  # noqa: ARG002
            return super().increase_indent(flow, False)

    def write_text(writer: Any, text: str) -> Any:
        # YAML 1.1, which the library writes by, takes other words for numbers than 1.2 does.
        plain = text.replace("-", "").replace("_", "").isalpha() and text.isascii()
        style = None if plain else "|" if "\n" in text else '"'
        return writer.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Writer.add_representer(str, write_text)
    written: str = yaml.dump(
        document, Dumper=Writer, sort_keys=False, allow_unicode=True, width=10**9
    )
    return written

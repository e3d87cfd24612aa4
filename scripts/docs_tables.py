"""Writes the tables of evaluators, checks, scorers, trace formats and reports into docs/.

Each line comes from the file that it is about. Run by `make docs`, checked by a test.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tallymark.challenges.evaluators import EVALUATORS, find_evaluator
from tallymark.challenges.evaluators.evaluator_options import Option
from tallymark.documents.shapes import KindShape, RecordShape, Shape
from tallymark.runs.report_formats import REPORT_FORMATS, load_report
from tallymark.scoring.scorer_descriptions import ScorerDescription, describe_scorers
from tallymark.suites.checks.check_types import CHECK_TYPES
from tallymark.traces.trace_formats import FORMATS

DOCS = Path(__file__).parents[1] / "docs"
_TABLE = re.compile(r"(<!-- (\w+), made by `make docs` -->\n).*?(<!-- end -->)", re.DOTALL)


def evaluators() -> str:
    """The types, each with its options and their defaults."""
    kinds = {name: find_evaluator(name) for name in EVALUATORS}
    rows = [(f"`{name}`", kind.help, _list_options(kind.options)) for name, kind in kinds.items()]
    return _table(("type", "what it does", "options, with defaults"), rows)


def checks() -> str:
    """The checks, each with what may stand under it."""
    rows = [
        (f"`{each.kind}`", _describe_shape(each.shape), each.help) for each in CHECK_TYPES.values()
    ]
    return _table(("check", "value", "what it asks"), rows)


def scorers() -> str:
    """Tallymark's own, whatever else is installed here."""
    own = [each for each in describe_scorers() if each.package == "tallymark"]
    rows = [(f"`{each.name}`", each.value, _list_scorer_options(each)) for each in own]
    return _table(("name", "value", "options, with defaults"), rows)


def formats() -> str:
    """Whose traces are read, and how they are known."""
    rows = []
    for each in FORMATS.values():
        endings = ", ".join(f"`{ending}`" for ending in each.suffixes)
        rows.append((f"`{each.name}`", each.files, each.known_by, endings))
    return _table(("format", "files", "known by", "or by its ending"), rows)


def reports() -> str:
    """The files that `--report` writes."""
    rows = []
    for ending, row in reversed(REPORT_FORMATS.items()):
        kind = load_report(ending)
        called = f"`{ending}` ({row.called})" if row.called else f"`{ending}`"
        rows.append((called, f"`{kind.write.__name__}(runs)`", kind.reader, kind.gives))
    return _table(("ending", "function", "for", "what it gives"), rows)


TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "evaluators": ("challenges.md", evaluators),
    "checks": ("checks.md", checks),
    "scorers": ("builtin-scorers.md", scorers),
    "formats": ("traces.md", formats),
    "reports": ("reports.md", reports),
}
"""By the name in its marks: the page, and what makes it."""


def page_with_tables(text: str) -> str:
    """A page with what stands between its marks made anew."""
    return _TABLE.sub(lambda found: f"{found[1]}{TABLES[found[2]][1]()}{found[3]}", text)


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = list(heads)
    cells = [[cell.replace("|", r"\|") for cell in line] for line in [heads, *rows]]
    lines = [f"| {' | '.join(line)} |\n".replace("|  |", "| |") for line in cells]
    lines.insert(1, "|---" * len(heads) + "|\n")
    return "".join(lines)


def _list_options(options: Mapping[str, Option]) -> str:
    return ", ".join(f"`{name}`{_write_default(each)}" for name, each in options.items())


def _write_default(option: Option) -> str:
    value = option.default
    if value is None:
        return ""
    if isinstance(value, bool):
        return " true" if value else " false"
    if isinstance(value, list):
        return " " + ", ".join(map(str, value))
    return f" {value:g}" if isinstance(value, int | float) else f" {value}"


def _list_scorer_options(scorer: ScorerDescription) -> str:
    return ", ".join(f"`{each.name}` {each.values()}".strip() for each in scorer.options)


def _describe_shape(shape: Shape) -> str:
    if isinstance(shape, RecordShape):
        return f"`{{{', '.join(shape.keys)}}}`"
    if isinstance(shape, KindShape):
        parts = (shape.scalar, shape.sequence, shape.mapping)
        return ", or ".join(_describe_shape(each) for each in parts if each is not None)
    return shape.words()


if __name__ == "__main__":
    for page, _ in TABLES.values():
        path = DOCS / page
        path.write_text(page_with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")

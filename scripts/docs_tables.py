"""Write the generated tables into docs/.

Each line comes from the file that it is about. Run by `make docs`, checked by a test.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

from tallymark import sandbox
from tallymark.challenges import challenge_format, tracks
from tallymark.challenges.evaluators import EVALUATORS, find_evaluator
from tallymark.challenges.versus import judges, model_judge, script_judge
from tallymark.documents.shapes import Key, KindShape, ListShape, RecordShape, Shape
from tallymark.formula.formula_names import MAX_NAME, MORE_METRICS, RUN_METRICS
from tallymark.formula.functions import FUNCTIONS
from tallymark.formula.parser import FormulaLimits
from tallymark.http.operation_routes import PREFIX
from tallymark.judging.rubric import RUBRIC
from tallymark.runs.report_formats import REPORT_FORMATS, load_report
from tallymark.scoring.scorer_descriptions import ScorerDescription, describe_scorers
from tallymark.server import describe_server
from tallymark.service import callers
from tallymark.service.problems import CODES
from tallymark.suites import eval_entries, prompt_entries, suite_format
from tallymark.suites.checks.check_types import CHECK_TYPES
from tallymark.traces.trace_formats import FORMATS
from tallymark.web.markdown import make_anchor

DOCS = Path(__file__).parents[1] / "docs"
CONFORMANCE = Path(sandbox.__file__).with_name("conformance.toml")
_FEW_KEYS = 4
_TABLE = re.compile(r"(<!-- (\w+), made by `make docs` -->\n).*?(<!-- end -->)", re.DOTALL)


def evaluators() -> str:
    """Table of evaluators with options and defaults."""
    kinds = {name: find_evaluator(name) for name in EVALUATORS}
    rows = [(f"`{name}`", kind.help, _list_options(kind.options)) for name, kind in kinds.items()]
    return write_table(("type", "description", "options and defaults"), rows)


def versus_judges() -> str:
    """Table of judges for red against blue with options and defaults."""
    options = {
        "script": script_judge.OPTIONS,
        "judge": model_judge.OPTIONS,
        "scorer": judges.OPTIONS,
    }
    rows = [(f"`{name}`", _list_options(each)) for name, each in options.items()]
    return write_table(("type", "options and defaults"), rows)


def keys(shape: Shape) -> str:
    """Table of the keys of a mapping with value and meaning."""
    record = shape.mapping if isinstance(shape, KindShape) else shape
    assert isinstance(record, RecordShape)
    rows = [
        (f"`{key}`", value.replace("*", r"\*"), each.help + (" Required." if each.required else ""))
        for key, each in record.keys.items()
        if (value := _describe_shape(each.shape))
    ]
    return write_table(("key", "value", "meaning"), rows)


def checks() -> str:
    """Table of checks with their values."""
    rows = [
        (f"`{each.kind}`", _describe_shape(each.shape), each.help) for each in CHECK_TYPES.values()
    ]
    return write_table(("check", "value", "condition"), rows)


def scorers() -> str:
    """Table of built-in scorers, without those of installed packages."""
    own = [each for each in describe_scorers() if each.package == "tallymark"]
    rows = [(f"`{each.name}`", each.value, _list_scorer_options(each)) for each in own]
    return write_table(("name", "value", "options and defaults"), rows)


def formats() -> str:
    """Table of trace formats and how they are detected."""
    rows = []
    for each in FORMATS.values():
        endings = ", ".join(f"`{ending}`" for ending in each.suffixes)
        rows.append((f"`{each.name}`", each.files, each.known_by, endings))
    return write_table(("format", "files", "detected by", "file ending"), rows)


def reports() -> str:
    """Table of report formats."""
    rows = []
    for ending, row in reversed(REPORT_FORMATS.items()):
        kind = load_report(ending)
        called = f"`{ending}` ({row.called})" if row.called else f"`{ending}`"
        rows.append((called, f"`{kind.write.__name__}(runs)`", kind.reader, kind.gives))
    return write_table(("ending", "function", "for", "content"), rows)


@lru_cache(maxsize=1)
def read_document() -> dict[str, Any]:
    """Return the OpenAPI document of a server."""
    return describe_server()


def name_roles(operation: Mapping[str, Any]) -> str:
    """Name the roles that may call an operation; empty if it is open to all."""
    return _WHO[frozenset(operation["x-roles"])] if "x-roles" in operation else ""


def list_routes() -> Iterator[tuple[str, str, str, str]]:
    """List the routes of the API: method, path, roles, first sentence."""
    for path, operations in read_document()["paths"].items():
        if path.startswith(PREFIX):
            for method, operation in operations.items():
                does = operation["description"].partition("\n")[0]
                yield method.upper(), path.removeprefix(PREFIX), name_roles(operation), does


def routes() -> str:
    """Table of routes with links to the reference."""
    rows = [
        (f"[`{method} {path}`](api-reference.md#{make_anchor(f'{method} {path}')})", who, does)
        for method, path, who, does in list_routes()
    ]
    return write_table(("route", "permission", "description"), rows)


def functions() -> str:
    """Table of functions of formulas."""
    rows = [
        (f"`{each.signature}`", each.help, each.needs or "any number")
        for each in FUNCTIONS.values()
    ]
    return write_table(("function", "result", "argument"), rows)


def run_names() -> str:
    """Table of the names that every formula of a run may use."""
    units = {"latency": "seconds", "cost": "US dollars", "success": "percent", "number": "percent"}
    rows = []
    for each in (*RUN_METRICS.values(), *MORE_METRICS.values()):
        unit = "tokens" if each.name.endswith("_tokens") else units[each.measure]
        ends = f"{each.low:g} to {each.high:g}" if each.high < math.inf else f"{each.low:g} or more"
        kept = "yes" if each.name in RUN_METRICS else ""
        rows.append((f"`{each.name}`", f"{ends}, {unit}", each.help, kept))
    return write_table(("name", "value", "meaning", "reserved"), sorted(rows))


def formula_limits() -> str:
    """Table of the limits of formulas."""
    limits = dataclasses.asdict(FormulaLimits())
    words = {"nodes": "parts", "problems": "errors reported at once; the rest are counted"}
    rows = [(words.get(name, name), f"{value:,}") for name, value in limits.items()]
    rows.append(("characters of a name", f"{MAX_NAME:,}"))
    return write_table(("formula", "limit"), rows)


def attacks() -> str:
    """Table of the attacks of `tally doctor --conformance`, by kind."""
    kinds: dict[str, list[str]] = {}
    kind = ""
    for line in CONFORMANCE.read_text(encoding="utf-8").split("\n"):
        if found := re.fullmatch(r"# ([A-Z][^.:]*)", line):
            kind = found[1]
        elif found := re.fullmatch(r'name = "(.+)"', line):
            kinds.setdefault(kind, []).append(found[1])
    rows = [(name, str(len(each)), ", ".join(each)) for name, each in kinds.items()]
    rows.append(("all", str(sum(map(len, kinds.values()))), ""))
    return write_table(("kind", "cases", "attacks"), rows)


def problems() -> str:
    """Table of error codes."""
    rows = [(f"`{code}`", str(status), HTTPStatus(status).phrase) for status, code in CODES.items()]
    rows += [("`busy`", "503", "Overloaded; nothing was done. See `Retry-After`")]
    return write_table(("`code`", "status", "meaning"), rows)


_WHO = {
    callers.ADMINS: "admins",
    callers.ORGANISERS: "organisers",
    callers.REPORTERS: "reporters, organisers",
    callers.COMPETITORS: "agents, organisers",
    callers.REPORTERS | callers.COMPETITORS: "reporters, agents, organisers",
    callers.TEAM: "all keys except agents'",
    callers.MEMBERS: "all keys",
    callers.PUBLIC: "everyone",
}


TABLES: dict[str, tuple[str, Callable[[], str]]] = {
    "metadata": ("suite-format.md", partial(keys, suite_format.METADATA)),
    "settings": ("suite-format.md", partial(keys, suite_format.SETTINGS)),
    "mcp_server": ("suite-format.md", partial(keys, suite_format.MCP_SERVER)),
    "evals": ("suite-format.md", partial(keys, eval_entries.EVAL)),
    "turns": ("suite-format.md", partial(keys, eval_entries.TURN)),
    "prompts": ("suite-format.md", partial(keys, prompt_entries.PROMPT)),
    "cases_from": ("suite-format.md", partial(keys, eval_entries.CASES_FROM)),
    "score": ("suite-format.md", partial(keys, suite_format.SCORE)),
    "challenge": ("challenges.md", partial(keys, challenge_format.CHALLENGE)),
    "submission": ("challenges.md", partial(keys, challenge_format.SUBMISSION)),
    "constraints": ("challenges.md", partial(keys, challenge_format.CONSTRAINTS)),
    "scoring": ("challenges.md", partial(keys, challenge_format.SCORING)),
    "dimension": ("challenges.md", partial(keys, challenge_format.DIMENSION)),
    "versus_judges": ("versus.md", versus_judges),
    "rubric": ("judges.md", partial(keys, RUBRIC)),
    "track": ("tracks.md", partial(keys, tracks.TRACK)),
    "evaluators": ("challenges.md", evaluators),
    "checks": ("checks.md", checks),
    "scorers": ("builtin-scorers.md", scorers),
    "formats": ("traces.md", formats),
    "reports": ("reports.md", reports),
    "routes": ("api.md", routes),
    "problems": ("api.md", problems),
    "functions": ("formulas.md", functions),
    "run_names": ("formulas.md", run_names),
    "formula_limits": ("formulas.md", formula_limits),
    "attacks": ("sandbox.md", attacks),
}
"""Page and function of each table, by the name in its markers."""


def page_with_tables(text: str) -> str:
    """Return the page with its tables regenerated."""
    return _TABLE.sub(lambda found: f"{found[1]}{TABLES[found[2]][1]()}{found[3]}", text)


def write_table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    heads = list(heads)
    cells = [[cell.replace("|", r"\|") for cell in line] for line in [heads, *rows]]
    lines = [f"| {' | '.join(line)} |\n".replace("|  |", "| |") for line in cells]
    lines.insert(1, "|---" * len(heads) + "|\n")
    return "".join(lines)


def _list_options(options: Mapping[str, Key]) -> str:
    return ", ".join(f"`{name}`{_write_default(each)}" for name, each in options.items())


def _write_default(option: Key) -> str:
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
        short = len(shape.keys) <= _FEW_KEYS
        return f"`{{{', '.join(shape.keys)}}}`" if short else shape.words()
    if isinstance(shape, ListShape):
        return f"a list, each {_describe_shape(shape.item)}"
    if isinstance(shape, KindShape):
        alone = [_describe_shape(each) for each in (shape.scalar, shape.mapping) if each]
        listed = [_describe_shape(shape.sequence)] if shape.sequence else []
        return ", or ".join(alone + ["a list of such" if alone else each for each in listed])
    return shape.words()


if __name__ == "__main__":
    for page, _ in TABLES.values():
        path = DOCS / page
        path.write_text(page_with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")

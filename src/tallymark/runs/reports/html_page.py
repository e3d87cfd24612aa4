"""A report as one HTML file that opens offline: no network, no other file, no need for JavaScript.

Templates and styles are data files in `page/`. All text is escaped by the template engine, and a
content policy in the page allows nothing but its own style and its one script, by its hash.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined, Template

from tallymark.charts.frame import read_style
from tallymark.runs.problems import name_model
from tallymark.runs.report_formats import ReportKind
from tallymark.runs.reports.html_cases import list_cases
from tallymark.runs.reports.html_charts import draw_figures
from tallymark.runs.run import Run
from tallymark.runs.score_matrix import find_best, make_matrix
from tallymark.text import (
    MINUS,
    clean_line,
    format_count,
    format_money,
    format_percent,
    format_score,
    format_seconds,
    format_utc_moment,
    with_minus,
)

if TYPE_CHECKING:
    from tallymark.runs.comparison import Comparison

_PAGE = Path(__file__).parent / "page"
_write_score = with_minus(format_score)
_BEFORE_TAG_END = re.compile(r"\s*\n\s*(?=/?>)")
_INDENT = re.compile(r"\n[ \t]+")
_BEFORE_WORD = re.compile(r"\n(?![<\s])")
"""Attributes and words that the formatter wrapped go on the line before."""
_HYPHEN = re.compile(r"(?<![\w.])-(?=[$\d])")
_MOST_CHANGES = 100
"""Cases of each kind of change."""


def html_report(views: Sequence[Run], comparisons: Sequence[Comparison] = ()) -> str:
    """All runs in one page, and how they compare."""
    keys = _make_keys(len(views))
    listed = list_cases(keys, views)
    script = _read_part("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return _load_template().render(
        title=", ".join(dict.fromkeys(clean_line(view.record.suite, 80) for view in views)),
        facts=_list_facts(views),
        runs=[_describe_run(key, view) for key, view in zip(keys, views, strict=True)],
        matrix=_describe_matrix(views),
        comparisons=[_describe_comparison(each) for each in comparisons],
        figures=draw_figures(keys, views, listed),
        listed=listed,
        style=read_style() + _read_part("report.css"),
        script=script,
        script_hash=f"sha256-{digest}",
    )


def _read_part(name: str) -> str:
    return (_PAGE / name).read_text(encoding="utf-8")


def unindent(template: str) -> str:
    """Drop the indentation of a template, which would be half of a page of many rows."""
    return _BEFORE_WORD.sub(" ", _INDENT.sub("\n", _BEFORE_TAG_END.sub("", template)))


@cache
def _load_template() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    return environment.from_string(unindent(_read_part("report.html.jinja")))


def _make_keys(count: int) -> list[str]:
    """A short key for each run: letters, then numbers."""
    return [ascii_uppercase[n] if count <= 26 else str(n + 1) for n in range(count)]


def _list_facts(views: Sequence[Run]) -> list[str]:
    """The line under the title."""
    started = [at for view in views if (at := view.record.started_at or view.record.created_at)]
    cases = len({case for view in views for case in view.outcomes})
    epochs = max((view.record.epochs for view in views), default=1)
    facts = [format_utc_moment(min(started))] if started else []
    facts += [format_count(len(views), "run")] if len(views) > 1 else []
    facts += [format_count(cases, "case")]
    return facts + ([f"{epochs} epochs"] if epochs > 1 else [])


def _describe_matrix(views: Sequence[Run]) -> dict[str, Any] | None:
    """Scores with prompts down and models across, where there are several of both."""
    matrix = make_matrix(views) if len(views) > 1 else None
    if matrix is None or len(matrix.models) < 2:
        return None
    best = find_best(views)
    rows = [
        (
            clean_line(prompt, 120),
            [
                ("-", False) if run is None else (_write_score(run.score), run.record.id in best)
                for run in row
            ],
        )
        for prompt, row in zip(matrix.prompts, matrix.cells, strict=True)
    ]
    return {"models": [clean_line(model, 120) for model in matrix.models], "rows": rows}


def _describe_run(key: str, view: Run) -> dict[str, Any]:
    """One run as the page shows it."""
    record, metrics, tally = view.record, view.metrics, view.tally
    return {
        "key": key,
        "id": clean_line(record.id, 80),
        "model": clean_line(name_model(record), 120),
        "status": record.status,
        "error": record.error and clean_line(record.error, 1000),
        "unrun": clean_line(view.unrun or "", 1000),
        "part": view.part and clean_line(view.part, 1000),
        "rescore_notes": [clean_line(note, 1000) for note in view.rescore_notes],
        "score": _write_score(record.score),
        "interval": _write_minus(view.describe_interval() or ""),
        "gates": None if view.gates is None else [clean_line(each, 1000) for each in view.gates],
        "formula": clean_line(record.score_formula, 4096),
        "no_score": clean_line(view.explain_no_score(), 1000) if record.score is None else None,
        "explanation": "\n".join(view.explain_score(110)),
        "success": format_percent(metrics["success_pct"]),
        "success_pct": metrics["success_pct"] or 0.0,
        "counts": view.describe_counts(),
        "cost": format_money(metrics["total_cost"]),
        "each_cost": ", ".join(_describe_costs(view)),
        "no_cost": tally.unknown("total_cost") if metrics["total_cost"] is None else None,
        "latency": format_seconds(metrics["avg_latency"]),
        "longest": format_seconds(metrics["max_latency"]),
        "repeats": _list_repeats(view),
    }


def _describe_comparison(comparison: Comparison) -> dict[str, Any]:
    """The numbers of two runs, the verdict, and the cases that changed."""
    from tallymark.runs.comparison import CHANGE_KINDS, verdict  # noqa: PLC0415 (numpy is heavy)
    from tallymark.runs.reports.comparison_report import HEADER, list_rows  # noqa: PLC0415

    said = verdict(comparison)
    changes = []
    for kind, title in CHANGE_KINDS.items():
        found = comparison.of_kind(kind)
        if found:
            shown = [
                (clean_line(each.name, 200), clean_line(each.reason, 500))
                for each in found[:_MOST_CHANGES]
            ]
            changes.append((f"{title}: {len(found):,}", shown, len(found) - len(shown)))
    first, second = (
        f"{clean_line(each.title, 120)} ({each.id})"
        for each in (comparison.first, comparison.second)
    )
    return {
        "first": first,
        "second": second,
        "heads": HEADER,
        "rows": [[_write_minus(cell) for cell in row] for row in list_rows(comparison)],
        "shared": format_count(comparison.shared, "case"),
        "formula": clean_line(comparison.formula, 4096),
        "verdict": said.title,
        "failed": not said.passes,
        "reason": clean_line(said.reason, 1000),
        "warnings": [clean_line(each, 1000) for each in comparison.warnings],
        "changes": changes,
    }


def _write_minus(text: str) -> str:
    """With the sign that all numbers of the page have."""
    return _HYPHEN.sub(MINUS, text)


def _describe_costs(view: Run) -> Iterator[str]:
    each, judged = view.metrics["avg_cost"], view.metrics.get("judge_cost")
    if each is not None:
        yield f"{format_money(each)} each"
    if view.unscored_cost is not None:
        yield f"besides {view.unscored_cost}"
    if judged:
        yield f"judges {format_money(judged)} more"


def _list_repeats(view: Run) -> list[tuple[str, str]]:
    """pass@k and pass^k over all cases, where cases were repeated."""
    found = view.mean_repeats if view.repeated else None
    if found is None:
        return []
    k = max(found.pass_at)
    shown = ((f"pass@{k}", found.pass_at[k]), (f"pass^{k}", found.pass_all[k]))
    return [(name, format_percent(100 * value)) for name, value in shown]


REPORT = ReportKind(
    write=html_report,
    reader="people",
    gives="one file with charts that opens offline; how the runs compare",
    compares=True,
)

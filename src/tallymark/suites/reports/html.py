"""A report as one HTML file that opens offline: no network, no other file, no need for JavaScript.

Templates and styles are data files in `page/`. All text is escaped by the template engine, and a
content policy in the page allows nothing but its own style and its one script, by its hash.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

from tallymark.suites.comparison import Run
from tallymark.suites.reports import figures
from tallymark.suites.reports.explained import explained
from tallymark.suites.reports.foreign import one_line
from tallymark.suites.reports.html_cases import listed_cases
from tallymark.suites.reports.html_charts import figures_of
from tallymark.suites.reports.view import RunView

if TYPE_CHECKING:
    from jinja2 import Template

_PAGE = Path(__file__).parent / "page"


def html_report(runs: Sequence[Run]) -> str:
    """All runs in one page."""
    views = [RunView(record, results) for record, results in runs]
    keys = _keys(len(views))
    listed = listed_cases(keys, views)
    script = _part("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return _template().render(
        title=", ".join(dict.fromkeys(one_line(view.record.suite, 80) for view in views)),
        facts=_facts(views),
        runs=[_run(key, view) for key, view in zip(keys, views, strict=True)],
        figures=figures_of(keys, views, listed),
        listed=listed,
        style=_part("report.css"),
        script=script,
        script_hash=f"sha256-{digest}",
    )


def _part(name: str) -> str:
    return (_PAGE / name).read_text(encoding="utf-8")


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 - only this report needs it

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    lines = _part("report.html.jinja").splitlines()
    return environment.from_string("\n".join(map(str.strip, lines)))  # a page without indents


def _keys(count: int) -> list[str]:
    """A short key for each run: letters, then numbers."""
    return [ascii_uppercase[n] if count <= 26 else str(n + 1) for n in range(count)]


def _facts(views: Sequence[RunView]) -> list[str]:
    """The line under the title."""
    started = [at for view in views if (at := view.record.started_at or view.record.created_at)]
    cases = len({case for view in views for case in view.cases})
    epochs = max((view.record.epochs for view in views), default=1)
    facts = [figures.moment(min(started))] if started else []
    facts += [figures.counted(len(views), "run")] if len(views) > 1 else []
    facts += [figures.counted(cases, "case")]
    return facts + ([f"{epochs} epochs"] if epochs > 1 else [])


def _run(key: str, view: RunView) -> dict[str, Any]:
    """One run as the page shows it."""
    record, metrics, tally = view.record, view.metrics, view.tally
    each = metrics["avg_cost"]
    return {
        "key": key,
        "id": one_line(record.id, 80),
        "model": one_line(record.model, 120),
        "status": record.status,
        "error": record.error and one_line(record.error, 1000),
        "score": figures.score(record.score),
        "interval": view.interval(),
        "formula": one_line(record.formula, 4096),
        "no_score": one_line(view.no_score(), 1000) if record.score is None else None,
        "explanation": "\n".join(explained(view.explanation, 110)),
        "success": figures.percent(metrics["success_pct"]),
        "success_pct": metrics["success_pct"] or 0.0,
        "counts": view.counts(),
        "cost": figures.money(metrics["total_cost"]),
        "each_cost": f"{figures.money(each)} each" if each is not None else "",
        "no_cost": tally.unknown("total_cost") if metrics["total_cost"] is None else None,
        "latency": figures.seconds(metrics["avg_latency"]),
        "longest": figures.seconds(metrics["max_latency"]),
        "repeats": _repeats(view),
    }


def _repeats(view: RunView) -> list[tuple[str, str]]:
    """pass@k and pass^k over all cases, where cases were repeated."""
    found = view.mean_repeats
    if not view.repeated or found is None:
        return []
    k = max(found.pass_at)
    shown = ((f"pass@{k}", found.pass_at[k]), (f"pass^{k}", found.pass_all[k]))
    return [(name, figures.percent(100 * value)) for name, value in shown]

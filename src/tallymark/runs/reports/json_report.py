"""JSON: one document with everything about the runs, for scripts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from tallymark.runs.record import CaseResult
from tallymark.runs.report_formats import ReportKind
from tallymark.runs.run import Run
from tallymark.runs.score_matrix import make_matrix


def json_report(runs: Sequence[Run]) -> str:
    """All runs as the text `{"runs": [...]}`."""
    document: dict[str, Any] = {"runs": [run_document(run) for run in runs]}
    if len(runs) > 1 and (matrix := make_matrix(runs)) is not None:
        document["matrix"] = matrix.to_dict()
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def run_document(run: Run) -> dict[str, Any]:
    """One run as plain values that any JSON writer takes.

    For a list of runs, give no results: counts and metrics are then those of the record.
    """
    record = run.record
    document = {
        "id": record.id,
        "suite": record.suite,
        "model": record.model,
        "prompt": record.tags.get("prompt"),
        "status": record.status,
        "group": record.group,
        "error": record.error,
        "score": record.score,
        "score_formula": record.formula,
        "score_error": record.score_error if record.score is not None else run.explain_no_score(),
        "score_interval": run.interval and dict(zip(("low", "high"), run.interval, strict=True)),
        "score_interval_error": run.no_interval,
        "success_pct": run.metrics["success_pct"],
        "total_cost": run.metrics["total_cost"],
        "counts": _count_results(run),
        "metrics": run.metrics,
        "scorers": run.scorers,
        "explanation": run.explanation and run.explanation.to_dict(),
        "repeats": _describe_repeats(run),
        "epochs": record.epochs,
        "definition_hash": record.definition_hash,
        "created_at": record.created_at,
        "started_at": record.started_at,
        "finished_at": record.finished_at,
        "tags": record.tags,
        "results": [_describe_result(result) for result in run.results],
    }
    from tallymark.scoring.score import make_json_safe  # noqa: PLC0415 (all scorers load with it)

    plain: dict[str, Any] = make_json_safe(document)
    return plain


def _count_results(run: Run) -> dict[str, int]:
    total, record = run.tally.all, run.record
    passed, failed, errors = total.passed, total.ran - total.passed, run.tally.errors
    if not run.tally.finished:
        passed, failed, errors = record.passed, record.failed, record.errors
    missing = max(0, record.total - passed - failed - errors)
    return {"passed": passed, "failed": failed, "errors": errors, "missing": missing}


def _describe_repeats(run: Run) -> dict[str, Any] | None:
    """Mean, pass@k and pass^k over all cases and of each, where cases were repeated."""
    if not run.repeated:
        return None
    return {"all": run.mean_repeats, "cases": run.repeats}


def _describe_result(result: CaseResult) -> dict[str, Any]:
    """Every field, those at their defaults too, so that all results have the same keys."""
    plain = msgspec.structs.asdict(result)
    trace = None if result.trace is None else result.trace.to_dict()
    return plain | {"trace": trace}


REPORT = ReportKind(
    write=json_report,
    reader="scripts",
    gives='`{"runs": [...]}` with `score`, `score_formula`, `score_error` and every result;'
    " `run_document` gives one run as a dict",
)

"""JSON: one document with everything about the runs, for scripts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.runs.problems import name_case
from tallymark.runs.record import CaseResult
from tallymark.runs.report_formats import ReportKind
from tallymark.runs.run import KeptResults, Run
from tallymark.runs.score_matrix import make_matrix

if TYPE_CHECKING:
    from tallymark.runs.comparison import Comparison


def json_report(runs: Sequence[Run], comparisons: Sequence[Comparison] = ()) -> str:
    """All runs as the text `{"runs": [...]}`."""
    return "".join(stream_json(runs, comparisons))


def stream_json(runs: Sequence[Run], comparisons: Sequence[Comparison] = ()) -> Iterator[str]:
    """The same, result by result."""
    document: dict[str, Any] = {"runs": list(runs)}
    if len(runs) > 1 and (matrix := make_matrix(runs)) is not None:
        document["matrix"] = matrix.to_dict()
    if comparisons:
        document["comparisons"] = [each.to_dict() for each in comparisons]
    yield from stream_document(document)
    yield "\n"


def stream_document(value: Any, pad: str = "") -> Iterator[str]:
    """Plain values in which runs stand, as JSON text; of the runs, result by result."""
    inner = f"{pad}  "
    if isinstance(value, Run):
        yield _dump(describe_run(value), pad).removesuffix(f"\n{pad}}}")
        yield f',\n{inner}"results": ['
        comma = ""
        for result in _list_results(value):
            yield f"{comma}\n{inner}  {_dump(result, f'{inner}  ')}"
            comma = ","
        yield f"\n{inner}]\n{pad}}}" if comma else f"]\n{pad}}}"
    elif isinstance(value, dict | list) and value and _holds_runs(value):
        keyed = isinstance(value, dict)
        entries = value.items() if isinstance(value, dict) else ((None, each) for each in value)
        comma = "{" if keyed else "["
        for key, each in entries:
            yield f"{comma}\n{inner}{json.dumps(key)}: " if keyed else f"{comma}\n{inner}"
            yield from stream_document(each, inner)
            comma = ","
        yield f"\n{pad}{'}' if keyed else ']'}"
    else:
        yield _dump(value, pad)


def _holds_runs(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_runs, value.values()))
    return isinstance(value, Run) or (isinstance(value, list) and any(map(_holds_runs, value)))


def _dump(value: Any, pad: str) -> str:
    # Python indents at a tenth of the speed at which it writes without.
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=msgspec.structs.asdict)
    return msgspec.json.format(text, indent=2).replace("\n", f"\n{pad}")


def run_document(run: Run) -> dict[str, Any]:
    """One run as plain values that any JSON writer takes.

    For a list of runs, give no results: counts and metrics are then those of the record.
    """
    from tallymark.scoring.score import make_json_safe  # noqa: PLC0415 (all scorers load with it)

    results = [make_json_safe(describe_case(result)) for result in run.results]
    return describe_run(run) | {"results": results}


def _list_results(run: Run) -> Iterator[Any]:
    described = map(describe_case, run.results)
    if isinstance(run.results, KeptResults):
        return described  # they come from JSON
    from tallymark.scoring.score import make_json_safe  # noqa: PLC0415 (all scorers load with it)

    return map(make_json_safe, described)


def describe_run(run: Run) -> dict[str, Any]:
    """All of a run but its results."""
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


def describe_case(result: CaseResult) -> dict[str, Any]:
    """Every field, those at their defaults too, so that all results have the same keys."""
    plain = msgspec.structs.asdict(result)
    trace = None if result.trace is None else result.trace.to_dict()
    return {"case": result.case, "name": name_case(result)} | plain | {"trace": trace}


REPORT = ReportKind(
    write=json_report,
    reader="scripts",
    gives='`{"runs": [...]}` with `score`, `score_formula`, `score_error` and every result,'
    " `comparisons` where runs are compared; `run_document` gives one run as a dict",
    stream=stream_json,
    compares=True,
)

"""JSON: one document with everything about the runs, for scripts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.runs.problems import show_result
from tallymark.runs.record import RepeatedCases, RunDetails
from tallymark.runs.report_formats import ReportKind
from tallymark.runs.run import KeptResults, Run
from tallymark.runs.score_matrix import make_matrix

if TYPE_CHECKING:
    from tallymark.runs.comparison import Comparison


def json_report(runs: Sequence[Run], comparisons: Sequence[Comparison] = ()) -> str:
    """All runs as the text `{"runs": [...]}`."""
    return "".join(stream_json(runs, comparisons))


def stream_json(runs: Sequence[Run], comparisons: Sequence[Comparison] = ()) -> Iterator[str]:
    """The report in pieces, one result at a time."""
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
        from tallymark.scoring.score import make_json_safe  # noqa: PLC0415 (all scorers load with it)

        yield _dump(make_json_safe(describe_run(value)), pad).removesuffix(f"\n{pad}}}")
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
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=msgspec.to_builtins)
    return msgspec.json.format(text, indent=2).replace("\n", f"\n{pad}")


def run_document(run: Run) -> dict[str, Any]:
    """One run as plain values that any JSON writer takes.

    For a list of runs, give no results: counts and metrics are then those of the record.
    """
    from tallymark.scoring.score import make_json_safe  # noqa: PLC0415 (all scorers load with it)

    document: dict[str, Any] = make_json_safe(describe_run(run))
    return document | {"results": [make_json_safe(show_result(each)) for each in run.results]}


def _list_results(run: Run) -> Iterator[Any]:
    named = map(show_result, run.results)
    if isinstance(run.results, KeptResults):
        return named  # they come from JSON
    from tallymark.scoring.score import make_json_safe  # noqa: PLC0415 (all scorers load with it)

    return map(make_json_safe, named)


def describe_run(run: Run) -> RunDetails:
    """Everything about a run but its results and the definition of its suite."""
    record = run.record
    low, high = run.interval or (None, None)
    if run.tally.finished:
        total = run.tally.all
        counts = (total.passed, total.ran - total.passed, run.tally.errors)
    else:
        counts = (record.passed, record.failed, record.errors)
    known = msgspec.structs.asdict(record) | {
        "definition": "",
        "score_error": record.score_error if record.score is not None else run.explain_no_score(),
        "score_low": low,
        "score_high": high,
        "metrics": run.metrics,
        "total": max(record.total, sum(counts)),
        **dict(zip(("passed", "failed", "errors"), counts, strict=True)),
    }
    return RunDetails(
        **known,
        score_interval_error=run.no_interval,
        scorers=run.scorers,
        explanation=None if run.explanation is None else run.explanation.to_dict(),
        repeats=RepeatedCases(all=run.mean_repeats, cases=run.repeats) if run.repeated else None,
    )


REPORT = ReportKind(
    write=json_report,
    reader="scripts",
    gives='`{"runs": [...]}` with `score`, `score_formula`, `score_error` and every result,'
    " `comparisons` where runs are compared; `run_document` gives one run as a dict",
    stream=stream_json,
    compares=True,
)

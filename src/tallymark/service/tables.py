"""Stored data as tables for other tools: attempts, results, traces and scores.

A table has its columns, a writer and a reader of rows. Reading written rows gives the same data:
tests/service/test_tables.py checks it. See docs/decisions/0052-parquet.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from tallymark.challenges.attempt import Attempt, Metrics
from tallymark.errors import InvalidInput, TallymarkError
from tallymark.runs.record import CaseResult, RunRecord
from tallymark.runs.result_files import open_whole_file
from tallymark.scoring.score import make_json_safe
from tallymark.service.attempts import DETAILS, AttemptRecord
from tallymark.service.exports import KeptTrace, RunResult, ScoreLine
from tallymark.traces import Trace
from tallymark.traces.trace_facts import TOLD_START, read_facts

if TYPE_CHECKING:
    from tallymark.parquet_rows import Kind

T = TypeVar("T")
U = TypeVar("U")
SUFFIX = ".parquet"
_RUNS = "tallymark.runs"
"""The note of a file in which the runs stand that its results are of."""


@dataclass(frozen=True)
class Table(Generic[T, U]):
    """One kind of row."""

    name: str
    columns: Mapping[str, Kind]
    tell: Callable[[T], Mapping[str, Any]]
    read: Callable[[dict[str, Any]], U]


def write_table(
    path: Path,
    table: Table[T, Any],
    found: Iterable[T],
    write_notes: Callable[[], Mapping[str, str]] = dict,
) -> int:
    """Write a file, which gets its name when complete; return the number of rows.

    Notes are computed after all rows are written, so that they can describe them.
    """
    from tallymark.parquet_rows import open_parquet_rows  # noqa: PLC0415 (an extra)

    if path.suffix.lower() != SUFFIX:
        raise InvalidInput(f"{path} is no name of a table", hint=f"one ends in {SUFFIX}")
    count = 0
    with (
        open_whole_file(path) as file,
        open_parquet_rows(file, table.columns, write_notes) as write,
    ):
        for count, each in enumerate(found, 1):
            told = table.tell(each)
            try:
                write(told[name] for name in table.columns)
            except (OverflowError, ValueError) as error:
                raise InvalidInput(f"row {count} of {table.name} fits no table: {error}") from None
    return count


class TableFile(Generic[T]):
    """The rows of a file that `write_table` wrote, or another tool in its shape; or of a folder.

    It can be passed several times: once to see that all is right, then to load it.
    """

    def __init__(self, path: Path, table: Table[Any, T]) -> None:
        from tallymark.parquet_rows import ParquetRows  # noqa: PLC0415 (an extra)

        self._rows = ParquetRows(path, table.columns)
        self._read = table.read
        self.notes = self._rows.notes

    def __len__(self) -> int:
        return self._rows.count

    def __iter__(self) -> Iterator[T]:
        for number, row in enumerate(self._rows, 1):
            try:
                yield self._read(row)
            except msgspec.ValidationError as error:
                what, _, place = str(error).partition(" - at `$")
                at = place.rstrip("`").lstrip(".") or "the row"
                raise self.refuse(number, f"{at}: {what[:1].lower()}{what[1:]}") from None
            except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
                why = "too deeply nested" if isinstance(error, RecursionError) else str(error)
                raise self.refuse(number, f"a text that is no JSON: {why}") from None
            except MemoryError:
                raise self.refuse(number, "it asks for too much memory") from None
            except TallymarkError as error:
                raise self.refuse(number, str(error)) from None

    def refuse(self, row: int, problem: str, hint: str | None = None) -> InvalidInput:
        """The error for one row."""
        return self._rows.refuse(row, problem, hint)


def _write_json(value: Any) -> str | None:
    """JSON text; null where there is nothing."""
    if not value:
        return None
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        return msgspec.json.encode(make_json_safe(value)).decode()


def _read_json(text: str | None, empty: Any = None) -> Any:
    return empty if text is None else msgspec.json.decode(text)


# Attempts

_LIFE: dict[str, Kind] = {
    "id": "text",
    "challenge": "text",
    "version": "text",
    "agent": "text",
    "number": "whole",
    "state": "text",
    "seed": "whole",
    "entered_at": "moment",
    "expires_at": "moment",
    "submitted_at": "moment",
    "scored_at": "moment",
    "verified": "flag",
    "memoryless": "flag",
    "waiting": "text",
    "voided_at": "moment",
}
_OUTCOME: dict[str, Kind] = {
    "score": "number",
    "result": "text",
    "ranks": "flag",
    "dimensions": "numbers",
    "details": "text",
    "trajectory_level": "text",
    "error": "text",
    "origin": "text",
}
_METRICS: dict[str, Kind] = {
    "succeeded": "flag",
    "tokens_total": "whole",
    "elapsed_ms": "whole",
    "rating": "number",
    "created_at": "whole",
    "cost": "number",
    "calls": "whole",
    "more": "numbers",
}


def _write_attempt(attempt: AttemptRecord) -> dict[str, Any]:
    row = {name: getattr(attempt, name) for name in _LIFE}
    if attempt.trajectory_level is None:  # no outcome
        return row | dict.fromkeys(_OUTCOME) | dict.fromkeys(f"metric_{each}" for each in _METRICS)
    row |= {name: getattr(attempt, name) for name in _OUTCOME if name != "details"}
    details = {name: getattr(attempt, name) for name in DETAILS}
    row["details"] = _write_json(
        {name: each for name, each in details.items() if each not in (None, [], {})}
    )
    row["origin"] = _write_json(attempt.origin)
    own = {name: value for name, value in attempt.metrics.items() if name not in _METRICS}
    metrics = {**attempt.metrics, "more": own}
    return row | {f"metric_{name}": metrics.get(name) for name in _METRICS}


def _read_attempt(row: dict[str, Any]) -> Attempt:
    document = {name: row[name] for name in _LIFE} | {"seed": row["seed"] or 0}
    if row["ranks"] is not None:
        metrics = {name: row[f"metric_{name}"] for name in _METRICS}
        metrics["more"] = metrics["more"] or {}
        outcome = {name: row[name] for name in _OUTCOME}
        outcome["dimensions"] = row["dimensions"] or {}
        outcome["details"] = _read_json(row["details"], {})
        outcome["origin"] = _read_json(row["origin"])
        document["outcome"] = outcome | {"metrics": msgspec.convert(metrics, Metrics)}
    return msgspec.convert(document, Attempt)


ATTEMPTS = Table(
    "attempts",
    {**_LIFE, **_OUTCOME, **{f"metric_{name}": kind for name, kind in _METRICS.items()}},
    _write_attempt,
    _read_attempt,
)

# Results

_RUN: dict[str, Kind] = {"run": "text", "suite": "text", "model": "text", "run_at": "moment"}
_RESULT: dict[str, Kind] = {
    "case": "text",
    "epoch": "whole",
    "status": "text",
    "latency": "number",
    "cost": "number",
    "input_tokens": "whole",
    "output_tokens": "whole",
    "tokens_counted_by": "text",
    "error": "text",
    "tries": "whole",
    "input": "text",
    "output": "text",
    "checks": "text",
    "trace": "text",
}


def _tell_result(given: RunResult) -> dict[str, Any]:
    run, result = given
    told = {name: getattr(result, name) for name in _RESULT}
    told["checks"] = _write_json(result.checks)
    told["trace"] = None if result.trace is None else _write_json(result.trace.to_dict())
    scores = {name: check.value for name, check in result.scores.items()}
    of_run = {"run": run.id, "suite": run.suite, "model": run.model, "run_at": run.created_at}
    return of_run | told | {"scores": scores}


def _read_result(row: dict[str, Any]) -> RunResult:
    document = {name: row[name] for name in _RESULT}
    document["checks"] = _read_json(row["checks"], ())
    document["trace"] = _read_json(row["trace"])
    told: dict[str, Any] = {name: row[name] or "" for name in ("suite", "model")}
    run = RunRecord(id=row["run"] or "", created_at=row["run_at"] or 0.0, **told)
    return RunResult(run, msgspec.convert(document, CaseResult))


RESULTS = Table("results", {**_RUN, **_RESULT, "scores": "numbers"}, _tell_result, _read_result)


def read_runs(file: TableFile[RunResult]) -> tuple[list[RunRecord], bool]:
    """Runs described in a file of results, and whether it has them: other tools drop notes."""
    told = [notes[_RUNS] for notes in file.notes if _RUNS in notes]
    try:
        found = [msgspec.json.decode(each, type=list[RunRecord]) for each in told]
    except (msgspec.MsgspecError, RecursionError):
        problem = "the run metadata of the file cannot be read"
        hint = "load what tally export wrote, as it wrote it"
        raise InvalidInput(problem, hint=hint) from None
    return [record for each in found for record in each], len(told) == len(file.notes)


class RunNotes:
    """Gathers the runs while their results are written."""

    def __init__(self) -> None:
        self._records: list[RunRecord] = []
        self.gather = self._records.append

    def write(self) -> dict[str, str]:
        """The note on runs, including those without results."""
        return {_RUNS: msgspec.json.encode(self._records).decode()}


# Traces

_FACTS: dict[str, Kind] = {
    "trace_id": "text",
    "version": "whole",
    "state": "text",
    "name": "text",
    "status": "text",
    "started_at": "moment",
    "duration": "number",
    "spans": "whole",
    "errors": "whole",
    "model_calls": "whole",
    "tool_calls": "whole",
    "input_tokens": "whole",
    "output_tokens": "whole",
    "tokens": "whole",
    "cost": "number",
    "service": "text",
    "service_version": "text",
    "session": "text",
    "user": "text",
    "models": "texts",
    "tools": "texts",
    "tags": "texts",
    "error": "text",
    "asked": "text",
    "answered": "text",
}


def _tell_trace(kept: KeptTrace) -> dict[str, Any]:
    told = msgspec.structs.asdict(kept.record) | {"trace_id": kept.record.id}
    return {name: told[name] for name in _FACTS} | {"trace": _write_json(kept.trace.to_dict())}


def _read_trace(row: dict[str, Any]) -> Trace:
    document = _read_json(row["trace"])
    if not isinstance(document, dict):
        raise InvalidInput("trace: it is not a JSON object")
    trace = Trace.from_dict(document)
    if trace.trace_id != row["trace_id"]:
        trace = msgspec.structs.replace(trace, trace_id=row["trace_id"] or "")
    facts = read_facts(trace)  # a value that cannot be counted cannot be stored
    if facts.started_at is None and row["started_at"] is not None:
        told = {**trace.metadata, TOLD_START: row["started_at"]}
        trace = msgspec.structs.replace(trace, metadata=told)
    return trace


TRACES: Table[Any, Any] = Table("traces", {**_FACTS, "trace": "text"}, _tell_trace, _read_trace)

# Scores

_SCORE: dict[str, Kind] = {
    "of": "text",
    "trace_id": "text",
    "trace_version": "whole",
    "run": "text",
    "case": "text",
    "epoch": "whole",
    "name": "text",
    "author": "text",
    "rule": "text",
    "rule_version": "whole",
    "value": "number",
    "label": "text",
    "reason": "text",
    "error": "text",
    "metadata": "text",
    "cost": "number",
    "created_at": "moment",
    "at": "moment",
}


def _tell_score(line: ScoreLine) -> dict[str, Any]:
    return msgspec.structs.asdict(line) | {"metadata": _write_json(line.metadata)}


def _read_score(row: dict[str, Any]) -> ScoreLine:
    line = msgspec.convert({**row, "metadata": _read_json(row["metadata"], {})}, ScoreLine)
    if line.of == "trace" and line.trace_id is None:
        raise InvalidInput("trace_id is missing")
    if line.of == "case" and (line.run is None or line.case is None or line.author is None):
        raise InvalidInput("run, case and author are all required")
    return line


SCORES = Table("scores", _SCORE, _tell_score, _read_score)
TABLES: dict[str, Table[Any, Any]] = {
    each.name: each for each in (ATTEMPTS, RESULTS, TRACES, SCORES)
}

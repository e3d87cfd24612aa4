"""Results written to a file as they come: JSON lines, CSV or Parquet, by the file's name.

The file takes its name when it is complete: a run that fails leaves nothing half-written.
"""

from __future__ import annotations

import csv
import errno
import fcntl
import glob
import io
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec

from tallymark.errors import InvalidInput, TallymarkError, WorkFailed
from tallymark.scoring.score import make_json_safe
from tallymark.traces.trace_facts import read_case

if TYPE_CHECKING:
    from tallymark.parquet_rows import Kind
    from tallymark.runs.record import CaseResult, CheckResult

WriteResult = Callable[["CaseResult"], None]
WriteRow = Callable[[dict[str, Any], "dict[str, CheckResult]"], None]
MakeWriter = Callable[[IO[bytes], Sequence[str]], AbstractContextManager[WriteRow]]
_FACTS: dict[str, Kind] = {
    "case": "text",
    "model": "text",
    "prompt": "text",
    "trace_id": "text",
    "name": "text",
    "epoch": "whole",
    "status": "text",
    "duration_ms": "number",
    "cost": "number",
    "tokens": "whole",
    "error": "text",
    "input": "text",
    "output": "text",
}
"""The columns before the scores, with the types that Parquet gives them."""
_PARTS: dict[str, Kind] = {"value": "number", "label": "text", "reason": "text", "error": "text"}
"""Columns of a score. Its value is under the scorer's name, the others under NAME.FIELD."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_ROOM_HINT = "make room, or name another place; what was there before is as it was"
_ABANDONED_S = 60.0
"""Age in seconds at which an unlocked part is considered abandoned."""


def open_result_file(path: Path, scorers: Sequence[str]) -> AbstractContextManager[WriteResult]:
    """A function that writes one result; the file is in its place when the block ends well."""
    make = _FORMATS.get(path.suffix.lower())
    if make is None:
        raise InvalidInput(
            f"the name does not show what kind of file {path} should be",
            hint=f"use a name that ends in {', '.join(_FORMATS)}",
        )
    return _write_results(path, make, scorers)


@contextmanager
def _write_results(path: Path, make: MakeWriter, scorers: Sequence[str]) -> Iterator[WriteResult]:
    with open_whole_file(path) as file, make(file, scorers) as write:
        yield lambda result: write(_describe_result(result), result.scores)


@contextmanager
def open_whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears when the block ends well, and not otherwise.

    Parts of the same file that a killed process left are removed.
    """
    with _explain_failure(path, InvalidInput):
        _remove_abandoned(path)
        file = _open_part(path, path.parent)
    part = Path(file.name)
    try:
        with _explain_failure(path, WorkFailed, _NO_ROOM), file:
            with suppress(OSError):  # a file system that knows no locks
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield file
            with _explain_failure(path, WorkFailed):
                file.flush()
                part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def check_place(path: Path) -> None:
    """Refuse a path where no file can be made, before any work is done for it.

    Missing folders may be created. It tries to write, since permissions do not bind root.
    """
    with _explain_failure(path, InvalidInput):
        home = next((each for each in path.parents if each.exists()), path.parent)
        with _open_part(path, home) as file:
            Path(file.name).unlink()


def _open_part(path: Path, folder: Path) -> IO[bytes]:
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    return (folder / f".{path.name}.{secrets.token_hex(4)}.part").open("xb")


@contextmanager
def _explain_failure(
    path: Path, kind: type[TallymarkError], only: Sequence[int] = ()
) -> Iterator[None]:
    """Add the file name to errors; with `only`, to errors of these kinds."""
    try:
        yield
    except OSError as error:
        if only and (error.filename is not None or error.errno not in only):
            raise  # of another file, or of what the caller does
        said = f"cannot write {path}: {error.strerror or error}"
        if error.errno in _NO_ROOM:
            raise WorkFailed(said, hint=_ROOM_HINT) from None
        raise kind(said) from None


def _remove_abandoned(path: Path) -> None:
    """True if a part is locked by its writer; it is unlocked only while it is created."""
    for part in path.parent.glob(f".{glob.escape(path.name)}.????????.part"):
        with suppress(OSError), part.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if time.time() - part.stat().st_mtime > _ABANDONED_S:
                part.unlink()


def _describe_result(result: CaseResult) -> dict[str, Any]:
    trace = result.trace
    stated = None if trace is None else read_case(trace)
    return {
        "case": result.case,
        "model": None if stated is None else stated.model,
        "prompt": None if stated is None else stated.prompt,
        "trace_id": None if trace is None else trace.trace_id,
        "name": None if trace is None else trace.name,
        "epoch": result.epoch,
        "status": result.status,
        "duration_ms": None if result.latency is None else result.latency * 1000,
        "cost": result.cost,
        "tokens": result.tokens,
        "error": result.error,
        "input": result.input,
        "output": result.output,
    }


def _describe_score(score: CheckResult) -> dict[str, Any]:
    return {
        "value": score.value,
        "label": score.label,
        "reason": score.reason,
        "error": score.error,
        "metadata": score.metadata,
        "version": score.version,
    }


@contextmanager
def _write_json_lines(file: IO[bytes], scorers: Sequence[str]) -> Iterator[WriteRow]:  # noqa: ARG001
    encode = msgspec.json.Encoder(enc_hook=str).encode

    def write(facts: dict[str, Any], scores: dict[str, CheckResult]) -> None:
        row = {**facts, "scores": {name: _describe_score(score) for name, score in scores.items()}}
        try:
            line = encode(row)
        except (TypeError, ValueError, RecursionError):  # metadata that JSON does not know
            line = encode(make_json_safe(row))
        file.write(line + b"\n")

    yield write


@contextmanager
def _write_csv(file: IO[bytes], scorers: Sequence[str]) -> Iterator[WriteRow]:
    text = io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="")
    writer = csv.writer(text)
    writer.writerow(_list_columns(scorers))
    yield lambda facts, scores: writer.writerow(_list_cells(facts, scores, scorers))
    text.flush()
    text.detach()  # or the wrapper would close the file when it goes, before its owner does


def _list_columns(scorers: Sequence[str]) -> dict[str, Kind]:
    """The columns of a table, with their types."""
    parts = {
        name if part == "value" else f"{name}.{part}": kind
        for name in scorers
        for part, kind in _PARTS.items()
    }
    return {**_FACTS, **parts}


def _list_cells(
    facts: dict[str, Any], scores: dict[str, CheckResult], scorers: Sequence[str]
) -> Iterator[Any]:
    if scores.keys() - set(scorers):
        name = next(name for name in scores if name not in scorers)
        hint = "say which scores it gives, as in @scorer(gives=[...]), or write a .jsonl file"
        raise InvalidInput(f"a scorer gave a score {name!r}, which has no column", hint=hint)
    yield from facts.values()
    for name in scorers:
        for part in _PARTS:
            yield getattr(scores[name], part) if name in scores else None


@contextmanager
def _write_parquet(file: IO[bytes], scorers: Sequence[str]) -> Iterator[WriteRow]:
    from tallymark.parquet_rows import open_parquet_rows  # noqa: PLC0415 (an extra)

    with open_parquet_rows(file, _list_columns(scorers)) as write:
        yield lambda facts, scores: write(map(make_json_safe, _list_cells(facts, scores, scorers)))


_FORMATS: dict[str, MakeWriter] = {
    ".jsonl": _write_json_lines,
    ".csv": _write_csv,
    ".parquet": _write_parquet,
}

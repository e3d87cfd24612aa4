"""`read_traces`: recognises the format of a file of traces and reads it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, cast

from tallymark.errors import CutShort, Place, TraceError, suggest
from tallymark.traces.dialects import (
    atif,
    claude_code,
    codex,
    console,
    copilot_cli,
    gemini_cli,
    inspect_log,
    jsonl,
    langsmith,
    mlflow,
    openhands,
    otlp,
    promptfoo,
    records,
)
from tallymark.traces.flat_records import FieldMap, check_field_map, describe_needs
from tallymark.traces.json_records import JsonHead
from tallymark.traces.trace_source import OnProgress, Progress, TraceSource, open_source

if TYPE_CHECKING:
    from tallymark.traces.dialect import Dialect
    from tallymark.traces.trace import Trace

Where = str | os.PathLike[str] | IO[bytes]


class _File(NamedTuple):
    """Something to read, and the folder it was found in, if it was not named itself."""

    item: Path | IO[bytes]
    folder: Path | None


FORMATS: dict[str, Dialect] = {
    each.name: each
    for each in (
        claude_code.DIALECT,
        codex.DIALECT,
        copilot_cli.DIALECT,
        gemini_cli.DIALECT,
        openhands.DIALECT,
        langsmith.DIALECT,
        mlflow.DIALECT,
        jsonl.DIALECT,
        inspect_log.DIALECT,
        otlp.DIALECT,
        console.DIALECT,
        atif.DIALECT,
        promptfoo.DIALECT,
        records.DIALECT,
    )
}
"""By name, in the order in which they are tried."""


def read_traces(
    where: Where | Iterable[Where],
    *,
    format: str | None = None,  # noqa: A002 (the word users expect)
    fields: FieldMap | None = None,
    skip_broken: bool = False,
    on_progress: OnProgress | None = None,
    on_broken: Callable[[TraceError], None] | None = None,
) -> Iterator[Trace]:
    """The traces of a file, a folder, a binary stream, or several of these, one at a time.

    A broken record is raised as a `TraceError` with its position. With `skip_broken` it goes to
    `on_broken` instead, and reading continues; so does the error for a file that is cut short,
    after everything before the cut. `on_progress` is called with the bytes read and their total
    (None for streams). In a folder, files that are no traces are skipped.

    `fields` maps fields of records to their keys: `{"output": "agent_reply"}`.
    """
    check_field_map(fields or {})
    if format is not None and format not in FORMATS:
        hint = f"the formats are {', '.join(FORMATS)}"
        close = suggest(format, FORMATS)
        raise TraceError(
            f"unknown trace format {format!r}" + (f", did you mean {close!r}?" if close else ""),
            hint=hint,
        )
    files = _list_files(where)
    paths = [file.item for file in files if isinstance(file.item, Path)]
    # With a stream among them the bytes in all are not known.
    sizes = [path.stat().st_size for path in paths if path.is_file()]
    progress = Progress(on_progress, sum(sizes) if len(sizes) == len(files) else None)
    found = _read_files(files, FORMATS[format] if format else None, progress, fields)
    return _raise_or_skip(found, on_broken, skip_broken=skip_broken)


def _raise_or_skip(
    found: Iterator[Trace | TraceError],
    on_broken: Callable[[TraceError], None] | None,
    *,
    skip_broken: bool,
) -> Iterator[Trace]:
    for each in found:
        if not isinstance(each, TraceError):
            yield each
        elif not skip_broken and not (on_broken and isinstance(each, CutShort)):
            raise each
        elif on_broken is not None:
            on_broken(each)


def _read_files(
    files: list[_File], chosen: Dialect | None, progress: Progress, fields: FieldMap | None
) -> Iterator[Trace | TraceError]:
    fruitless: dict[Path | None, None] = {file.folder: None for file in files if file.folder}
    for file in files:
        try:
            with open_source(file.item, progress) as source:
                kind = chosen or detect_format(source)
                if fields and source.head:
                    kind = _map_records(kind, fields, source.name)
                if kind is not None:
                    fruitless.pop(file.folder, None)
                    yield from _read_source(kind, source)
                elif source.head and file.folder is None:
                    yield _unknown_error(source)
        except TraceError as error:
            yield error
    for folder in fruitless:
        what = "no file in it is a trace file that I know"
        yield TraceError(what, place=Place(source=str(folder)), hint=_hint_at_formats())


def _read_source(kind: Dialect, source: TraceSource) -> Iterator[Trace | TraceError]:
    """Every trace; after damage, errors at the end of the file are dropped as consequences."""
    try:
        for each in kind.read(source):
            if not isinstance(each, TraceError) or source.damage is None:
                yield each
    except TraceError as error:
        if source.damage is None:
            yield error
    if source.damage is not None:
        yield source.damage


def _list_files(where: Where | Iterable[Where]) -> list[_File]:
    """Every file to read, in order."""
    if isinstance(where, str | os.PathLike):
        path = Path(where)
        if not path.exists():
            raise TraceError("no such file or folder", place=Place(source=str(path)))
        if not path.is_dir():
            return [_File(path, None)]
        inside = sorted(each for each in path.rglob("*") if each.is_file())
        files = [_File(each, path) for each in inside if not _is_hidden(each.relative_to(path))]
        if not files:
            raise TraceError("the folder is empty", place=Place(source=str(path)))
        return files
    if hasattr(where, "read"):
        return [_File(cast("IO[bytes]", where), None)]
    return [file for each in where for file in _list_files(each)]


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def detect_format(source: TraceSource) -> Dialect | None:
    """The format by the content, else by the name."""
    for each in FORMATS.values():
        if each.sniff_bytes is not None and each.sniff_bytes(source.head):
            return each
    keys = JsonHead(source.head, whole=source.whole).keys
    by_keys = (each for each in FORMATS.values() if keys and each.sniff(keys))
    name = source.name.removesuffix(".gz").removesuffix(".zst")
    # No name ends in a null byte, so a format without suffixes is never found by name.
    by_name = (each for each in FORMATS.values() if name.endswith(each.suffixes or ("\0",)))
    return next(by_keys, None) or next(by_name, None)


def _map_records(kind: Dialect | None, fields: FieldMap, name: str) -> Dialect:
    """Records whose fields are under other keys; other formats have keys that are known."""
    if kind not in (None, jsonl.DIALECT, records.DIALECT):
        what = f"it is a file of the format {kind.name}, whose keys are known"
        raise TraceError(what, place=Place(source=name), hint="leave out --map")
    return records.DIALECT._replace(read=lambda source: jsonl.read_mapped(source, fields))


def _unknown_error(source: TraceSource) -> TraceError:
    """The error for an unknown format, with the keys of the first record."""
    what, hint = "not a trace file that I know", _hint_at_formats()
    if keys := JsonHead(source.head, whole=source.whole).keys:
        message, known = describe_needs(key for key in keys if "." not in key)
        what, hint = f"{what}: {message}", f"{known}; or {hint}"
    return TraceError(what, place=source.place(), hint=hint)


def _hint_at_formats() -> str:
    return f"name the format (--format), one of {', '.join(FORMATS)}"

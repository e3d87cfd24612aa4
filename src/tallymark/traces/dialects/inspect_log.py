"""Inspect's logs, `.eval` (zip files) and `.json`: every sample of every epoch is a trace."""

from __future__ import annotations

import re
import struct
import zlib
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from tallymark.errors import Place, TraceError
from tallymark.traces.dialect import Dialect
from tallymark.traces.inspect_sample import make_sample_trace
from tallymark.traces.json_records import MAX_RECORD, read_records, size_error
from tallymark.traces.lenient_json import as_label, as_list, as_mapping, decode
from tallymark.traces.trace_source import DAMAGE, decompress_zstd

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tallymark.traces.trace import Trace
    from tallymark.traces.trace_source import TraceSource

_ZIP_MAGIC = b"PK\x03\x04"
_SAMPLE = re.compile(r"samples/(?P<whole>[^/]+)\.json|samples/(?P<folder>[^/]+)/sample\.json")
# The header is written when a run ends; one that was broken off has only the journal's start.
_HEADERS = ("header.json", "_journal/start.json")
_BROKEN_OFF = "started"
"""Files of a log that is still written: the journal adds nothing to them."""
_ZSTD_METHOD = 93
_LOCAL_HEADER = struct.Struct("<4s22xHH")


def sniff(keys: Collection[str]) -> bool:
    """True when an object with these keys is a log."""
    return "eval" in keys and "version" in keys and "status" in keys


def sniff_bytes(head: bytes) -> bool:
    """True when the bytes are a zip file."""
    return head.startswith(_ZIP_MAGIC)


class LoggedSample(NamedTuple):
    """A sample as the log has it."""

    sample: Any
    header: dict[str, Any]
    """The log's `eval` part."""
    place: Place
    status: str
    """The log's own, `success` where it ran to its end."""


def read(source: TraceSource) -> Iterator[Trace | TraceError]:
    """Every sample's trace, or the reason why there is none."""
    for found in read_samples(source):
        yield found if isinstance(found, TraceError) else _read_sample(found)


def read_samples(source: TraceSource) -> Iterator[LoggedSample | TraceError]:
    """Every sample of every epoch, or the reason why it cannot be read.

    A `.eval` file is a zip with one JSON member a sample, or (large samples) one folder a sample
    with its sequences cut into chunks. Inspect itself is not needed.
    """
    if sniff_bytes(source.head):
        with source.seekable() as file:
            yield from _read_zip(ZipMembers(source, file), source)
    else:
        yield from _read_json(source)


def _read_zip(members: ZipMembers, source: TraceSource) -> Iterator[LoggedSample | TraceError]:
    header: dict[str, Any] = {}
    for name in _HEADERS:
        if name in members.names:
            header = as_mapping(decode(members.read(name), source.place(part=name)))
            break
    else:
        raise TraceError("a zip file, but not an Inspect log", place=source.place())
    status = as_label(header.get("status")) or _BROKEN_OFF
    for name in members.names:
        if found := _SAMPLE.fullmatch(name):
            place = source.place(part=name)
            try:
                sample = decode(members.read(name), place)
                if found["folder"]:
                    sample = _add_sequences(
                        sample, members, name.removesuffix("sample.json"), place
                    )
            except TraceError as error:
                yield error
            else:
                yield LoggedSample(sample, as_mapping(header.get("eval")), place, status)


def _add_sequences(sample: Any, members: ZipMembers, folder: str, place: Place) -> dict[str, Any]:
    """A sample from its header and its chunks."""

    def sequence(kind: str) -> list[Any]:
        chunk = re.compile(re.escape(f"{folder}{kind}/") + r"(\d+)\.json")
        starts = sorted(int(m[1]) for name in members.names if (m := chunk.fullmatch(name)))
        parts = [decode(members.read(f"{folder}{kind}/{n}.json"), place) for n in starts]
        return [each for part in parts for each in as_list(part)]

    shell = dict(as_mapping(sample))
    attachments = {str(i): each for i, each in enumerate(sequence("attachments"))}
    metadata = f"{folder}metadata.json"
    return shell | {
        "attachments": attachments,
        "events": sequence("events"),
        "events_data": {"messages": sequence("messages")},
        "metadata": decode(members.read(metadata), place) if metadata in members.names else {},
    }


def _read_json(source: TraceSource) -> Iterator[LoggedSample | TraceError]:
    header: dict[str, Any] = {}
    status = _BROKEN_OFF
    for record in read_records(source, arrays=[("samples",)], kept=[("eval",), ("status",)]):
        try:
            value = record.decode()
        except TraceError as error:
            yield error
            continue
        if record.path == ("eval",):
            header = as_mapping(value)
        elif record.path == ("status",):
            status = as_label(value) or _BROKEN_OFF
        elif record.path:
            yield LoggedSample(value, header, record.place, status)
        else:
            log = as_mapping(value)
            ended = as_label(log.get("status")) or _BROKEN_OFF
            if "eval" not in log:
                yield TraceError("not an Inspect log: there is no eval in it", place=record.place)
            for sample in as_list(log.get("samples")):
                yield LoggedSample(sample, as_mapping(log.get("eval")), record.place, ended)


def _read_sample(found: LoggedSample) -> Trace | TraceError:
    sample, place = found.sample, found.place
    if not isinstance(sample, dict) or "id" not in sample:
        return TraceError("not a sample: it has no id", place=place)
    try:
        return make_sample_trace(sample, found.header)
    except RecursionError:
        return TraceError("the sample is nested too deeply to read", place=place)


class ZipMembers:
    """A zip file's directory, and its members on demand, one at a time.

    Python's own `zipfile` learns zstd (method 93) only in 3.14, so those members are taken out of
    the file by their directory entry and expanded here.
    """

    def __init__(self, source: TraceSource, file: IO[bytes]) -> None:
        import zipfile  # noqa: PLC0415 (only for zip files)

        self._source = source
        self._file = file
        # RuntimeError is how zipfile refuses encryption and unknown methods of compression.
        self._damage = (*DAMAGE, zipfile.BadZipFile, RuntimeError, ValueError, struct.error)
        try:
            self._zip = zipfile.ZipFile(file)
        except self._damage as error:
            raise TraceError(f"not a readable zip file: {error}", place=source.place()) from None
        self.names = list(self._zip.NameToInfo)
        """Each name once: where a member was written again, the last one counts."""

    def read(self, name: str) -> bytes:
        """A member's content, checked against its checksum."""
        info = self._zip.NameToInfo[name]
        place = self._source.place(part=name)
        if max(info.file_size, info.compress_size) > MAX_RECORD:
            raise size_error(place)
        try:
            if info.compress_type == _ZSTD_METHOD:
                content = self._read_zstd(info)
            else:
                with self._zip.open(info) as member:
                    content = member.read(MAX_RECORD)
        except self._damage as error:
            raise TraceError(f"damaged: {error}", place=place) from None
        self._source.progress.at(info.header_offset + info.compress_size)
        return content

    def _read_zstd(self, info: Any) -> bytes:
        self._file.seek(info.header_offset)
        # The extra field here may be longer or shorter than the one in the directory.
        _, name_size, extra_size = _LOCAL_HEADER.unpack(self._file.read(_LOCAL_HEADER.size))
        self._file.seek(name_size + extra_size, 1)
        content = decompress_zstd(self._file.read(info.compress_size), MAX_RECORD)
        if zlib.crc32(content) != info.CRC:
            raise OSError("its checksum is wrong")
        return content


DIALECT = Dialect(
    name="inspect",
    files="Inspect's logs, `.eval` (also with zstd and chunked samples) and `.json`; Inspect is"
    " not needed",
    known_by="a zip file; the keys `version`, `status`, `eval`",
    read=read,
    sniff=sniff,
    sniff_bytes=sniff_bytes,
    suffixes=(".eval",),
)

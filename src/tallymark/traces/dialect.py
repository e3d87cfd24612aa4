"""`Dialect`: one kind of trace file. Each has a module of its own in `dialects/`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple

from tallymark.errors import TraceError

if TYPE_CHECKING:
    from tallymark.traces.trace import Trace
    from tallymark.traces.trace_source import TraceSource


class Dialect(NamedTuple):
    """Recognises and reads one kind of file."""

    name: str
    files: str
    """For the docs: whose files they are, and of which kinds."""
    known_by: str
    """For the docs: what `sniff` and `sniff_bytes` look for."""
    read: Callable[[TraceSource], Iterator[Trace | TraceError]]
    sniff: Callable[[Collection[str]], bool]
    """By the keys of the first JSON object."""
    sniff_bytes: Callable[[bytes], bool] | None = None
    suffixes: tuple[str, ...] = ()
    """Names that decide when the content does not, such as a file whose first line is broken."""

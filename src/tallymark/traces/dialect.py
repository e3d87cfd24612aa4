"""`Dialect`: a kind of trace file, with all that others know of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple

from tallymark.errors import TraceError

if TYPE_CHECKING:
    from tallymark.traces.trace import Trace
    from tallymark.traces.trace_source import TraceSource


class Dialect(NamedTuple):
    """How to know such a file, and how to read it. Each stands in a file of its own."""

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

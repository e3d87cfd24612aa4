"""Spans and whole traces taken in for a tenant: read, redacted, counted, stored."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tallymark.errors import TraceError
from tallymark.service.traces import LoadedTraces
from tallymark.store.dialects import make_storable
from tallymark.store.retention_policy import TraceSettings
from tallymark.store.traces.segments import (
    assemble_groups,
    pack_groups,
    pack_trace,
    unpack_trace,
)
from tallymark.store.traces.trace_batch import KeepTraces, TracePiece, WitnessedPiece
from tallymark.text import format_count
from tallymark.traces.otel_traces import assemble_counted
from tallymark.traces.otlp_export import SpanGroup, read_export
from tallymark.traces.redaction import Redactor
from tallymark.traces.span_limits import LIMITS, Lost
from tallymark.traces.trace_facts import TOLD_START, read_facts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tallymark.store import Store
    from tallymark.store.traces.trace_batch import KeptTraces
    from tallymark.traces.otlp_export import ArrivedTrace, Encoding, Export
    from tallymark.traces.span_limits import SpanLimits
    from tallymark.traces.trace import Trace

_AT_ONCE = 100
TOKEN = "tally.attempt"  # noqa: S105 (its name, not one of them)
"""The attribute of a span, or of its resource, that names the attempt it belongs to."""
_NOT_ITS_OWN = "an agent's key is for spans with the token of its own attempt"


class Taken(NamedTuple):
    """Result of an export request."""

    spans: int
    refused: int
    message: str
    """Why spans were refused, or what was cut; empty when all is as it came."""


class TraceIntake:
    """Takes spans in for one tenant: read, redacted, counted, stored."""

    def __init__(
        self,
        store: Store,
        *,
        settings: Callable[[], TraceSettings] | None = None,
        clock: Callable[[], float] = time.time,
        limits: SpanLimits = LIMITS,
    ) -> None:
        self._store = store
        self._settings = settings or (lambda: store.tenants.settings().traces)
        self._clock = clock
        self._limits = limits
        self._redactor: tuple[tuple[tuple[str, ...], tuple[str, ...]], Redactor | None] = (
            ((), ()),
            None,
        )

    def read(
        self, body: bytes, encoding: Encoding, *, agent: str | None = None
    ) -> tuple[Export, KeepTraces]:
        """The content of a request, ready to store: the expensive part, which changes nothing.

        An agent may send spans of its own open attempts only.
        """
        at, settings = self._clock(), self._settings()
        redactor = self._find_redactor(settings)
        export = read_export(body, encoding, self._limits)
        witnessed = self._take_witnessed(export, agent, redactor)
        if agent is not None:
            for each in export.traces.values():
                if each.spans:
                    export.refuse(_NOT_ITS_OWN, each.spans)
            export.traces.clear()
        pieces = [_make_piece(each, redactor) for each in export.traces.values() if each.spans]
        item = self._make_item(pieces, at, settings)
        return export, msgspec.structs.replace(item, witnessed=witnessed)

    def _take_witnessed(
        self, export: Export, agent: str | None, redactor: Redactor | None
    ) -> tuple[WitnessedPiece, ...]:
        """Separate spans with tokens of attempts; the tokens themselves are never stored."""
        tokens: dict[int, Any] = {}  # several traces may share a resource
        seen: dict[Any, list[SpanGroup]] = {}
        for trace in export.traces.values():
            for nth, group in enumerate(trace.groups):
                resource = group.resource
                if TOKEN in resource:
                    tokens[id(resource)] = resource.pop(TOKEN)
                shared = tokens.get(id(resource))
                if shared is None and not any(TOKEN in span.attributes for span in group.spans):
                    continue
                others = []
                for span in group.spans:
                    token = span.attributes.pop(TOKEN, shared)
                    if token is None:
                        others.append(span)
                        continue
                    del trace.places[span.span_id]
                    seen.setdefault(str(token), []).append(SpanGroup(resource, [span]))
                trace.groups[nth] = SpanGroup(resource, others)
            trace.groups = [group for group in trace.groups if group.spans]
        pieces = []
        for token, groups in seen.items():
            attempt = self._store.witness.read_token(token)
            if attempt is None:
                export.refuse("the token is of no attempt", len(groups))
                continue
            if redactor is not None:
                redactor.clean_groups(groups)
            body = pack_groups(groups)
            pieces.append(
                WitnessedPiece(attempt=attempt, agent=agent, spans=len(groups), body=body)
            )
        return tuple(pieces)

    def keep(self, export: Export, item: KeepTraces) -> Taken:
        """Stores what was read."""
        return self._answer(export, self._store.traces.keep(item))

    async def akeep(self, export: Export, item: KeepTraces) -> Taken:
        """Store without blocking the event loop."""
        return self._answer(export, await self._store.traces.akeep(item))

    def load(self, traces: Iterable[Trace]) -> LoadedTraces:
        """Store whole traces of any dialect, a hundred at a time, and finalise them.

        One without an id gets one from its content, so that loading a file again adds nothing.
        """
        self._store.prepare()
        settings = self._settings()
        redactor = self._find_redactor(settings)
        whole = _WholeTraces(self._store, lambda pieces: self._keep_pieces(pieces, settings))
        left = iter(traces)
        while some := list(islice(left, _AT_ONCE)):
            whole.keep([self._make_whole(each, redactor) for each in some])
        while self._store.traces.finalise(self._clock() + 1.0):
            pass
        return whole.count()

    def _keep_pieces(self, pieces: list[TracePiece], settings: TraceSettings) -> None:
        # Nothing more is to come: they are settled with the next look.
        settled = msgspec.structs.replace(settings, quiet_s=0.1)
        self._store.traces.keep(self._make_item(pieces, self._clock(), settled))

    def _make_whole(self, trace: Trace, redactor: Redactor | None) -> TracePiece:
        if redactor is not None:
            trace = redactor.clean_trace(trace)
        lost = Lost()
        extra = len(trace.spans) - self._limits.spans_per_trace
        if extra > 0:
            kept = trace.spans[: self._limits.spans_per_trace]
            trace, lost = msgspec.structs.replace(trace, spans=kept), Lost(spans_refused=extra)
        try:
            body = pack_trace(trace)
        except RecursionError:
            raise TraceError(f"the trace {trace.trace_id!r} is nested too deeply to keep") from None
        return TracePiece(
            trace_id=trace.trace_id or hashlib.sha256(body).hexdigest()[:32],
            format="trace",
            body=body,
            facts=read_facts(trace),
            lost=lost,
        )

    def _make_item(
        self, pieces: list[TracePiece], at: float, settings: TraceSettings
    ) -> KeepTraces:
        return KeepTraces(
            tenant=self._store.tenant,
            at=at,
            pieces=tuple(pieces),
            quiet=settings.quiet_s,
            most_spans=self._limits.spans_per_trace,
        )

    def _find_redactor(self, settings: TraceSettings) -> Redactor | None:
        """Made once for the rules that there are."""
        rules = (settings.redact_attributes, settings.redact_patterns)
        if self._redactor[0] != rules:
            self._redactor = (rules, Redactor(*rules) if any(rules) else None)
        return self._redactor[1]

    def _answer(self, export: Export, kept: KeptTraces) -> Taken:
        if kept.refused:
            most = self._limits.spans_per_trace
            export.refuse(f"a trace has at most {most:,} spans", kept.refused)
        for why, count in kept.not_witnessed.items():
            export.refuse(why, count)
        said = "; ".join(
            f"{format_count(count, 'span')}: {why}" for why, count in export.problems.items()
        )
        return Taken(kept.spans, export.refused, said)


def _make_piece(arrived: ArrivedTrace, redactor: Redactor | None) -> TracePiece:
    if redactor is not None:
        redactor.clean_groups(arrived.groups)
    # Packed before it is counted: that gives attributes the names of the conventions.
    body = pack_groups(arrived.groups)
    return TracePiece(
        trace_id=arrived.trace_id,
        format="otel",
        body=body,
        facts=read_facts(assemble_groups(arrived.groups, assemble_counted)),
        lost=arrived.lost,
    )


class _WholeTraces:
    """Stores whole traces, some at a time, and counts what became of them."""

    def __init__(self, store: Store, keep: Callable[[list[TracePiece]], None]) -> None:
        self._store = store
        self._keep = keep
        self._new = self._known = 0
        self._others: list[tuple[str, int]] = []
        """Traces that differ from the stored ones, with the version."""

    def keep(self, pieces: Sequence[TracePiece]) -> None:
        """Store those that are not there in the same form."""
        there = self._store.traces.find_whole({make_storable(each.trace_id) for each in pieces})
        kept: list[TracePiece] = []
        bodies: dict[str, bytes] = {}
        for piece in pieces:
            name = make_storable(piece.trace_id)
            version, known = there.get(name, (0, None))
            if name in bodies:
                same = bodies[name] == piece.body
            elif known is None:
                self._new += 1
                same = False
            else:
                same = _bare(known) == _bare(unpack_trace(piece.body))
            if same:
                self._known += 1
                continue
            if name in bodies or known is not None:
                self._others.append((name, version))
            kept.append(piece)
            bodies[name] = piece.body
        if kept:
            self._keep(kept)

    def count(self) -> LoadedTraces:
        """Count once all are settled: repeated parts of a trace make no new version."""
        versions = self._store.traces.find_versions({name for name, _ in self._others})
        changed = sum(versions.get(name, 0) > before for name, before in self._others)
        known = self._known + len(self._others) - changed
        new = self._new
        return LoadedTraces(traces=new + changed + known, new=new, changed=changed, known=known)


def _bare(trace: Trace) -> Trace:
    """A trace without the metadata on its storage."""
    metadata = {key: value for key, value in trace.metadata.items() if key != TOLD_START}
    return msgspec.structs.replace(trace, trace_id="", metadata=metadata)

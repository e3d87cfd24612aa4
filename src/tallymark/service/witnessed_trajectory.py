"""The trajectory of an attempt that the server saw itself: the spans that carried its token."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from tallymark.challenges.trajectory import MAX_BYTES, join_traces
from tallymark.store.traces.segments import assemble_groups
from tallymark.traces.otlp_export import SpanGroup

if TYPE_CHECKING:
    from tallymark.store import Store
    from tallymark.traces.trace import Trace


class WitnessedSteps(NamedTuple):
    """Witnessed spans of an attempt."""

    trace: Trace
    arrivals: dict[str, float]
    """Time at which each span arrived, by the server's clock; the first time if it came twice."""

    def write(self) -> str | None:
        """JSON to store as the attempt's trajectory; None if too large."""
        text = msgspec.json.encode(self.trace.to_dict()).decode()
        return text if len(text) <= MAX_BYTES else None


def read_witnessed(store: Store, attempt_id: str) -> WitnessedSteps | None:
    """Read the witnessed spans of an attempt; None if there are none."""
    arrivals: dict[str, float] = {}
    traces: dict[str, list[SpanGroup]] = {}
    for at, groups in store.witness.read(attempt_id):
        for resource, spans in groups:
            for span in spans:
                if span.span_id in arrivals:  # the first version of a span counts
                    continue
                arrivals[span.span_id] = at
                mine = traces.setdefault(span.trace_id, [])
                if not mine or mine[-1].resource != resource:
                    mine.append(SpanGroup(resource, []))
                mine[-1].spans.append(span)
    if not traces:
        return None
    joined = join_traces([assemble_groups(groups) for groups in traces.values()])
    if len(traces) > 1:  # then steps are named by their trace too
        named = {
            f"{trace_id}/{span.span_id}": arrivals[span.span_id]
            for trace_id, groups in traces.items()
            for group in groups
            for span in group.spans
        }
        arrivals |= named
    return WitnessedSteps(joined, arrivals)

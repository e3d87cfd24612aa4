"""`StatedCase`: the case of an evaluation that a trace says it is of."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tallymark.traces.lenient_json import as_count, as_label, as_mapping

if TYPE_CHECKING:
    from tallymark.traces.trace import Trace

_MOST_EPOCHS = 1_000_000
"""What counts further counts something else."""


class StatedCase(NamedTuple):
    """A case, with what was asked there."""

    case: str
    epoch: int
    """From 0, as results count; sources count from 1."""
    model: str | None
    """The model or agent under test: its answers are a run of their own."""
    prompt: str | None
    """The name of the prompt, where the evaluation may have several."""


def read_case(trace: Trace) -> StatedCase | None:
    """The case in a trace's metadata; None where they do not have both `case` and `epoch`."""
    told = as_mapping(trace.metadata)
    if "case" not in told:
        return None
    case, epoch = as_label(told["case"]), as_count(told.get("epoch"))
    if case is None or epoch is None or epoch > _MOST_EPOCHS:
        return None
    model, prompt = as_label(told.get("model")), as_label(told.get("prompt_label"))
    return StatedCase(case, max(0, epoch - 1), model, prompt)

"""Limits of the server, readable before they are reached."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from tallymark.formula import Limits as FormulaLimits
from tallymark.service.callers import PUBLIC
from tallymark.service.limits import (
    AGENT_BYTES,
    AGENT_VALUES,
    BODIES,
    MOST_LINES,
    VALUES,
    Allowance,
)
from tallymark.service.operations import Resource, operation
from tallymark.store.contests.attempt_rows import AGENT_BYTES_A_DAY
from tallymark.store.traces.witness import MOST_BYTES as MOST_WITNESSED_BYTES
from tallymark.store.traces.witness import MOST_SPANS as MOST_WITNESSED
from tallymark.traces.span_limits import LIMITS


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of the server for the caller."""

    bodies: Annotated[dict[str, int], Meta(description="Bytes by the last part of an address.")]
    values: Annotated[dict[str, int], Meta(description="Values by the last part of an address.")]
    lines: Annotated[int, Meta(description="Lines of a bulk report.")]
    rates: list[Allowance]
    formula: dict[str, int]
    traces: dict[str, int]


class Limits(Resource):
    """Limits of the server."""

    @operation("GET /limits", PUBLIC)
    def get(self) -> ServerLimits:
        """Get the limits of the server, and what is left of the caller's rate limits."""
        formula = FormulaLimits()
        return ServerLimits(
            bodies=dict(BODIES),
            values=dict(VALUES),
            lines=MOST_LINES,
            rates=self.services.list_allowances(self.caller),
            formula={
                "characters": formula.characters,
                "levels": formula.levels,
                "nodes": formula.nodes,
            },
            traces=LIMITS._asdict()
            | {
                "spans_per_attempt": MOST_WITNESSED,
                "bytes_per_attempt": MOST_WITNESSED_BYTES,
                "bytes_per_agents_request": AGENT_BYTES,
                "values_per_agents_request": AGENT_VALUES,
                "bytes_per_agent_and_day": AGENT_BYTES_A_DAY,
            },
        )

"""What webhooks are told of runs: in the transaction in which one ends, and of gates that fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tallymark.store.quick_statements import QuickStatements

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from tallymark.runs.record import RunRecord
    from tallymark.store.webhooks.deliveries import Occurrence

_ACTIVE = "SELECT 1 FROM webhooks WHERE tenant = ? AND state = 'active' LIMIT 1"
_OVER = ("completed", "partial_failure", "failed", "cancelled")


def describe_run(record: RunRecord) -> dict[str, Any]:
    """What is told of a run."""
    names = ("id", "suite", "model", "status", "score", "score_low", "score_high", "score_error")
    counts = ("passed", "failed", "errors", "total", "started_at", "finished_at", "tags", "error")
    told = {name: getattr(record, name) for name in (*names, *counts)}
    return told | {"score_formula": record.score_formula, "group": record.group}


def announce_end(connection: Connection, tenant: str, record: RunRecord) -> int:
    """Tells of a run that has come to an end; to how many webhooks."""
    if record.status not in _OVER or not QuickStatements(connection).read(_ACTIVE, tenant):
        return 0
    from tallymark.store.webhooks.deliveries import (  # noqa: PLC0415 (most have no webhook)
        Occurrence,
        queue_deliveries,
    )

    at = record.finished_at or record.created_at
    ended = Occurrence(
        event="run.finished",
        occasion=f"{record.id} {record.status} {at}",
        at=at,
        data={"run": describe_run(record)},
        suite=record.suite,
    )
    return queue_deliveries(connection, tenant, [ended])


def tell_failed_gate(record: RunRecord, failures: Sequence[str], at: float) -> Occurrence:
    """Of a run that is not good enough for whoever asked."""
    from tallymark.store.webhooks.deliveries import Occurrence  # noqa: PLC0415 (as above)

    return Occurrence(
        event="gate.failed",
        occasion=f"{record.id} gate {at}",
        at=at,
        data={"run": describe_run(record), "failures": list(failures)},
        suite=record.suite,
    )

"""Runs: what they say of themselves, counted again from their results."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from tallymark.errors import TallymarkError
from tallymark.runs.record import RunRecord
from tallymark.runs.run import Run
from tallymark.runs.tally import Tally
from tallymark.store.case_results import stream_counted
from tallymark.store.runs import run_rows

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from tallymark.store.checks.findings import Findings

KIND = "runs"
_GOES_ON = ("queued", "running")
_COUNTS = ("passed", "failed", "errors")
_FIELDS = RunRecord.__struct_fields__


def check_runs(connection: Connection, tenant: str, findings: Findings) -> None:
    """Each run that has ended; one that goes on has not been summed up yet."""
    ids = select(run_rows.c.id).where(
        run_rows.c.tenant == tenant, run_rows.c.status.not_in(_GOES_ON)
    )
    for run_id in connection.scalars(ids.order_by(run_rows.c.id)).all():
        columns = [run_rows.c[name] for name in _FIELDS]
        mine = (run_rows.c.tenant == tenant, run_rows.c.id == run_id)
        values = connection.execute(select(*columns).where(*mine)).one()
        record = RunRecord(**dict(zip(_FIELDS, values, strict=True)))
        findings.note_checked(KIND)
        check_run(connection, tenant, record, findings)


def check_run(connection: Connection, tenant: str, record: RunRecord, findings: Findings) -> None:
    """What one run says of itself."""
    subject = f"run {record.id}"
    try:
        tally = Tally(stream_counted(connection, tenant, record.id))
    except TallymarkError as error:
        findings.add(KIND, tenant, subject, "results", str(error), "readable")
        return
    total = tally.all
    counts = (total.passed, total.ran - total.passed, tally.errors)
    stored = {name: getattr(record, name) for name in _COUNTS}
    findings.compare(KIND, tenant, subject, stored, dict(zip(_COUNTS, counts, strict=True)))
    if sum(counts) > record.total:
        findings.add(KIND, tenant, subject, "total", record.total, sum(counts))
    score = _score_again(record, tally)
    if score is None:
        findings.note_skipped("scores of runs that have none, or one of their suite's own")
        return
    findings.note_checked("scores of runs")
    if record.score is None or not math.isclose(score, record.score, rel_tol=1e-9, abs_tol=1e-12):
        findings.add(KIND, tenant, subject, "score", record.score, score)


def _score_again(record: RunRecord, tally: Tally) -> float | None:
    """What the formula gives; None where it gives nothing, and a suite may have a stand-in."""
    run = Run(record, (), tally)
    try:
        formula = run.tally.formula(record.score_formula, also=record.metrics)
    except TallymarkError:
        return None
    # What only the run knew, as measures of a whole suite, is taken as it was stored.
    values: dict[str, Any] = record.metrics | run.tally.metrics(formula.names)
    return run.tally.score(formula, values).score if values.keys() >= set(formula.names) else None

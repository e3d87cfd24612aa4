"""Runs, traces and rules, recomputed from results, spans and decisions."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from sqlalchemy import and_, exists, func, select

from tallymark.errors import TallymarkError
from tallymark.formula import Formula
from tallymark.runs.record import RunRecord
from tallymark.runs.run import Run
from tallymark.runs.tally import Tally
from tallymark.store.case_results import stream_counted
from tallymark.store.runs import run_rows
from tallymark.store.traces.rule_days import DECIDED, rule_day_rows
from tallymark.store.traces.rule_outcomes import TRACE_NUMBERS, trace_decisions
from tallymark.store.traces.rules import (
    FORMULA_NAMES,
    RuleDefinition,
    read_formula_values,
    rule_rows,
    rule_versions,
)
from tallymark.store.traces.segments import Segment, merge_segments
from tallymark.store.traces.trace_rows import (
    FACT_NAMES,
    label_rows,
    list_labels,
    trace_labels,
    trace_segments,
    trace_versions,
    traces,
    write_facts,
)
from tallymark.store.traces.trace_scores import trace_scores
from tallymark.traces.trace_facts import read_facts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Row, Select

    from tallymark.store.checks.findings import Findings


_RUNS = "runs"
_GOES_ON = ("queued", "running")
_COUNTS = ("passed", "failed", "errors")
_FIELDS = RunRecord.__struct_fields__


def check_runs(connection: Connection, tenant: str, findings: Findings) -> None:
    """Check each run that has ended; totals of the others are not stored yet."""
    ids = select(run_rows.c.id).where(
        run_rows.c.tenant == tenant, run_rows.c.status.not_in(_GOES_ON)
    )
    for run_id in connection.scalars(ids.order_by(run_rows.c.id)).all():
        columns = [run_rows.c[name] for name in _FIELDS]
        mine = (run_rows.c.tenant == tenant, run_rows.c.id == run_id)
        values = connection.execute(select(*columns).where(*mine)).one()
        record = RunRecord(**dict(zip(_FIELDS, values, strict=True)))
        findings.note_checked(_RUNS)
        check_run(connection, tenant, record, findings)


def check_run(connection: Connection, tenant: str, record: RunRecord, findings: Findings) -> None:
    """Check the totals and the score of one run."""
    subject = f"run {record.id}"
    try:
        tally = Tally(stream_counted(connection, tenant, record.id))
    except TallymarkError as error:
        findings.add(_RUNS, tenant, subject, "results", str(error), "readable")
        return
    total = tally.all
    counts = (total.passed, total.ran - total.passed, tally.errors)
    stored = {name: getattr(record, name) for name in _COUNTS}
    findings.compare(_RUNS, tenant, subject, stored, dict(zip(_COUNTS, counts, strict=True)))
    if sum(counts) > record.total:
        findings.add(_RUNS, tenant, subject, "total", record.total, sum(counts))
    score = _score_again(record, tally)
    if score is None:
        findings.note_skipped("scores of runs that have none, or one of their suite's own")
        return
    findings.note_checked("scores of runs")
    if record.score is None or not math.isclose(score, record.score, rel_tol=1e-9, abs_tol=1e-12):
        findings.add(_RUNS, tenant, subject, "score", record.score, score)


def _score_again(record: RunRecord, tally: Tally) -> float | None:
    """Value of the run's formula; None if it is undefined: the suite may have a substitute."""
    run = Run(record, (), tally)
    try:
        formula = run.tally.formula(record.score_formula, also=record.metrics)
    except TallymarkError:
        return None
    # Metrics that only the run knew, such as measures of a whole suite, are taken as stored.
    values: dict[str, Any] = record.metrics | run.tally.metrics(formula.names)
    return run.tally.score(formula, values).score if values.keys() >= set(formula.names) else None


_TRACES = "traces"
_PAGE = 200
_Decided: TypeAlias = tuple[int, str | None, str]
"""A rule, a day or None for all of them, and a decision."""
_read_ids = msgspec.json.Decoder(list[int]).decode


def check_traces(connection: Connection, tenant: str, findings: Findings) -> None:
    """Check each finalised trace."""
    query = select(traces).where(traces.c.tenant == tenant).order_by(traces.c.key).limit(_PAGE)
    last = 0
    while page := connection.execute(query.where(traces.c.key > last)).all():
        last = page[-1].key
        _check_page(connection, tenant, page, findings)


def _check_page(
    connection: Connection, tenant: str, page: Sequence[Row[Any]], findings: Findings
) -> None:
    keys = [row.key for row in page]
    named = _read_labels(connection, keys)
    query = select(trace_versions.c.trace, func.max(trace_versions.c.version))
    query = query.where(trace_versions.c.trace.in_(keys)).group_by(trace_versions.c.trace)
    versions = dict(connection.execute(query).all())
    for row in page:
        findings.note_checked(_TRACES)
        subject = f"trace {row.trace_id}"
        marks = named.get(row.key, {})
        stored: dict[str, Any] = {"version": row.version, "labels": sorted(_read_ids(row.labels))}
        should: dict[str, Any] = {"version": versions.get(row.key, 0), "labels": sorted(marks)}
        if row.due_at is None:
            facts, size, wanted = _read_spans(connection, row)
            stored |= {name: getattr(row, name) for name in FACT_NAMES} | {"bytes": row.bytes}
            should |= facts | {"bytes": size}
            stored["words"], should["words"] = sorted(marks.values()), wanted
        findings.compare(_TRACES, tenant, subject, stored, should)


def _read_labels(connection: Connection, keys: list[int]) -> dict[int, dict[int, tuple[str, str]]]:
    query = select(trace_labels.c.trace, label_rows.c.id, label_rows.c.kind, label_rows.c.value)
    query = query.join(label_rows, label_rows.c.id == trace_labels.c.label)
    found: dict[int, dict[int, tuple[str, str]]] = {}
    for trace, number, kind, value in connection.execute(
        query.where(trace_labels.c.trace.in_(keys))
    ):
        found.setdefault(trace, {})[number] = (kind, value)
    return found


def _read_spans(
    connection: Connection, row: Row[Any]
) -> tuple[dict[str, Any], int, list[tuple[str, str]]]:
    """Columns that follow from a trace's spans, their bytes, and its labels."""
    table = trace_segments.c
    query = select(table.number, table.version, table.format, table.body)
    found = connection.execute(query.where(table.trace == row.key).order_by(table.number))
    segments = [Segment(*each) for each in found]
    if not segments:
        return {"spans": 0}, 0, []
    facts = read_facts(merge_segments(segments).assemble())
    columns = dict(zip(FACT_NAMES, write_facts(facts, row.first_at), strict=True))
    size = sum(len(each.body) for each in segments)
    return columns, size, sorted(set(list_labels(facts)))


def check_rules(connection: Connection, tenant: str, findings: Findings) -> None:
    """Check that days counted all decisions, and that scored traces have scores."""
    query = select(rule_rows.c.id, rule_rows.c.name).where(rule_rows.c.tenant == tenant)
    names = dict(connection.execute(query).all())
    _check_days(connection, tenant, names, findings)
    _check_rule_scores(connection, tenant, names, findings)
    _check_formulas(connection, tenant, names, findings)


def _check_days(
    connection: Connection, tenant: str, names: dict[int, str], findings: Findings
) -> None:
    """Require that a rule's days counted at least the decisions that still exist.

    Decisions are deleted with their traces, and counts stay. A decision without a cap has no day,
    so all days together are compared too.
    """
    table = trace_decisions.c
    query = select(table.rule, table.day, table.decision, func.count())
    query = query.where(table.tenant == tenant, table.decision.in_(DECIDED))
    counted, decided = Counter[_Decided](), Counter[_Decided]()
    for row in connection.execute(select(rule_day_rows).where(rule_day_rows.c.tenant == tenant)):
        findings.note_checked("days of rules")
        for decision in DECIDED:
            for day in (row.day, None):
                counted[row.rule, day, decision] += getattr(row, decision)
    for rule, own_day, decision, count in connection.execute(
        query.group_by(table.rule, table.day, table.decision)
    ):
        for day in {own_day, None}:
            decided[rule, day, decision] += count
    for (rule, day, decision), count in decided.items():
        if counted[rule, day, decision] < count:
            subject = f"rule {names.get(rule, rule)} on {day or 'all days'}"
            stored = counted[rule, day, decision]
            findings.add("rules", tenant, subject, decision, stored, count)


def _check_rule_scores(
    connection: Connection, tenant: str, names: dict[int, str], findings: Findings
) -> None:
    """Require a score for each decision `scored`."""
    made, kept = trace_decisions.c, trace_scores.c
    given = exists().where(
        kept.trace == made.trace,
        kept.version == made.version,
        kept.rule_version == made.rule_version,
    )
    query = select(made.rule, func.count()).where(made.tenant == tenant, made.decision == "scored")
    for rule, lost in connection.execute(query.where(~given).group_by(made.rule)):
        subject = f"rule {names.get(rule, rule)}"
        findings.add("rules", tenant, subject, "scored traces without a score", lost, 0)


def _check_formulas(
    connection: Connection, tenant: str, names: dict[int, str], findings: Findings
) -> None:
    """Recompute scores by formula where the trace has no newer version."""
    found = rule_versions.c
    query = select(found.id, found.definition).where(found.tenant == tenant)
    for number, definition in connection.execute(query).all():
        said = msgspec.convert(definition, RuleDefinition)
        if said.formula is None:
            continue
        formula = Formula.parse(said.formula, names=FORMULA_NAMES)
        for row in connection.execute(_select_scored(number)):
            findings.note_checked("scores of rules")
            value = formula.evaluate(read_formula_values(row._asdict()))
            value = said.undefined if value is None else value
            if value != row.value:
                subject = f"trace {row.trace_id} by the rule {names.get(row.rule, row.rule)}"
                findings.add("rules", tenant, subject, "value", row.value, value)


def _select_scored(rule_version: int) -> Select[Any]:
    """Score that a rule gave itself: loaded ones have no decision."""
    made, kept = trace_decisions.c, trace_scores.c
    columns = (traces.c[name] for name in TRACE_NUMBERS)
    return (
        select(traces.c.trace_id, kept.rule, kept.value, *(each for each in columns))
        .join(trace_scores, and_(kept.trace == traces.c.key, kept.version == traces.c.version))
        .join(
            trace_decisions,
            and_(
                made.trace == kept.trace,
                made.version == kept.version,
                made.rule_version == kept.rule_version,
            ),
        )
        .where(kept.rule_version == rule_version, made.decision == "scored", kept.author == "")
    )

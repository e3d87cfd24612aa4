"""Rows that others refer to, who holds what (jobs and leases), and who is disqualified."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Integer, and_, exists, func, or_, select

from tallymark.store.contests.tables import contest_audit, disqualified
from tallymark.store.jobs import jobs
from tallymark.store.leases import leases
from tallymark.store.runs import KIND as RUN
from tallymark.store.runs import run_rows

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from tallymark.store.checks.findings import Findings

REFERENCES = (
    ("challenge_versions.challenge_id", "challenges.id"),
    ("attempts.challenge_id", "challenges.id"),
    ("attempts.version_id", "challenge_versions.id"),
    ("attempts.tenant+agent", "agents.tenant+handle"),
    ("attempt_scores.attempt", "attempts.key"),
    ("attempt_scores.scoring", "scorings.id"),
    ("attempt_details.attempt", "attempts.key"),
    ("attempt_waits.attempt", "attempts.key"),
    ("attempt_spans.attempt", "attempts.key"),
    ("score_history.attempt", "attempts.key"),
    ("score_history.scoring", "scorings.id"),
    ("contest_audit.attempt", "attempts.key"),
    ("idempotency.attempt", "attempts.key"),
    ("boards.challenge_id", "challenges.id"),
    ("boards.attempt", "attempts.key"),
    ("rating_pairs.challenge_id", "challenges.id"),
    ("versus_submissions.challenge_id", "challenges.id"),
    ("versus_verdicts.red", "versus_submissions.id"),
    ("versus_verdicts.blue", "versus_submissions.id"),
    ("case_results.tenant+run_id", "runs.tenant+id"),
    ("reviews.tenant+run_id", "runs.tenant+id"),
    ("trace_segments.trace", "traces.key"),
    ("trace_versions.trace", "traces.key"),
    ("trace_labels.trace", "traces.key"),
    ("trace_labels.label", "labels.id"),
    ("trace_scores.trace", "traces.key"),
    ("trace_decisions.trace", "traces.key"),
    ("rule_versions.rule", "rules.id"),
    ("rule_backfills.rule", "rules.id"),
    ("sessions.key_id", "access_keys.id"),
    ("webhooks.tenant+challenge", "challenges.tenant+name"),
    ("webhook_deliveries.tenant+webhook", "webhooks.tenant+id"),
    ("webhook_marks.challenge_id", "challenges.id"),
)
"""Columns whose values are those of another table, unless they are NULL or 0. Most are no foreign
keys, which would cost every writer a look."""
_SHOWN = 20


def check_references(connection: Connection, findings: Findings) -> None:
    """What is referred to is there."""
    from tallymark.store.all_tables import metadata  # noqa: PLC0415 (few commands need them)

    for child, parent in REFERENCES:
        (of, columns), (to, keys) = (each.split(".") for each in (child, parent))
        table = metadata.tables[of]
        other = metadata.tables[to].alias("referred")
        mine = [table.c[name] for name in columns.split("+")]
        theirs = [other.c[name] for name in keys.split("+")]
        same = and_(*(one == their for one, their in zip(mine, theirs, strict=True)))
        query = select(table.c.tenant, *mine).where(mine[-1].is_not(None), ~exists().where(same))
        if isinstance(mine[-1].type, Integer):
            query = query.where(mine[-1] != 0)  # of nothing in particular, as of what was loaded
        findings.note_checked("references")
        for tenant, *values in connection.execute(query.limit(_SHOWN)):
            shown = values[-1]
            findings.add("references", tenant, f"a row of {of}", columns, shown, f"a row of {to}")


def check_leases(connection: Connection, findings: Findings) -> None:
    """A job that runs is held by somebody, one that has ended says when; a lease is of something.

    A lease that has run out is no mistake: its process has died, and another may take it over. Nor
    is a run without one: versions before leases made those.
    """
    running = jobs.c.state == "running"
    held = and_(*(jobs.c[name].is_not(None) for name in ("token", "holder", "expires_at")))
    ended = jobs.c.state.in_(("done", "failed", "cancelled"))
    wrong = or_(
        and_(running, ~held),
        and_(ended, jobs.c.finished_at.is_(None)),
        and_(~ended, jobs.c.finished_at.is_not(None), jobs.c.state != "set_aside"),
    )
    query = select(jobs.c.tenant, jobs.c.id, jobs.c.state)
    count = select(func.count()).select_from(jobs)
    findings.note_checked("jobs", connection.execute(count).scalar_one())
    for tenant, job, state in connection.execute(query.where(wrong)):
        should = "held by a worker" if state == "running" else "ended with its time"
        findings.add("jobs", tenant, f"job {job}", "state", state, should)
    there = exists().where(run_rows.c.tenant == leases.c.tenant, run_rows.c.id == leases.c.subject)
    of_runs = leases.c.kind == RUN
    count = select(func.count()).select_from(leases).where(of_runs)
    findings.note_checked("leases", connection.execute(count).scalar_one())
    lost = select(leases.c.tenant, leases.c.subject).where(of_runs, ~there)
    for tenant, subject in connection.execute(lost):
        findings.add("leases", tenant, f"the lease of run {subject}", "run", "gone", "there")


def check_disqualifications(connection: Connection, tenant: str, findings: Findings) -> None:
    """Who is disqualified, by the last that the log says of each."""
    log = contest_audit.c
    query = select(log.event, log.note).where(log.tenant == tenant, log.challenge_id == 0)
    acts = query.where(log.event.in_(("disqualified", "reinstated"))).order_by(log.seq)
    last = {note["agent"]: event for event, note in connection.execute(acts)}
    should = {agent for agent, event in last.items() if event == "disqualified"}
    mine = disqualified.c.tenant == tenant
    stored = set(connection.scalars(select(disqualified.c.agent).where(mine)))
    findings.note_checked("disqualifications", len(stored))
    for agent in sorted(stored ^ should):
        told = (agent in stored, agent in should)
        findings.add("disqualifications", tenant, f"agent {agent}", "disqualified", *told)

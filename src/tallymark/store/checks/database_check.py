"""`check_database`: everything that is derived from the log, computed again; nothing is changed.

All of it is read in one snapshot, so a server may go on writing meanwhile.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import Integer, and_, exists, func, or_, select, union
from sqlalchemy.exc import NoResultFound

from tallymark.errors import InvalidInput
from tallymark.store.checks.attempt_checks import check_attempts, check_definition, check_scores
from tallymark.store.checks.board_checks import check_boards, check_ratings
from tallymark.store.checks.findings import Findings
from tallymark.store.checks.run_checks import check_rules, check_runs, check_traces
from tallymark.store.contests.challenges import list_challenges
from tallymark.store.contests.tables import challenges, contest_audit, disqualified, ratings
from tallymark.store.jobs import jobs
from tallymark.store.leases import leases
from tallymark.store.runs import KIND as RUN
from tallymark.store.runs import run_rows
from tallymark.store.traces.trace_rows import traces

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

    from tallymark.store.checks.attempt_checks import FindPlugin
    from tallymark.store.checks.findings import CheckReport, Findings
    from tallymark.store.contests.challenges import StoredChallenge
    from tallymark.store.database import Database


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
    """Check that referenced rows exist."""
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
    """Check that running jobs are held, ended ones have a time, and leases have a subject.

    A lease that has run out is no error: its process has died, and another may take it over.
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
    """Compare disqualified agents with the last log entry about each."""
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


_OF_TENANTS = (
    *(check_ratings, check_disqualifications),
    *(check_runs, check_traces, check_rules),
)


def check_database(database: Database, find_plugin: FindPlugin | None = None) -> CheckReport:
    """Find differences in the data of all tenants; scores by plugins only with `find_plugin`."""
    findings = Findings()
    with database.long_snapshot() as snapshot:
        connection = snapshot.connection
        for tenant in _list_tenants(connection):
            with _read_all(findings, tenant, "challenges"):
                for kept in list_challenges(connection, tenant):
                    _check_challenge(connection, kept, findings, find_plugin)
            for check in _OF_TENANTS:
                with _read_all(findings, tenant, check.__name__.removeprefix("check_")):
                    check(connection, tenant, findings)
        check_references(connection, findings)
        check_leases(connection, findings)
    return findings.report()


def _check_challenge(
    connection: Connection,
    kept: StoredChallenge,
    findings: Findings,
    find_plugin: FindPlugin | None,
) -> None:
    """Run each check on its own: a row that one cannot read need not concern the others."""
    name = kept.challenge.name
    with _read_all(findings, kept.tenant, f"versions of {name}"):
        check_definition(connection, kept, findings)
    with _read_all(findings, kept.tenant, f"attempts at {name}"):
        check_attempts(connection, kept, findings)
    with _read_all(findings, kept.tenant, f"scores at {name}"):
        check_scores(connection, kept, findings, find_plugin)
    with _read_all(findings, kept.tenant, f"the board of {name}"):
        check_boards(connection, kept, findings)


# Unknown words raise InvalidInput, dangling references NoResultFound. WorkFailed is not among them:
# it is about a database or a sandbox that does not answer, not about a row.
_UNREADABLE = (
    *(msgspec.MsgspecError, zstd.ZstdError, InvalidInput, NoResultFound),
    *(ArithmeticError, LookupError, TypeError, ValueError),
)


@contextmanager
def _read_all(findings: Findings, tenant: str, subject: str) -> Iterator[None]:
    """Report unreadable rows as differences, and end only the check that met them."""
    try:
        yield
    except _UNREADABLE as error:
        findings.add("content", tenant, subject, "a row", f"unreadable ({error})", "readable")


def _list_tenants(connection: Connection) -> list[str]:
    """All tenants with data, registered or not."""
    query = union(*(select(table.c.tenant) for table in (challenges, ratings, run_rows, traces)))
    return sorted(connection.scalars(query))

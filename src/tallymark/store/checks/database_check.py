"""`check_database`: everything that is kept beside the log, computed again; nothing is changed.

All of it is read in one snapshot, so that a server may go on writing meanwhile.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import select, union
from sqlalchemy.exc import NoResultFound

from tallymark.errors import InvalidInput
from tallymark.store.checks.attempt_checks import check_attempts, check_scores
from tallymark.store.checks.board_checks import check_boards, check_ratings
from tallymark.store.checks.definition_checks import check_definition
from tallymark.store.checks.findings import Findings
from tallymark.store.checks.row_checks import (
    check_disqualifications,
    check_leases,
    check_references,
)
from tallymark.store.checks.run_checks import check_runs
from tallymark.store.checks.trace_checks import check_rules, check_traces
from tallymark.store.contests.challenges import list_challenges
from tallymark.store.contests.tables import challenges, ratings
from tallymark.store.runs import run_rows
from tallymark.store.traces.trace_tables import traces

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

    from tallymark.store.checks.attempt_checks import FindPlugin
    from tallymark.store.checks.findings import CheckReport
    from tallymark.store.contests.challenges import StoredChallenge
    from tallymark.store.database import Database


_OF_TENANTS = (
    *(check_ratings, check_disqualifications),
    *(check_runs, check_traces, check_rules),
)


def check_database(database: Database, find_plugin: FindPlugin | None = None) -> CheckReport:
    """What is not as it should be, of all tenants; scores by plugins only with `find_plugin`."""
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
    """Each check by itself: a row that one cannot read says nothing of what the others read."""
    name = kept.challenge.name
    with _read_all(findings, kept.tenant, f"versions of {name}"):
        check_definition(connection, kept, findings)
    with _read_all(findings, kept.tenant, f"attempts at {name}"):
        check_attempts(connection, kept, findings)
    with _read_all(findings, kept.tenant, f"scores at {name}"):
        check_scores(connection, kept, findings, find_plugin)
    with _read_all(findings, kept.tenant, f"the board of {name}"):
        check_boards(connection, kept, findings)


# A word that is none of ours is InvalidInput, and what refers to nothing has no result. WorkFailed
# is not among them: that is no row, but a database or a sandbox that does not answer.
_UNREADABLE = (
    *(msgspec.MsgspecError, zstd.ZstdError, InvalidInput, NoResultFound),
    *(ArithmeticError, LookupError, TypeError, ValueError),
)


@contextmanager
def _read_all(findings: Findings, tenant: str, subject: str) -> Iterator[None]:
    """What cannot be read at all is a difference too, and ends only what it is in."""
    try:
        yield
    except _UNREADABLE as error:
        findings.add("content", tenant, subject, "a row", f"unreadable ({error})", "readable")


def _list_tenants(connection: Connection) -> list[str]:
    """All that have anything: a store need not have been told of them."""
    query = union(*(select(table.c.tenant) for table in (challenges, ratings, run_rows, traces)))
    return sorted(connection.scalars(query))

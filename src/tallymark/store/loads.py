"""What files hold, put into the store: all of a file, or nothing of it.

Rows come as something that can be passed again: after a lost connection the work is done anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace
from sqlalchemy import insert, select

from tallymark.errors import Conflict, InvalidInput
from tallymark.runs.record import SENT_TAG
from tallymark.store.contests.agents import register_agents
from tallymark.store.database import TenantRows
from tallymark.store.quick_statements import QuickStatements
from tallymark.store.reviews.review_tables import reviews
from tallymark.store.reviews.reviews import Reviews
from tallymark.store.row_numbers import take_number
from tallymark.store.runs import result_rows, run_rows
from tallymark.store.traces.rule_days import lock_rule
from tallymark.store.traces.trace_scores import write_scores
from tallymark.text import clean_line

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from tallymark.challenges.attempt import Attempt
    from tallymark.runs.record import CaseResult, RunRecord
    from tallymark.runs.reviews import Review
    from tallymark.store.database import Database
    from tallymark.store.traces.trace_scores import StoredScore

_AT_ONCE = 500
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}").fullmatch
_GOES_ON = ("queued", "running", "interrupted")


class LoadedRuns(NamedTuple):
    """What came of runs in a file."""

    runs: int
    results: int
    known: int
    """Runs that were there already."""
    untold: int = 0
    """Runs of which a file had nothing but results."""


class Loads(TenantRows):
    """What `store.loads` is."""

    def __init__(self, database: Database, tenant: str) -> None:
        super().__init__(database, tenant)
        self._reviews = Reviews(database, tenant)

    def attempts(self, name: str, given: Iterable[Attempt], agents: set[str], *, at: float) -> int:
        """Attempts that ended as they were, with their numbers and versions; how many were new.

        They are no matches: in which order an agent's ended, at which challenges, a file of one
        challenge does not tell.
        """
        from tallymark.store.contests.bulk_load import BulkLoad  # noqa: PLC0415 (formulas)

        def work(connection: Connection) -> int:
            register_agents(connection, self._tenant, agents, at)
            load = BulkLoad(connection, self._tenant, name, at, as_they_were=True)
            load.load(given, rated=False)
            return load.loaded

        return self._database.write(work)

    def runs(
        self, records: Sequence[RunRecord], given: Iterable[tuple[str, CaseResult]]
    ) -> LoadedRuns:
        """Runs with their results, marked as sent: nothing that they name is run here.

        What a run says of itself must be what its results come to.
        """
        kept = {each.id: _mark_sent(each) for each in records}

        def work(connection: Connection) -> LoadedRuns:
            new = {each.id for each in kept.values() if self._add_run(connection, each)}
            count = 0
            for run, results in groupby(given, key=itemgetter(0)):
                if run not in kept:
                    raise InvalidInput(f"there are results of a run {run!r} that the file lacks")
                while some := [result for _, result in islice(results, _AT_ONCE)]:
                    if run in new:
                        result_rows.add_results(connection, self._tenant, run, some)
                        count += len(some)
            for run in new:
                self._check_run(connection, kept[run])
            return LoadedRuns(len(new), count, len(kept) - len(new))

        return self._database.write(work)

    def _add_run(self, connection: Connection, record: RunRecord) -> bool:
        """Whether it is new; another of the same id is in the way."""
        if not _ID(record.id) or record.id == "latest":
            raise InvalidInput(f"{clean_line(record.id, 40)!r} is no id of a run")
        there = run_rows.read_run(connection, self._tenant, record.id)
        if there is None:
            run_rows.create(connection, self._tenant, record)
        elif not _are_same(there, record):
            raise Conflict(f"there is already another run {record.id!r}")
        return there is None

    def _check_run(self, connection: Connection, record: RunRecord) -> None:
        from tallymark.store.checks.findings import Findings  # noqa: PLC0415 (operators' else)
        from tallymark.store.checks.run_checks import check_run  # noqa: PLC0415

        if record.status in _GOES_ON:
            return
        findings = Findings()
        check_run(connection, self._tenant, record, findings)
        for each in findings.report().differences:
            raise InvalidInput(f"{each} by its results", hint="load it as it was exported")

    def scores(self, of_traces: Sequence[StoredScore], of_cases: Sequence[Review]) -> int:
        """Scores of traces and of cases that are there; how many were new."""

        def work(connection: Connection) -> int:
            statements = QuickStatements(connection)
            # Whoever scores by a rule looks first at what is there, and nothing comes meanwhile.
            for rule in sorted({each.rule for each in of_traces}):
                lock_rule(statements, rule)
            written = write_scores(statements, self._tenant, of_traces)
            for each in of_cases:
                written += self._add_review(connection, each)
            return written

        return self._database.write(work)

    def _add_review(self, connection: Connection, review: Review) -> int:
        self._reviews.require_case(connection, review.key)
        row = msgspec.structs.asdict(review) | {"tenant": self._tenant}
        row["run_id"], row["case_name"] = row.pop("run"), row.pop("case")
        del row["is_new"]
        names = ("tenant", "run_id", "case_name", "epoch", "name", "author")
        mine = [reviews.c[name] == row[name] for name in names]
        query = select(reviews.c.created_at, reviews.c.value, reviews.c.label)
        found = connection.execute(query.where(*mine, reviews.c.withdrawn_at.is_(None))).all()
        if any(abs(each.created_at - review.created_at) < 1e-6 for each in found):
            return 0
        if found and review.value is not None:
            raise Conflict(
                f"{review.author!r} has scored {review.name!r} of {review.case!r} otherwise here"
            )
        row["id"] = take_number(connection, reviews.name, self._tenant)
        connection.execute(insert(reviews).values(row))
        return 1


def _mark_sent(record: RunRecord) -> RunRecord:
    status = "running" if record.status in _GOES_ON else record.status
    return replace(record, status=status, tags={**record.tags, SENT_TAG: True})


def _are_same(there: RunRecord, record: RunRecord) -> bool:
    """What makes a run the one it is; labels may have changed since."""
    names = ("suite", "model", "definition_hash", "score_formula", "passed", "failed", "errors")
    return all(getattr(there, name) == getattr(record, name) for name in names)

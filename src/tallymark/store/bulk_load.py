"""Bulk loads: attempts, runs and scores that were made elsewhere, stored in one transaction.

A file is loaded whole or not at all. Rows come as something that can be iterated again: after a
lost connection the work is repeated.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace
from sqlalchemy import func, insert, literal, select, text

from tallymark.errors import Conflict, InvalidInput
from tallymark.runs.record import SENT_TAG
from tallymark.store import case_results, runs
from tallymark.store.contests import attempt_rows, audit_log, board_rows, matches
from tallymark.store.contests.agents import register_agents
from tallymark.store.contests.audit_log import SYSTEM, AuditEntry
from tallymark.store.contests.challenges import find_challenge, find_version_id
from tallymark.store.contests.tables import (
    attempt_details,
    attempt_scores,
    attempts,
    boards,
    score_history,
)
from tallymark.store.database import TenantRows
from tallymark.store.dialects import enlarge_cache, insert_columns, insert_many, json_text
from tallymark.store.quick_statements import QuickStatements
from tallymark.store.reviews import Reviews, review_rows
from tallymark.store.row_numbers import take_number, take_numbers
from tallymark.store.traces.rule_days import lock_rule
from tallymark.store.traces.trace_scores import write_scores
from tallymark.text import clean_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sqlalchemy import Connection

    from tallymark.challenges.attempt import Attempt, Outcome, State
    from tallymark.runs.record import CaseResult, RunRecord
    from tallymark.runs.reviews import Review
    from tallymark.store.database import Database
    from tallymark.store.traces.trace_scores import StoredScore


_CHUNK = 200_000
"""Sorted by agent, as SQLite clusters their scores: larger chunks insert fewer rows in between."""
ENDED_UNSCORED = ("expired", "withdrawn")
_SAME = 1e-6
"""Seconds: the precision of times in files."""


class BulkLoad:
    """One load: attempts of one challenge, in the order in which they were made.

    With `as_they_were` they retain their numbers and versions, and attempts already stored are
    skipped.
    """

    def __init__(
        self,
        connection: Connection,
        tenant: str,
        name: str,
        at: float,
        *,
        as_they_were: bool = False,
    ) -> None:
        self.connection = connection
        self.at = at
        self.loaded = 0
        self.kept = find_challenge(connection, tenant, name, lock=True)
        self._version = find_version_id(connection, self.kept, self.kept.challenge.version)
        self._numbers = self._count_attempts()
        self._scorings: dict[str | None, int] = {}
        self._versions = {self.kept.challenge.version: self._version}
        self._known = self._read_known() if as_they_were else None

    def load(self, given: Iterable[Attempt], *, rated: bool) -> None:
        """Store all attempts, then history, board and, if `rated`, matches and ratings."""
        board_rows.freeze_if_due(self.connection, self.kept, self.at)
        agents: set[str] = set()
        left = iter(given)
        with enlarge_cache(self.connection):
            while chunk := list(islice(left, _CHUNK)):
                agents.update(each.agent for each in chunk)
                self._insert_chunk(self._leave_out_known(chunk), rated)
            if self._known is not None:
                self._check_numbers()
            self._remember_scores()
            board_rows.rebuild(self.connection, self.kept)
        if rated:
            matches.fold_agents(self.connection, self.kept.tenant, agents)
        if self.connection.dialect.name == "postgresql":
            # Until it has counted, it plans as if the tables were still empty.
            tables = (attempts, attempt_scores, boards)
            self.connection.execute(text(f"ANALYZE {', '.join(each.name for each in tables)}"))
        entry = AuditEntry(at=self.at, actor=SYSTEM, event="loaded", note={"attempts": self.loaded})
        audit_log.write_entry(self.connection, self.kept.tenant, self.kept.id, None, entry)

    def _read_known(self) -> dict[tuple[str, int], float | None]:
        """When each attempt that is there was submitted, by its agent and number."""
        query = select(attempts.c.agent, attempts.c.number, attempts.c.submitted_at)
        mine = attempts.c.challenge_id == self.kept.id
        return {
            (agent, number): at for agent, number, at in self.connection.execute(query.where(mine))
        }

    def _leave_out_known(self, chunk: list[Attempt]) -> list[Attempt]:
        if self._known is None:
            return chunk
        new = []
        for each in chunk:
            key = (each.agent, each.number)
            if key not in self._known:
                self._known[key] = each.submitted_at
                new.append(each)
            elif abs((self._known[key] or 0.0) - (each.submitted_at or 0.0)) > _SAME:
                raise Conflict(
                    f"{each.agent!r} has made another attempt {each.number} here",
                    hint="load them into a challenge without attempts",
                )
        return new

    def _check_numbers(self) -> None:
        """Require that an agent's attempts count from 1 without gaps, as in their source."""
        most = func.max(attempts.c.number)
        query = select(attempts.c.agent).where(attempts.c.challenge_id == self.kept.id)
        gaps = query.group_by(attempts.c.agent).having(most != func.count()).limit(1)
        for agent in self.connection.scalars(gaps):
            raise InvalidInput(
                f"some attempts of {agent!r} are missing: its numbers have gaps",
                hint="load all that ended, as tally export writes them",
            )

    def _find_version(self, version: str) -> int:
        found = self._versions.get(version)
        if found is None:
            found = find_version_id(self.connection, self.kept, version)
            self._versions[version] = found
        return found

    def _count_attempts(self) -> dict[str, int]:
        """Number of attempts that each agent has made already."""
        query = select(attempts.c.agent, func.max(attempts.c.number))
        mine = attempts.c.challenge_id == self.kept.id
        return dict(self.connection.execute(query.where(mine).group_by(attempts.c.agent)).all())

    def _insert_chunk(self, chunk: Sequence[Attempt], rated: bool) -> None:
        """Insert column by column, which takes half as long as row by row."""
        keys = list(take_numbers(self.connection, "attempts", self.kept.tenant, len(chunk)))
        outcomes = [self._find_outcome(each) for each in chunk]
        numbers = self._find_numbers(chunk)
        insert_columns(
            self.connection, attempts, self._make_attempts(keys, numbers, chunk, outcomes, rated)
        )
        for key, attempt in zip(keys, chunk, strict=True):
            if attempt.voided_at is not None:
                self._log_void(key)
        self._insert_scores(keys, numbers, chunk, outcomes)
        self.loaded += len(chunk)

    def _find_outcome(self, attempt: Attempt) -> Outcome | None:
        """Outcome of an attempt; None if it ended without one and is loaded as it was."""
        if attempt.outcome is None and self._known is not None and attempt.state in ENDED_UNSCORED:
            return None
        return _require_outcome(attempt)

    def _log_void(self, key: int) -> None:
        entry = audit_log.make_act("voided", "it was void where it came from", self.at)
        audit_log.write_entry(self.connection, self.kept.tenant, self.kept.id, key, entry)

    def _find_numbers(self, chunk: Sequence[Attempt]) -> list[int]:
        """Continue each agent's numbers, or take the given ones."""
        if self._known is not None:
            return [each.number for each in chunk]
        numbers = []
        for each in chunk:
            number = self._numbers[each.agent] = self._numbers.get(each.agent, 0) + 1
            numbers.append(number)
        return numbers

    def _make_attempts(
        self,
        keys: list[int],
        numbers: list[int],
        chunk: Sequence[Attempt],
        outcomes: Sequence[Outcome | None],
        rated: bool,
    ) -> dict[str, Sequence[Any]]:
        """The columns of `attempts`."""
        count = len(chunk)
        if self._known is None:
            versions = [self._version] * count
        else:
            versions = [self._find_version(each.version) for each in chunk]
        return {
            "key": keys,
            "tenant": [self.kept.tenant] * count,
            "challenge_id": [self.kept.id] * count,
            "version_id": versions,
            "agent": [each.agent for each in chunk],
            "number": numbers,
            "state": [
                each.state if of is None else _name_state(of)
                for each, of in zip(chunk, outcomes, strict=True)
            ],
            "seed": [each.seed for each in chunk],
            "entered_at": [each.entered_at for each in chunk],
            "expires_at": [each.expires_at for each in chunk],
            "submitted_at": [each.submitted_at for each in chunk],
            "scored_at": [
                self.at if of and each.scored_at is None else each.scored_at
                for each, of in zip(chunk, outcomes, strict=True)
            ],
            "verified": [each.verified for each in chunk],
            "memoryless": [each.memoryless for each in chunk],
            "trajectory_level": ["none" if of is None else of.trajectory_level for of in outcomes],
            "voided_at": [each.voided_at for each in chunk],
            "match_at": [each.submitted_at if rated else None for each in chunk],
        }

    def _insert_scores(
        self,
        keys: list[int],
        numbers: list[int],
        chunk: Sequence[Attempt],
        outcomes: Sequence[Outcome | None],
    ) -> None:
        scored = [nth for nth, outcome in enumerate(outcomes) if outcome is not None]
        if not scored:
            return
        found = [outcome for outcome in outcomes if outcome is not None]
        facts: dict[str, Sequence[Any]] = {
            "challenge_id": [self.kept.id] * len(scored),
            "agent": [chunk[nth].agent for nth in scored],
            "attempt": [keys[nth] for nth in scored],
            "tenant": [self.kept.tenant] * len(scored),
            "scoring": [self._find_scoring(each) for each in found],
            "submitted_at": [chunk[nth].submitted_at for nth in scored],
            "number": [numbers[nth] for nth in scored],
        }
        values = zip(*map(attempt_rows.list_values, found), strict=True)
        columns = facts | dict(zip(attempt_rows.VALUE_NAMES, values, strict=True))
        if self._known is None:  # as scoring here would complete it
            columns["created_at"] = [
                math.floor(chunk[nth].entered_at * 1000) if at is None else at
                for nth, at in zip(scored, columns["created_at"], strict=True)
            ]
        # In the order in which SQLite clusters them
        insert_columns(self.connection, attempt_scores, columns, ordered_by="agent")
        details = [
            (keys[nth], self.kept.tenant, json_text(each.details))
            for nth, each in zip(scored, found, strict=True)
            if each.details
        ]
        if details:
            names = ("attempt", "tenant", "details")
            insert_many(self.connection, attempt_details, names, details)

    def _find_scoring(self, outcome: Outcome) -> int:
        origin = attempt_rows.origin_text(outcome)
        if origin not in self._scorings:
            self._scorings[origin] = attempt_rows.add_scoring(
                self.connection, self.kept, "load", origin, self.at
            )
        return self._scorings[origin]

    def _remember_scores(self) -> None:
        names = ("scoring", "agent", "attempt", "tenant", "score", "result", "error")
        for scoring in self._scorings.values():
            query = select(*(attempt_scores.c[name] for name in names), literal(self.at))
            mine = (
                attempt_scores.c.challenge_id == self.kept.id,
                attempt_scores.c.scoring == scoring,
            )
            statement = insert(score_history).from_select((*names, "at"), query.where(*mine))
            self.connection.execute(statement)


def _name_state(outcome: Outcome) -> State:
    return "scored" if outcome.error is None else "failed"


def _require_outcome(attempt: Attempt) -> Outcome:
    if attempt.outcome is None or attempt.submitted_at is None:
        raise InvalidInput(
            f"attempt {attempt.id!r} of {attempt.agent!r} was never scored",
            hint="load scored attempts only",
        )
    return attempt.outcome


_AT_ONCE = 500
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}").fullmatch
_GOES_ON = ("queued", "running", "interrupted")


class LoadedRuns(NamedTuple):
    """Result of loading runs from a file."""

    runs: int
    results: int
    known: int
    """Runs that were there already."""
    untold: int = 0
    """Runs of which a file had nothing but results."""


class Loads(TenantRows):
    """Loads of whole files."""

    def __init__(self, database: Database, tenant: str) -> None:
        super().__init__(database, tenant)
        self._reviews = Reviews(database, tenant)

    def attempts(self, name: str, given: Iterable[Attempt], agents: set[str], *, at: float) -> int:
        """Load ended attempts as they were, with their numbers and versions; return how many were
        new.

        They are no matches: a file of one challenge does not have the order in which an agent's
        attempts ended at all challenges.
        """

        def work(connection: Connection) -> int:
            register_agents(connection, self._tenant, agents, at)
            load = BulkLoad(connection, self._tenant, name, at, as_they_were=True)
            load.load(given, rated=False)
            return load.loaded

        return self._database.write(work)

    def runs(
        self, records: Sequence[RunRecord], given: Iterable[tuple[str, CaseResult]]
    ) -> LoadedRuns:
        """Load runs with their results, marked as sent: nothing that they name is run here.

        The totals of a run must follow from its results.
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
                        case_results.add_results(connection, self._tenant, run, some)
                        count += len(some)
            for run in new:
                self._check_run(connection, kept[run])
            return LoadedRuns(len(new), count, len(kept) - len(new))

        return self._database.write(work)

    def _add_run(self, connection: Connection, record: RunRecord) -> bool:
        """Store a run; False if it is already stored, Conflict if another has its id."""
        if not _ID(record.id) or record.id == "latest":
            raise InvalidInput(f"{clean_line(record.id, 40)!r} is no id of a run")
        there = runs.read_run(connection, self._tenant, record.id)
        if there is None:
            runs.create_run(connection, self._tenant, record)
        elif not _are_same(there, record):
            raise Conflict(f"there is already another run {record.id!r}")
        return there is None

    def _check_run(self, connection: Connection, record: RunRecord) -> None:
        from tallymark.store.checks.findings import Findings  # noqa: PLC0415 (traces load too)
        from tallymark.store.checks.run_checks import check_run  # noqa: PLC0415

        if record.status in _GOES_ON:
            return
        findings = Findings()
        check_run(connection, self._tenant, record, findings)
        for each in findings.report().differences:
            raise InvalidInput(f"{each} by its results", hint="load it as it was exported")

    def scores(self, of_traces: Sequence[StoredScore], of_cases: Sequence[Review]) -> int:
        """Load scores of stored traces and cases; return how many were new."""

        def work(connection: Connection) -> int:
            statements = QuickStatements(connection)
            # Workers that score by a rule look first at existing scores; the lock keeps new ones
            # out.
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
        mine = [review_rows.c[name] == row[name] for name in names]
        query = select(review_rows.c.created_at, review_rows.c.value, review_rows.c.label)
        found = connection.execute(query.where(*mine, review_rows.c.withdrawn_at.is_(None))).all()
        if any(abs(each.created_at - review.created_at) < 1e-6 for each in found):
            return 0
        if found and review.value is not None:
            raise Conflict(
                f"{review.author!r} has scored {review.name!r} of {review.case!r} otherwise here"
            )
        row["id"] = take_number(connection, review_rows.name, self._tenant)
        connection.execute(insert(review_rows).values(row))
        return 1


def _mark_sent(record: RunRecord) -> RunRecord:
    status = "running" if record.status in _GOES_ON else record.status
    return replace(record, status=status, tags={**record.tags, SENT_TAG: True})


def _are_same(there: RunRecord, record: RunRecord) -> bool:
    """Compare what identifies a run; labels may have changed since."""
    names = ("suite", "model", "definition_hash", "score_formula", "passed", "failed", "errors")
    return all(getattr(there, name) == getattr(record, name) for name in names)

"""Loading attempts that were scored elsewhere, by the million, with the board made at the end."""

from __future__ import annotations

import math
from collections import Counter
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, insert, literal, select, text

from tallymark.errors import Conflict, InvalidInput
from tallymark.store.column_types import json_text
from tallymark.store.contests import audit_log, matches, score_rows, whole_boards
from tallymark.store.contests.attempt_tables import (
    attempt_details,
    attempt_scores,
    attempts,
    score_history,
)
from tallymark.store.contests.audit_log import SYSTEM, AuditEntry
from tallymark.store.contests.challenges import find_challenge, find_version_id
from tallymark.store.contests.contest_tables import board_blocks, boards
from tallymark.store.database_dialects import enlarge_cache, insert_many

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import Connection

    from tallymark.challenges.attempt import Attempt, Outcome, State

_CHUNK = 200_000
"""Sorted by agent, as SQLite keeps their scores: the more together, the fewer come between."""
ENDED_UNSCORED = ("expired", "withdrawn")
_SAME = 1e-6
"""Seconds: as far as files tell times."""


class BulkLoad:
    """One load: attempts of one challenge, in the order in which they were made.

    With `as_they_were` they keep numbers and versions; what is there already is passed over.
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
        self._numbers = Counter(self._count_attempts())
        self._scorings: dict[str | None, int] = {}
        self._versions = {self.kept.challenge.version: self._version}
        self._known = self._read_known() if as_they_were else None

    def load(self, given: Iterable[Attempt], *, rated: bool) -> None:
        """Stores all, then history, board and, if asked for, matches and ratings from them."""
        whole_boards.freeze_if_due(self.connection, self.kept, self.at)
        agents: set[str] = set()
        left = iter(given)
        with enlarge_cache(self.connection):
            while chunk := list(islice(left, _CHUNK)):
                agents.update(each.agent for each in chunk)
                self._insert_chunk(self._leave_out_known(chunk), rated)
            if self._known is not None:
                self._check_numbers()
            self._remember_scores()
            whole_boards.rebuild(self.connection, self.kept)
        if rated:
            matches.fold_agents(self.connection, self.kept.tenant, agents)
        if self.connection.dialect.name == "postgresql":
            # Until it has counted, it plans as if the tables were still empty.
            tables = (attempts, attempt_scores, boards, board_blocks)
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
                    hint="load them into a challenge that nobody has tried",
                )
        return new

    def _check_numbers(self) -> None:
        """An agent's attempts are counted from 1 on, as they were where they came from."""
        most = func.max(attempts.c.number)
        query = select(attempts.c.agent).where(attempts.c.challenge_id == self.kept.id)
        gaps = query.group_by(attempts.c.agent).having(most != func.count()).limit(1)
        for agent in self.connection.scalars(gaps):
            raise InvalidInput(
                f"some attempts of {agent!r} are missing: its numbers have gaps",
                hint="load all that ended, as tally export writes them",
            )

    def _find_version(self, attempt: Attempt) -> int:
        if self._known is None:
            return self._version
        found = self._versions.get(attempt.version)
        if found is None:
            found = find_version_id(self.connection, self.kept, attempt.version)
            self._versions[attempt.version] = found
        return found

    def _count_attempts(self) -> dict[str, int]:
        """How many attempts each agent has made already."""
        query = select(attempts.c.agent, func.max(attempts.c.number))
        mine = attempts.c.challenge_id == self.kept.id
        return dict(self.connection.execute(query.where(mine).group_by(attempts.c.agent)).all())

    def _insert_chunk(self, chunk: Sequence[Attempt], rated: bool) -> None:
        rows: list[dict[str, Any]] = []
        scores: list[dict[str, Any]] = []
        details: list[dict[str, Any]] = []
        for key, attempt in zip(self._reserve_keys(len(chunk)), chunk, strict=True):
            outcome = attempt.outcome
            if outcome is None and (self._known is None or attempt.state not in ENDED_UNSCORED):
                outcome = _require_outcome(attempt)
            row = self._make_attempt_row(key, attempt, outcome)
            row["match_at"] = attempt.submitted_at if rated else None
            rows.append(row)
            if attempt.voided_at is not None:
                self._log_void(key)
            if outcome is None:
                continue
            scores.append(self._make_score_row(row, outcome))
            if outcome.details:
                detail = {"attempt": key, "tenant": self.kept.tenant}
                details.append(detail | {"details": json_text(outcome.details)})
        scores.sort(key=itemgetter("agent"))  # as SQLite keeps them
        for table, each in ((attempts, rows), (attempt_scores, scores), (attempt_details, details)):
            if each:
                values = (tuple(row.values()) for row in each)
                insert_many(self.connection, table, tuple(each[0]), values)

    def _log_void(self, key: int) -> None:
        entry = audit_log.make_act("voided", "it was void where it came from", self.at)
        audit_log.write_entry(self.connection, self.kept.tenant, self.kept.id, key, entry)

    def _make_attempt_row(
        self, key: int, attempt: Attempt, outcome: Outcome | None
    ) -> dict[str, Any]:
        if self._known is None:
            self._numbers[attempt.agent] += 1
            number = self._numbers[attempt.agent]
        else:
            number = attempt.number
        self.loaded += 1
        return {
            "key": key,
            "tenant": self.kept.tenant,
            "challenge_id": self.kept.id,
            "version_id": self._find_version(attempt),
            "agent": attempt.agent,
            "number": number,
            "state": attempt.state if outcome is None else _name_state(outcome),
            "seed": attempt.seed,
            "entered_at": attempt.entered_at,
            "expires_at": attempt.expires_at,
            "submitted_at": attempt.submitted_at,
            "scored_at": self.at if outcome and attempt.scored_at is None else attempt.scored_at,
            "verified": attempt.verified,
            "memoryless": attempt.memoryless,
            "trajectory_level": "none" if outcome is None else outcome.trajectory_level,
            "voided_at": attempt.voided_at,
        }

    def _make_score_row(self, row: dict[str, Any], outcome: Outcome) -> dict[str, Any]:
        origin = score_rows.origin_text(outcome)
        if origin not in self._scorings:
            self._scorings[origin] = score_rows.add_scoring(
                self.connection, self.kept, "load", origin, self.at
            )
        made = score_rows.score_row(
            outcome,
            challenge_id=self.kept.id,
            agent=row["agent"],
            attempt=row["key"],
            tenant=self.kept.tenant,
            scoring=self._scorings[origin],
            submitted_at=row["submitted_at"],
            number=row["number"],
        )
        if made["created_at"] is None:  # as scoring here would complete it
            made["created_at"] = math.floor(row["entered_at"] * 1000)
        return made

    def _reserve_keys(self, count: int) -> Iterator[int]:
        """So many keys that nobody else gets."""
        if self.connection.dialect.name == "postgresql":
            sequence = "pg_get_serial_sequence('attempts', 'key')"
            query = text(f"SELECT nextval({sequence}) FROM generate_series(1, :count)")  # noqa: S608
            return iter(self.connection.scalars(query, {"count": count}).all())
        query = text("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'attempts'")
        # The transaction has SQLite's only write lock. AUTOINCREMENT goes on after the highest key.
        last: int = self.connection.execute(query).scalar_one()
        return iter(range(last + 1, last + 1 + count))

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

"""What a batch has to write: gathered while its items are decided, each table written once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tallymark.errors import WorkFailed
from tallymark.store.column_types import json_text, make_storable
from tallymark.store.contests import boards, matches
from tallymark.store.contests.audit_log import SYSTEM
from tallymark.store.contests.batch_memory import ROW_NAMES, take_row
from tallymark.store.contests.score_rows import SCORE_NAMES
from tallymark.store.quick_statements import write_insert
from tallymark.store.row_numbers import take_number, take_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tallymark.store.actors import Actor
    from tallymark.store.contests.batch_memory import AttemptRow, BatchMemory
    from tallymark.store.contests.matches import EndedAttempt
    from tallymark.store.quick_statements import QuickStatements

_CHANGING = ("state", "submitted_at", "scored_at", "verified", "trajectory_level", "match_at")
_CHANGE = f"UPDATE attempts SET {', '.join(f'{name} = ?' for name in _CHANGING)} WHERE key = ?"  # noqa: S608
_CHANGE_OPEN = f"{_CHANGE} AND state = 'entered'"
_DETAILS = (
    "attempt",
    "tenant",
    "digest",
    "submission",
    "metadata",
    "reported",
    "packed_trajectory",
    "steps_digest",
    "evaluation",
    "details",
)
_HISTORY = ("scoring", "agent", "attempt", "tenant", "score", "result", "error", "at")
_AUDIT = (
    "seq",
    "tenant",
    "challenge_id",
    "attempt",
    "at",
    "actor",
    "event",
    "before",
    "after",
    "note",
    "address",
)
_REQUEST = ("tenant", "agent", "key", "digest", "attempt", "at")


class Overtaken(WorkFailed):
    """Another transaction was quicker: the batch is undone, and reads all of it again."""


class BatchRows:
    """Rows to be written, by table."""

    def __init__(
        self, statements: QuickStatements, memory: BatchMemory, most_new: Mapping[str, int]
    ) -> None:
        """`most_new` is how many attempts it makes at most, by tenant."""
        self._statements = statements
        self._memory = memory
        self._most_new = most_new
        self._keys: dict[str, Iterator[int]] = {}
        self._begin()

    def _begin(self) -> None:
        self.changed: dict[int, AttemptRow] = {}
        self.ended: list[EndedAttempt] = []
        self.scores: list[tuple[Any, ...]] = []
        self._details: dict[int, dict[str, Any]] = {}
        self._verdicts: list[tuple[Any, ...]] = []
        self._history: list[tuple[Any, ...]] = []
        self._requests: list[tuple[Any, ...]] = []
        self._audit: list[tuple[Any, ...]] = []

    def next_key(self, tenant: str) -> int:
        """A key for a new attempt, that nobody else gets."""
        connection = self._statements.connection
        if not self._statements.is_postgres:
            return take_number(connection, "attempts", tenant)
        if tenant not in self._keys:  # in one step, because each takes a round trip
            most = self._most_new[tenant]
            self._keys[tenant] = iter(take_numbers(connection, "attempts", tenant, most))
        return next(self._keys[tenant])

    def log(  # noqa: PLR0913 (the columns of an entry)
        self,
        row: AttemptRow,
        at: float,
        event: str,
        *,
        actor: Actor | None,
        before: str | None,
        after: str | None,
        by_system: bool = False,
        note: dict[str, Any] | None = None,
    ) -> None:
        """Writes down what happened to an attempt: done by its agent, who acts for it, or by us."""
        who: str = row.agent
        address: str | None = None
        if by_system:
            who = SYSTEM
        elif actor is not None:
            who = make_storable(actor.name)
            address = None if actor.address is None else make_storable(actor.address)
        said = None if note is None else json_text(note)
        entry = (row.tenant, row.challenge_id, row.key, at, who, event, before, after)
        self._audit.append((*entry, said, address))

    def keep_payload(self, row: AttemptRow, texts: dict[str, Any]) -> None:
        """What was submitted."""
        row.digest = texts["digest"]
        self._details[row.key] = texts | {"attempt": row.key, "tenant": row.tenant}

    def keep_verdict(self, row: AttemptRow, evaluation: str, details: str | None) -> None:
        """What the evaluator found, and what a competitor is told."""
        if (pending := self._details.get(row.key)) is not None:
            pending |= {"evaluation": evaluation, "details": details}
        else:
            self._verdicts.append((evaluation, details, row.key))

    def keep_score(self, score: tuple[Any, ...], history: tuple[Any, ...]) -> None:
        """The score of an attempt: rows of `attempt_scores` and `score_history`."""
        self.scores.append(score)
        self._history.append(history)

    def keep_request(self, request: tuple[str, str, str], digest: str, key: int, at: float) -> None:
        """What was asked under a key, and the attempt that is the answer."""
        self._memory.requests[request] = (digest, key)
        self._requests.append((*request, digest, key, at))

    def write(self) -> None:
        """Writes all that was gathered, and begins anew."""
        statements, memory = self._statements, self._memory
        # Read before the attempts are written, which would count themselves as earlier ones.
        rated = matches.rate_ended(statements, self.ended, memory.terms_of)
        self._write_attempts()
        statements.insert(
            "attempt_details", _DETAILS, list(map(_take_details, self._details.values()))
        )
        statements.run_many(
            "UPDATE attempt_details SET evaluation = ?, details = ? WHERE attempt = ?",
            self._verdicts,
        )
        statements.insert("attempt_scores", SCORE_NAMES, self.scores)
        statements.insert("score_history", _HISTORY, self._history)
        boards.write_entrants(statements, memory)
        rated.write(statements)
        self._write_requests()
        self.write_log()
        for entrant in memory.entrants.values():
            entrant.forget_new()
        self._begin()

    def write_log(self) -> None:
        """The log alone: what comes next is written to it by others."""
        connection, counts = self._statements.connection, Counter(each[0] for each in self._audit)
        numbers = {
            tenant: iter(take_numbers(connection, "contest_audit", tenant, count))
            for tenant, count in counts.items()
        }
        rows = [(next(numbers[each[0]]), *each) for each in self._audit]
        self._statements.insert("contest_audit", _AUDIT, rows)
        self._audit = []

    def _write_attempts(self) -> None:
        rows = self.changed.values()
        # Those that have ended first: an agent has one that is open.
        stored = [row for row in rows if not row.fresh]
        assumed = [_take_change(row) for row in stored if row.assumed]
        if self._statements.run_many(_CHANGE_OPEN, assumed) != len(assumed):
            raise Overtaken("an attempt that was open has ended meanwhile")
        changed = [_take_change(row) for row in stored if not row.assumed]
        self._statements.run_many(_CHANGE, changed)
        self._statements.insert("attempts", ROW_NAMES, [take_row(row) for row in rows if row.fresh])
        for row in rows:
            row.fresh = row.assumed = False

    def _write_requests(self) -> None:
        statement = f"{write_insert('idempotency', _REQUEST)} ON CONFLICT DO NOTHING"
        if self._statements.run_many(statement, self._requests) != len(self._requests):
            raise Overtaken("an idempotency key is being used for another request")


def _take_change(row: AttemptRow) -> tuple[Any, ...]:
    return (*(getattr(row, name) for name in _CHANGING), row.key)


def _take_details(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(map(row.get, _DETAILS))

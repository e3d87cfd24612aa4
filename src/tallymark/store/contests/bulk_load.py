"""Loading attempts that were scored elsewhere, by the million, with the board made at the end."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, insert, literal, select, text

from tallymark.errors import InvalidInput
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
    from collections.abc import Sequence

    from sqlalchemy import Connection

    from tallymark.challenges.attempt import Attempt, Outcome

_ATTEMPT = tuple(each.name for each in attempts.c if each.name != "voided_at")
_FACTS = ("challenge_id", "agent", "attempt", "tenant", "scoring", "submitted_at", "number")


class BulkLoad:
    """One load: attempts of one challenge, in the order in which they were made."""

    def __init__(self, connection: Connection, tenant: str, name: str, at: float) -> None:
        self.connection = connection
        self.at = at
        self.kept = find_challenge(connection, tenant, name, lock=True)
        self._version = find_version_id(connection, self.kept, self.kept.challenge.version)
        self._numbers = Counter(self._count_attempts())
        self._scorings: dict[str | None, int] = {}

    def load(self, given: Sequence[Attempt], *, rated: bool) -> None:
        """Stores all, then history, board and, if asked for, matches and ratings from them."""
        whole_boards.freeze_if_due(self.connection, self.kept, self.at)
        with enlarge_cache(self.connection):
            self._insert(given, rated)
            self._remember_scores()
            whole_boards.rebuild(self.connection, self.kept)
        if rated:
            agents = {each.agent for each in given}
            matches.fold_agents(self.connection, self.kept.tenant, agents)
        if self.connection.dialect.name == "postgresql":
            # Until it has counted, it plans as if the tables were still empty.
            tables = (attempts, attempt_scores, boards, board_blocks)
            self.connection.execute(text(f"ANALYZE {', '.join(each.name for each in tables)}"))
        entry = AuditEntry(at=self.at, actor=SYSTEM, event="loaded", note={"attempts": len(given)})
        audit_log.write_entry(self.connection, self.kept.tenant, self.kept.id, None, entry)

    def _count_attempts(self) -> dict[str, int]:
        """How many attempts each agent has made already."""
        query = select(attempts.c.agent, func.max(attempts.c.number))
        mine = attempts.c.challenge_id == self.kept.id
        return dict(self.connection.execute(query.where(mine).group_by(attempts.c.agent)).all())

    def _insert(self, given: Sequence[Attempt], rated: bool) -> None:
        """Rows are made as they are stored, and no sooner: a million are much in memory."""
        outcomes = [_require_outcome(each) for each in given]
        # Agent by agent, each one's oldest first, as the scores are kept: so none is stored
        # between others. Sorted twice, because a million pairs would take longer to make.
        order = sorted(
            range(len(given)), key=[each.submitted_at or 0.0 for each in given].__getitem__
        )
        order.sort(key=[each.agent for each in given].__getitem__)
        keys = self._reserve_keys(len(given))
        numbers = [self._take_number(each.agent) for each in given]
        scorings = [self._find_scoring(each) for each in outcomes]
        insert_many(
            self.connection,
            attempts,
            _ATTEMPT,
            (
                self._make_attempt_row(*each, rated)
                for each in zip(keys, given, numbers, outcomes, strict=True)
            ),
        )
        mine, tenant = self.kept.id, self.kept.tenant
        insert_many(
            self.connection,
            attempt_scores,
            (*_FACTS, *score_rows.VALUE_NAMES),
            (
                (
                    *(mine, given[nth].agent, keys[nth], tenant, scorings[nth]),
                    *(given[nth].submitted_at, numbers[nth]),
                    *score_rows.list_values(outcomes[nth]),
                )
                for nth in order
            ),
        )
        insert_many(
            self.connection,
            attempt_details,
            ("attempt", "tenant", "details"),
            (
                (key, tenant, json_text(each.details))
                for key, each in zip(keys, outcomes, strict=True)
                if each.details
            ),
        )

    def _take_number(self, agent: str) -> int:
        self._numbers[agent] += 1
        return self._numbers[agent]

    def _make_attempt_row(
        self, key: int, attempt: Attempt, number: int, outcome: Outcome, rated: bool
    ) -> tuple[Any, ...]:
        """In the order of `_ATTEMPT`."""
        return (
            key,
            self.kept.tenant,
            self.kept.id,
            self._version,
            attempt.agent,
            number,
            "scored" if outcome.error is None else "failed",
            attempt.seed,
            attempt.entered_at,
            attempt.expires_at,
            attempt.submitted_at,
            self.at if attempt.scored_at is None else attempt.scored_at,
            attempt.verified,
            attempt.memoryless,
            outcome.trajectory_level,
            attempt.submitted_at if rated else None,
        )

    def _find_scoring(self, outcome: Outcome) -> int:
        origin = score_rows.origin_text(outcome)
        if origin not in self._scorings:
            self._scorings[origin] = score_rows.add_scoring(
                self.connection, self.kept, "load", origin, self.at
            )
        return self._scorings[origin]

    def _reserve_keys(self, count: int) -> Sequence[int]:
        """So many keys that nobody else gets."""
        if self.connection.dialect.name == "postgresql":
            sequence = "pg_get_serial_sequence('attempts', 'key')"
            query = text(f"SELECT nextval({sequence}) FROM generate_series(1, :count)")  # noqa: S608
            return self.connection.scalars(query, {"count": count}).all()
        query = text("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'attempts'")
        # The transaction has SQLite's only write lock. AUTOINCREMENT goes on after the highest key.
        last: int = self.connection.execute(query).scalar_one()
        return range(last + 1, last + 1 + count)

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


def _require_outcome(attempt: Attempt) -> Outcome:
    if attempt.outcome is None or attempt.submitted_at is None:
        raise InvalidInput(
            f"attempt {attempt.id!r} of {attempt.agent!r} was never scored",
            hint="load scored attempts only",
        )
    return attempt.outcome

"""How far a run is: counted once, then gone on with after the last commit that was seen."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
from sqlalchemy import func, select

from tallymark.store.database import TenantRows
from tallymark.store.database_dialects import repeatable_read
from tallymark.store.runs import run_rows
from tallymark.store.runs.run_tables import case_results

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

_MOST_CASES = 20
_CHUNK = 500
_results = case_results.c


class CaseNow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A case that has a result."""

    case: str
    epoch: int
    status: str
    latency: float | None = None
    cost: float | None = None


class RunProgress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far a run is."""

    seq: int
    """How often results were stored."""
    run: str
    status: str
    total: int
    """How many results there will be; 0 where that is not known."""
    passed: int
    failed: int
    errors: int
    cost: float
    score: float | None = None
    cases: tuple[CaseNow, ...] = ()
    """The last results of those that are new."""

    @property
    def ended(self) -> bool:
        """Whether nothing more comes."""
        return self.status not in ("queued", "running")


@dataclass(slots=True)
class RunCounts:
    """What was counted of a run so far."""

    seq: int = -1
    counts: Counter[str] = field(default_factory=Counter)
    cost: float = 0.0
    errors: dict[tuple[str, int], float] = field(default_factory=dict)
    """What errors cost, by case and epoch: resuming puts another result in their place."""

    def add(self, case: CaseNow) -> None:
        """Counts a result, and no more the error that it replaces."""
        key, cost = (case.case, case.epoch), case.cost or 0.0
        if key in self.errors:
            self.counts["error"] -= 1
            self.cost -= self.errors.pop(key)
        self.counts[case.status] += 1
        self.cost += cost
        if case.status == "error":
            self.errors[key] = cost


class RunProgressReader(TenantRows):
    """What `store.run_progress` is."""

    def read(self, run_id: str, counts: RunCounts) -> RunProgress:
        """How far a run is, with what is new since `counts`, which are brought up to date."""
        with self._database.read() as connection:
            record = run_rows.find(repeatable_read(connection), self._tenant, run_id)
            mine = (_results.tenant == self._tenant, _results.run_id == record.id)
            seq = connection.scalar(select(func.max(_results.seq)).where(*mine)) or 0
            last: deque[CaseNow] = deque(maxlen=_MOST_CASES)
            if seq != counts.seq:
                for case in self._read_new(connection, record.id, counts.seq, seq):
                    counts.add(case)
                    last.append(case)
                counts.seq = seq
        return RunProgress(
            seq=seq,
            run=record.id,
            status=record.status,
            total=record.total,
            passed=counts.counts["passed"],
            failed=counts.counts["failed"],
            errors=counts.counts["error"],
            cost=max(0.0, counts.cost),
            score=record.score,
            cases=tuple(last),
        )

    def _read_new(
        self, connection: Connection, run_id: str, after: int, until: int
    ) -> Iterator[CaseNow]:
        names = ("epoch", "status", "latency", "cost")
        query = (
            select(_results.case_name.label("case"), *(_results[name] for name in names))
            .where(_results.tenant == self._tenant, _results.run_id == run_id)
            .where(_results.seq > after, _results.seq <= until)
            .order_by(_results.seq)
        )
        with connection.execution_options(yield_per=_CHUNK).execute(query) as rows:
            yield from (CaseNow(**row._mapping) for row in rows)  # noqa: SLF001 (its own name)

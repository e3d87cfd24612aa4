"""What commands ask about runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from tallymark.errors import WorkFailed
from tallymark.runs.record import CaseResult, RunRecord, RunStatus

if TYPE_CHECKING:
    from tallymark.app.app import App
    from tallymark.client.sync.client import Client
    from tallymark.runs.run import Run

_LOOKED_THROUGH = 200
"""Runs of a suite, the newest first, in search of a branch's."""
RunSort = Literal["created_at", "started_at", "finished_at", "score", "suite", "model", "status"]


@dataclass(frozen=True, kw_only=True)
class RunQuery:
    """Which runs are wanted, and in which order."""

    suite: str | None = None
    model: str | None = None
    status: RunStatus | None = None
    group: str | None = None
    since: float | None = None
    min_score: float | None = None
    sort: RunSort = "created_at"
    ascending: bool = False
    limit: int = 20


class RunDesk(Protocol):
    """Runs that are kept."""

    def list(self, query: RunQuery) -> list[RunRecord]:
        """Runs without their results."""

    def load(self, run: str, *, traces: bool = False) -> Run:
        """A run with its results; with what agents did, where a report shows it."""

    def find_of_branch(self, suite: str, branch: str) -> str | None:
        """The newest run of a suite that ended and was made for a branch, by its label."""


@dataclass(frozen=True)
class LocalRuns:
    """Runs in a database."""

    app: App

    def list(self, query: RunQuery) -> list[RunRecord]:
        """Runs without their results."""
        return self.app.store.runs(
            sort=query.sort,
            descending=not query.ascending,
            limit=query.limit,
            suite=query.suite,
            model=query.model,
            status=query.status,
            group=query.group,
            since=query.since,
            min_score=query.min_score,
        )

    def load(self, run: str, *, traces: bool = False) -> Run:  # noqa: ARG002 (read when wanted)
        """A run; its results stay in the database, and are read while it is open."""
        return self.app.load_run(run)

    def find_of_branch(self, suite: str, branch: str) -> str | None:
        """The newest run of a suite that ended and was made for a branch, by its label."""
        if not self.app.store.exists:
            return None
        return _find_of_branch(self.list(RunQuery(suite=suite, limit=_LOOKED_THROUGH)), branch)


@dataclass(frozen=True)
class RemoteRuns:
    """Runs that a server keeps."""

    client: Client

    def list(self, query: RunQuery) -> list[RunRecord]:
        """Runs without their results."""
        found = self.client.runs.list(
            suite=query.suite,
            model=query.model,
            status=query.status,
            group=query.group,
            since=query.since,
            min_score=query.min_score,
            sort=query.sort,
            order="asc" if query.ascending else "desc",
            limit=query.limit,
            kept=True,
        )
        return [_read_record(each.record) for each in found]

    def find_of_branch(self, suite: str, branch: str) -> str | None:
        """The newest run of a suite that ended and was made for a branch, by its label."""
        return _find_of_branch(self.list(RunQuery(suite=suite, limit=_LOOKED_THROUGH)), branch)

    def load(self, run: str, *, traces: bool = False) -> Run:
        """A run with its results, counted here as they are counted there."""
        from tallymark.runs.ongoing_run import sort_by_suite  # noqa: PLC0415 (formulas load too)
        from tallymark.runs.run import Run  # noqa: PLC0415

        record = _read_record(self.client.runs.get(run, kept=True).record)
        told = self.client.runs.cases(record.id, traces=traces)
        results = [msgspec.convert(each.model_dump(), CaseResult) for each in told]
        return Run(record, sort_by_suite(record, results))


def _find_of_branch(records: list[RunRecord], branch: str) -> str | None:
    ended = (each for each in records if each.status in ("completed", "partial_failure"))
    return next((each.id for each in ended if each.tags.get("branch") == branch), None)


def _read_record(told: dict[str, Any] | None) -> RunRecord:
    try:
        return msgspec.convert(told, RunRecord)
    except msgspec.ValidationError:
        said = "the server does not tell all that this command shows"
        raise WorkFailed(said, hint="its version may be older than this command's") from None

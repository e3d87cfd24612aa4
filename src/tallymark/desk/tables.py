"""What `tally export` and `tally load` ask: everything of a kind, out and in."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import msgspec

from tallymark.challenges.attempt import read_public
from tallymark.errors import InvalidInput, WorkFailed
from tallymark.service.exports import (
    KeptTrace,
    RunResult,
    ScoreLine,
    stream_attempts,
    stream_results,
    stream_scores,
    stream_traces,
)
from tallymark.store.traces.trace_rows import TraceRecord
from tallymark.traces import Trace

if TYPE_CHECKING:
    from pathlib import Path

    from tallymark.challenges.attempt import Attempt
    from tallymark.client import Client
    from tallymark.runs.record import RunRecord
    from tallymark.service.app import App
    from tallymark.service.loads import LoadedAttempts, LoadedScores
    from tallymark.store.loads import LoadedRuns

OnRun = Callable[["RunRecord"], None]
_PAGE = 500


class TableDesk(Protocol):
    """Everything of a kind, one after another."""

    def attempts(self, challenge: str, *, live: bool) -> Iterator[Attempt]:
        """All attempts at a challenge, oldest first."""

    def results(self, runs: Sequence[str], on_run: OnRun) -> Iterator[RunResult]:
        """All results of these runs, or of all; each run is told before its first result."""

    def traces(self, filter_: str) -> Iterator[KeptTrace]:
        """The traces that fit, with their spans."""

    def scores(self, filter_: str) -> Iterator[ScoreLine]:
        """The scores that count: of traces that fit, and of cases."""

    def load_attempts(self, path: Path, challenge: str | None) -> LoadedAttempts:
        """Scored attempts of a file."""

    def load_results(self, path: Path) -> LoadedRuns:
        """Runs with their results."""

    def load_scores(self, path: Path) -> LoadedScores:
        """Scores of what is there."""


@dataclass(frozen=True)
class LocalTables:
    """In a database."""

    app: App

    def attempts(self, challenge: str, *, live: bool) -> Iterator[Attempt]:
        """All attempts at a challenge, oldest first."""
        self.app.store.challenges.find(challenge)
        return stream_attempts(self.app.store, challenge, live=live)

    def results(self, runs: Sequence[str], on_run: OnRun) -> Iterator[RunResult]:
        """All results of these runs, or of all."""
        store = self.app.store
        for each in runs or self._list_runs():
            record = store.run(each)
            on_run(record)
            yield from stream_results(store, [record])

    def _list_runs(self) -> Iterator[str]:
        after = None
        page: Any = {"limit": _PAGE, "descending": False}
        while found := self.app.store.runs(**page, after=after):
            yield from (each.id for each in found)
            after = (found[-1].created_at, found[-1].created_at, found[-1].id)

    def traces(self, filter_: str) -> Iterator[KeptTrace]:
        """The traces that fit, with their spans."""
        return stream_traces(self.app.store, filter_)

    def scores(self, filter_: str) -> Iterator[ScoreLine]:
        """The scores that count."""
        return stream_scores(self.app.store, filter_)

    def load_attempts(self, path: Path, challenge: str | None) -> LoadedAttempts:
        """Scored attempts of a file."""
        from tallymark.service.loads import load_attempts  # noqa: PLC0415 (pyarrow)

        return load_attempts(self.app.store, path, challenge, at=time.time())

    def load_results(self, path: Path) -> LoadedRuns:
        """Runs with their results."""
        from tallymark.service.loads import load_results  # noqa: PLC0415 (pyarrow)

        return load_results(self.app.store, path)

    def load_scores(self, path: Path) -> LoadedScores:
        """Scores of what is there."""
        from tallymark.service.loads import load_scores  # noqa: PLC0415 (pyarrow)

        return load_scores(self.app.store, path)


@dataclass(frozen=True)
class RemoteTables:
    """At a server, which tells everything and takes nothing that it cannot see for itself."""

    client: Client

    def attempts(self, challenge: str, *, live: bool) -> Iterator[Attempt]:
        """All attempts at a challenge, oldest first."""
        rows = self.client.export("attempts", challenge=challenge, live=live)
        return (_read(each, read_public) for each in rows)

    def results(self, runs: Sequence[str], on_run: OnRun) -> Iterator[RunResult]:
        """All results of these runs, or of all."""
        known = self.client.runs
        for each in runs or [run.id for run in known.list(order="asc")]:
            record = known.read_record(each)
            on_run(record)
            for result in known.cases(record.id, traces=True):
                yield RunResult(record, result)

    def traces(self, filter_: str) -> Iterator[KeptTrace]:
        """The traces that fit, with their spans."""
        return (_read(row, _read_trace) for row in self.client.export("traces", filter=filter_))

    def scores(self, filter_: str) -> Iterator[ScoreLine]:
        """The scores that count."""
        rows = self.client.export("scores", filter=filter_)
        return (_read(row, lambda told: msgspec.convert(told, ScoreLine)) for row in rows)

    def load_attempts(self, path: Path, challenge: str | None) -> LoadedAttempts:  # noqa: ARG002
        """Nothing: who may report attempts has them scored by the server."""
        _refuse("attempts")

    def load_results(self, path: Path) -> LoadedRuns:  # noqa: ARG002
        """Nothing, as above."""
        _refuse("results")

    def load_scores(self, path: Path) -> LoadedScores:  # noqa: ARG002
        """Nothing: a score at a server is of whoever gives it."""
        _refuse("scores")


def _read_trace(row: dict[str, Any]) -> KeptTrace:
    trace = Trace.from_dict(row.pop("trace"))
    record = msgspec.convert({**row, "key": 0, "trace_id": row["id"]}, TraceRecord)
    return KeptTrace(record, trace)


def _read(row: dict[str, Any], how: Callable[[dict[str, Any]], Any]) -> Any:
    try:
        return how(row)
    except (msgspec.ValidationError, InvalidInput, KeyError):
        said = "the server does not tell all that this command writes"
        raise WorkFailed(said, hint="its version may be older than this command's") from None


def _refuse(kind: str) -> NoReturn:
    raise InvalidInput(
        f"{kind} are loaded into a database, not into a server",
        hint="name the database with --db",
    )

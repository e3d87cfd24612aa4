"""What commands ask about runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from tallymark.desk.workplace import UNSENT, LocalWork, RemoteWork, Work
from tallymark.errors import InvalidInput, Place, Problem, TallymarkError, WorkFailed
from tallymark.runs.record import CaseResult, RunRecord, RunStatus

if TYPE_CHECKING:
    from tallymark.client import Client
    from tallymark.runs.run import Run
    from tallymark.service.app import App

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


Progress = Callable[[int, int | None], None]


@dataclass(frozen=True)
class Rescored:
    """A run as it is, and as another rule sees it."""

    before: Run
    after: Run
    saved_as: str | None


class RunDesk(Protocol):
    """Runs that are kept, and where new ones are done."""

    def find(self, query: RunQuery) -> list[RunRecord]:
        """Runs without their results."""

    def load(self, run: str, *, traces: bool = False) -> Run:
        """A run with its results; with what agents did, where a report shows it."""

    def find_of_branch(self, suite: str, branch: str) -> str | None:
        """The newest run of a suite that ended and was made for a branch, by its label."""

    def find_failed(self, run: str) -> tuple[str, list[str]]:
        """The id of a run, and the cases that failed in it or could not run."""

    def get(self, run: str) -> RunRecord:
        """A run without its results."""

    def delete(self, run: str, reason: str) -> None:
        """Removes a run that has ended, with its results."""

    def rename(self, run: str, name: str, reason: str) -> RunRecord:
        """Gives a run that has ended a name of its own."""

    def rescore(
        self,
        run: str,
        *,
        formula: str | None,
        suite: Path | None,
        save: bool,
        on_progress: Progress | None,
    ) -> Rescored:
        """A run by another formula or suite. No model is asked."""

    def open_work(self) -> AbstractContextManager[Work]:
        """Where runs are done whose results will be kept."""

    def start(
        self, suite: Path, models: Sequence[str], *, name: str, wish: Mapping[str, Any]
    ) -> StartedRuns:
        """Has a suite run where runs are kept, one run for each prompt and model."""


@dataclass(frozen=True)
class StartedRuns:
    """Runs that a server does, and whoever started them watches."""

    client: Client
    records: list[RunRecord]

    def follow(self, run: str) -> Iterator[Mapping[str, Any]]:
        """How far a run is, whenever that changes, until it has ended."""
        status = "queued"
        while status in ("queued", "running"):
            # A stream may be ended by whoever stands between before the run is.
            for event in self.client.runs.events(run):
                yield event.data
            status = self.client.runs.get(run).status

    def cancel(self, run: str) -> None:
        """Stops a run; what it has is kept there."""
        self.client.runs.cancel(run)


@dataclass(frozen=True)
class LocalRuns:
    """Runs in a database."""

    app: App

    def find(self, query: RunQuery) -> list[RunRecord]:
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
        return _find_of_branch(self.find(RunQuery(suite=suite, limit=_LOOKED_THROUGH)), branch)

    def get(self, run: str) -> RunRecord:
        """A run without its results."""
        return self.app.store.run(run)

    def delete(self, run: str, reason: str) -> None:
        """Removes a run that has ended, with its results."""
        self.app.store.require()
        self.app.store.remove_run(run, at=time.time(), reason=reason)

    def rename(self, run: str, name: str, reason: str) -> RunRecord:
        """Gives a run that has ended a name of its own."""
        self.app.store.require()
        return self.app.store.rename_run(run, name, at=time.time(), reason=reason)

    def find_failed(self, run: str) -> tuple[str, list[str]]:
        """The id of a run, and the cases that failed in it or could not run."""
        found = self.app.store.run(run).id
        statuses = self.app.store.result_keys(found)
        return found, _list_failed((case, status) for (case, _), status in statuses.items())

    def rescore(
        self,
        run: str,
        *,
        formula: str | None,
        suite: Path | None,
        save: bool,
        on_progress: Progress | None,
    ) -> Rescored:
        """A run by another formula or suite. No model is asked."""
        from tallymark.service.runs import RunOptions  # noqa: PLC0415 (models load with it)
        from tallymark.suites.suite_file import load_suite  # noqa: PLC0415

        runs, other = self.app.runs, None
        if suite is not None:
            other = runs.resolve_like(self.app.store.run(run), load_suite(suite), RunOptions())
        before, after = runs.rescore_run(run, formula=formula, suite=other, on_progress=on_progress)
        return Rescored(before, after, runs.save_as_new(after).id if save else None)

    def open_work(self) -> AbstractContextManager[Work]:
        """In the same database."""
        return nullcontext(LocalWork(self.app))

    def start(self, *_: object, **__: object) -> StartedRuns:
        """Refused: no server is meant."""
        hint = "name one with --server or TALLY_SERVER, or leave --remote out"
        raise InvalidInput("--remote runs a suite at a server", hint=hint)


@dataclass(frozen=True)
class RemoteRuns:
    """Runs that a server keeps."""

    client: Client

    def find(self, query: RunQuery) -> list[RunRecord]:
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
        return [read_record(each.record) for each in found]

    def find_of_branch(self, suite: str, branch: str) -> str | None:
        """The newest run of a suite that ended and was made for a branch, by its label."""
        return _find_of_branch(self.find(RunQuery(suite=suite, limit=_LOOKED_THROUGH)), branch)

    def load(self, run: str, *, traces: bool = False) -> Run:
        """A run with its results, counted here as they are counted there."""
        from tallymark.runs.ongoing_run import sort_by_suite  # noqa: PLC0415 (formulas load too)
        from tallymark.runs.run import Run  # noqa: PLC0415

        record = self.get(run)
        told = self.client.runs.cases(record.id, traces=traces)
        results = [msgspec.convert(each.model_dump(), CaseResult) for each in told]
        return Run(record, sort_by_suite(record, results))

    def delete(self, run: str, reason: str) -> None:
        """Removes a run that has ended, with its results."""
        self.client.runs.delete(run, reason=reason or None)

    def rename(self, run: str, name: str, reason: str) -> RunRecord:
        """Gives a run that has ended a name of its own."""
        return self.get(self.client.runs.rename(run, name, reason=reason).id)

    def find_failed(self, run: str) -> tuple[str, list[str]]:
        """The id of a run, and the cases that failed in it or could not run."""
        found = self.client.runs.get(run).id
        cases = self.client.runs.cases(found)
        return found, _list_failed((each.case, each.status) for each in cases)

    def rescore(
        self,
        run: str,
        *,
        formula: str | None,
        suite: Path | None,
        save: bool,
        on_progress: Progress | None,
    ) -> Rescored:
        """A run by another formula or suite: seen here, kept by the server that sees it so too."""
        from tallymark.suites.rechecks import rescore  # noqa: PLC0415 (models load with it)

        before = self.load(run, traces=True)
        other, text = None, None
        if suite is not None:
            from tallymark.service.runs import RunOptions  # noqa: PLC0415
            from tallymark.suites.suite_file import load_suite  # noqa: PLC0415

            definition, text = load_suite(suite), suite.read_text(encoding="utf-8")
            with self.open_work() as work:
                options = work.fill_in(RunOptions())
                other = work.app.runs.resolve_like(before.record, definition, options)
        after = rescore(before, formula=formula, suite=other, on_progress=on_progress)
        saved = None
        if save:
            with _placed(suite):
                saved = self.client.runs.rescore(before.record.id, formula=formula, suite=text)
        return Rescored(before, after, None if saved is None else saved.saved_as)

    @contextmanager
    def open_work(self) -> Iterator[Work]:
        """In a database of its own, from which runs are sent when they are over."""
        from tallymark.service.app import App  # noqa: PLC0415 (databases load slowly)

        with closing(App(UNSENT)) as app:
            work = RemoteWork(self.client, app)
            try:
                yield work
            finally:
                work.forget_sent()

    def start(
        self, suite: Path, models: Sequence[str], *, name: str, wish: Mapping[str, Any]
    ) -> StartedRuns:
        """Has the server run the text of a suite."""
        text = suite.read_text(encoding="utf-8")
        with _placed(suite):
            started = self.client.runs.execute(text, models, wishes={"name": name, **wish})
        return StartedRuns(self.client, [self.get(each.id) for each in started.runs])

    def get(self, run: str) -> RunRecord:
        """A run without its results."""
        return read_record(self.client.runs.get(run, kept=True).record)


def _list_failed(found: Iterator[tuple[str, str]]) -> list[str]:
    return list(dict.fromkeys(case for case, status in found if status != "passed"))


@contextmanager
def _placed(path: Path | None) -> Iterator[None]:
    """What a server says of a line of the suite that was sent, it says of the file."""
    try:
        yield
    except TallymarkError as error:
        if path is not None:
            error.problems = tuple(_place(each, path) for each in error.problems)
        raise


def _place(problem: Problem, path: Path) -> Problem:
    place = problem.place
    if place is None or place.line is None:
        return problem
    at = Place(str(path), place.line, place.column, place.length, place.text)
    return Problem(problem.message, at, problem.hint)


def _find_of_branch(records: list[RunRecord], branch: str) -> str | None:
    ended = (each for each in records if each.status in ("completed", "partial_failure"))
    return next((each.id for each in ended if each.tags.get("branch") == branch), None)


def read_record(told: dict[str, Any] | None) -> RunRecord:
    """A run that a server told of."""
    try:
        return msgspec.convert(told, RunRecord)
    except msgspec.ValidationError:
        said = "the server does not tell all that this command shows"
        raise WorkFailed(said, hint="its version may be older than this command's") from None

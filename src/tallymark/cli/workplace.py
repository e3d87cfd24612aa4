"""Storage of runs while `tally run` and `tally score` execute them, for a database or a server.

Runs for a server are first stored in `.tally/unsent.db`, result by result, and removed when the
server has them. After a stopped command, a server failure or a power cut, `tally run --resume`
continues or sends them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from tallymark.errors import NotAllowed, NotFound
from tallymark.text import format_number

if TYPE_CHECKING:
    from tallymark.client import Client
    from tallymark.runs.record import CaseResult
    from tallymark.runs.run import Run
    from tallymark.service.app import App
    from tallymark.service.resources import Resources
    from tallymark.service.runs import Difference, Runs
    from tallymark.service.suite_runs import RunOptions

UNSENT = ".tally/unsent.db"
_SENDERS = ("reporter", "organiser", "admin")
_OVER = ("completed", "partial_failure", "failed")
_MOST_RESULTS = 5_000
_MOST_BYTES = 8_000_000
"""In one request; a part is as large as its last result makes it."""


class Work(Protocol):
    """Storage in which a command executes its runs."""

    @property
    def app(self) -> App:
        """The application that executes runs."""

    def check(self) -> None:
        """Refuse to start if the runs could not be stored in the end."""

    def fill_in(self, options: RunOptions) -> RunOptions:
        """Add the values of stored variables to the options."""

    def find_finished(self, run: str) -> Run | None:
        """Find an ended run that only has to be sent."""

    def hand_over(self, runs: Sequence[Run]) -> list[str]:
        """Send the runs to where they belong; return notes about differences."""

    def tell_rest(self, run: str) -> str:
        """Describe how to continue or send a run."""


@dataclass(frozen=True)
class LocalWork:
    """Runs in the database where they stay."""

    app: App

    def check(self) -> None:
        """Nothing to check."""

    def fill_in(self, options: RunOptions) -> RunOptions:
        """Return the options; the database has the variables."""
        return options

    def find_finished(self, run: str) -> Run | None:  # noqa: ARG002
        """None: no run has to be sent."""
        return None

    def hand_over(self, runs: Sequence[Run]) -> list[str]:  # noqa: ARG002
        """Nothing to send."""
        return []

    def tell_rest(self, run: str) -> str:
        """Describe how to continue a run."""
        return f"finished cases are stored; continue with: tally run --resume {run}"


@dataclass
class RemoteWork:
    """Runs executed here for a server."""

    client: Client
    app: App
    here: Runs
    """Runs in the local database."""
    _sent: set[str] = field(default_factory=set)

    def fill_in(self, options: RunOptions) -> RunOptions:
        """Add the variables of the server. Its secrets cannot be read: they come from here."""
        try:
            known = self.client.settings.vars()
        except NotAllowed:
            known = {}
        return replace(options, values={**known, **options.values})

    def check(self) -> None:
        """Refuse to start if the server would not accept the runs in the end."""
        caller = self.client.accounts.me()
        if caller.role not in _SENDERS:
            raise NotAllowed(
                f"{self.client.connection.address} takes no runs from a key of the role"
                f" {caller.role!r}",
                hint=f"log in with one of: {', '.join(_SENDERS)}",
            )

    def find_finished(self, run: str) -> Run | None:
        """Find an ended run that only has to be sent."""
        try:
            record = self.here.get(run)
        except NotFound:
            hint = "resume a run where it was started; list the runs of the server: tally runs"
            raise NotFound(f"there is no unsent run {run!r} here", hint=hint) from None
        return self.here.load(record.id) if record.status in _OVER else None

    def hand_over(self, runs: Sequence[Run]) -> list[str]:
        """Send the runs. Sending them again does not duplicate them."""
        notes = []
        for run in runs:
            # A run of many traces holds only some results in memory.
            results = self.here.cases(run.record.id, traces=True)
            for document in _split(run, results):
                (differences,) = self.client.runs.create(run=document).differences
                notes += [_tell_difference(run, each) for each in differences]
            self._sent.add(run.record.id)
        return notes

    def tell_rest(self, run: str) -> str:
        """Describe how to continue or send a run."""
        words = f"tally run --resume {run} --server {self.client.connection.address}"
        return f"it is stored in {UNSENT}; continue and send it with: {words}"

    def forget_sent(self) -> None:
        """Delete the runs that the server has, after all of them were shown."""
        for run in self._sent:
            self.here.delete(run)


@contextmanager
def open_checkpoint(tally: Resources) -> Iterator[Work]:
    """Open the place where runs are done: the same database, or for a server one of its own."""
    if not tally.is_remote:
        yield LocalWork(tally.runs.services.app)
        return
    from tallymark.service.app import App  # noqa: PLC0415 (loads SQLAlchemy)
    from tallymark.service.runs import Runs  # noqa: PLC0415 (loads SQLAlchemy)
    from tallymark.service.settings import ServiceSettings  # noqa: PLC0415 (loads SQLAlchemy)
    from tallymark.service.tenant import TenantServices  # noqa: PLC0415 (loads SQLAlchemy)

    with closing(App(UNSENT)) as app:
        here = Runs(TenantServices(app, ServiceSettings(own=True)))
        work = RemoteWork(cast("Client", tally), app, here)
        try:
            yield work
        finally:
            work.forget_sent()


def _split(run: Run, results: Iterable[CaseResult]) -> Iterator[dict[str, Any]]:
    """Split a run into requests with some of its results each."""
    from tallymark.runs.reports.json_report import describe_run  # noqa: PLC0415 (only for JSON)
    from tallymark.scoring.score import make_json_safe  # noqa: PLC0415 (loads the scorers)

    record = run.record
    tags = {name: value for name, value in record.tags.items() if name != "folder"}
    head = make_json_safe(describe_run(run)) | {
        "keep_as": record.id,
        "definition": record.definition,
        "total": record.total,
        "tags": tags,
    }
    part: list[dict[str, Any]] = []
    size = 0
    for result in results:
        if len(part) >= _MOST_RESULTS or size >= _MOST_BYTES:
            yield head | {"results": part, "more": True}
            part, size = [], 0
        part.append(make_json_safe(result))
        size += len(msgspec.json.encode(part[-1]))
    yield head | {"results": part}


def _tell_difference(run: Run, found: Difference) -> str:
    sent, computed = (
        "none" if each is None else format_number(each) for each in (found.sent, found.computed)
    )
    return f"the server counts {found.field} of {run.record.id} as {computed}, not {sent}"

"""Where `tally run` and `tally score` do their work, whoever keeps it in the end.

For a server it is a database of its own, `.tally/unsent.db`: every result is there as soon as it is
known, and a run leaves it when the server has all of it. What a stopped command, a server that is
down or a power cut leave behind is gone on with, or only sent, by `tally run --resume`.
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
    """What a command does its runs with."""

    @property
    def app(self) -> App:
        """The services that do it."""

    def check(self) -> None:
        """Refuses to begin what nobody would keep."""

    def fill_in(self, options: RunOptions) -> RunOptions:
        """The options with values of variables that are kept elsewhere."""

    def find_finished(self, run: str) -> Run | None:
        """A run that only has to be handed over."""

    def hand_over(self, runs: Sequence[Run]) -> list[str]:
        """Has the runs kept where they belong; says what is otherwise there."""

    def tell_rest(self, run: str) -> str:
        """What to do with a run that is not over, or not handed over."""


@dataclass(frozen=True)
class LocalWork:
    """In the database that keeps the runs: there is nothing to hand over."""

    app: App

    def check(self) -> None:
        """There is nothing to be seen beforehand."""

    def fill_in(self, options: RunOptions) -> RunOptions:
        """As they are: the database has the variables."""
        return options

    def find_finished(self, run: str) -> Run | None:  # noqa: ARG002
        """None: it is kept already."""
        return None

    def hand_over(self, runs: Sequence[Run]) -> list[str]:  # noqa: ARG002
        """They are there."""
        return []

    def tell_rest(self, run: str) -> str:
        """How to go on."""
        return f"what is done is kept; go on with: tally run --resume {run}"


@dataclass
class RemoteWork:
    """Here, for a server."""

    client: Client
    app: App
    here: Runs
    """The runs of that database."""
    _sent: set[str] = field(default_factory=set)

    def fill_in(self, options: RunOptions) -> RunOptions:
        """With the server's variables. Its secrets are shown to nobody: they come from here."""
        try:
            known = self.client.settings.vars()
        except NotAllowed:
            known = {}
        return replace(options, values={**known, **options.values})

    def check(self) -> None:
        """Refuses to begin what the server would not take in the end."""
        caller = self.client.accounts.me()
        if caller.role not in _SENDERS:
            raise NotAllowed(
                f"{self.client.connection.address} takes no runs from a key of the role"
                f" {caller.role!r}",
                hint=f"log in with one of: {', '.join(_SENDERS)}",
            )

    def find_finished(self, run: str) -> Run | None:
        """A run that only has to be sent."""
        try:
            record = self.here.get(run)
        except NotFound:
            hint = "a run goes on where it was started; the server's are: tally runs"
            raise NotFound(f"there is no run {run!r} here that was not sent", hint=hint) from None
        return self.here.load(record.id) if record.status in _OVER else None

    def hand_over(self, runs: Sequence[Run]) -> list[str]:
        """Sends the runs. Sent again, they are there once."""
        notes = []
        for run in runs:
            # Of many traces that were scored, the run has only some results at hand.
            results = self.here.cases(run.record.id, traces=True)
            for document in _split(run, results):
                (differences,) = self.client.runs.create(run=document).differences
                notes += [_tell_difference(run, each) for each in differences]
            self._sent.add(run.record.id)
        return notes

    def tell_rest(self, run: str) -> str:
        """How to go on, or to send it."""
        words = f"tally run --resume {run} --server {self.client.connection.address}"
        return f"it is kept in {UNSENT}; go on and send it with: {words}"

    def forget_sent(self) -> None:
        """What the server has need not be here; not before all of it was shown."""
        for run in self._sent:
            self.here.delete(run)


@contextmanager
def open_work(tally: Resources) -> Iterator[Work]:
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
    """The run as requests: each with some of its results, the last with what they come to."""
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

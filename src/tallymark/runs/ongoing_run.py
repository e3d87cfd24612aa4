"""`OngoingRun`: counts and stores results while a run is in progress."""

from __future__ import annotations

import hashlib
import secrets
import time
from array import array
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, Self, TypeVar

import msgspec
from msgspec.structs import replace

from tallymark.errors import InvalidInput
from tallymark.runs.run import Run, final_status, outcome
from tallymark.runs.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tallymark.formula import Formula
    from tallymark.runs.record import CaseResult, RunRecord

RunEnding = Literal["finished", "budget", "hopeless", "stopped", "late", "broken"]
ENDING_WORDS: Mapping[RunEnding, str] = {
    "budget": "the budget is spent",
    "hopeless": "the model refused every case so far",
    "stopped": "stopped by hand",
    "late": "its time was up",
    "broken": "broke off",
}
MOST_HELD = 1_000
"""Results of a run that are also held in memory where a keeper has them."""
# Crockford's base 32: without i, l, o and u, which are taken for other signs.
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


class ResultSink(Protocol):
    """Accept results to store."""

    def put(self, result: CaseResult) -> None:
        """Takes one; blocks while there is no room."""

    async def aput(self, result: CaseResult) -> None:
        """Takes one; lets others go on while there is no room."""

    def close(self) -> None:
        """Return when all accepted results are stored."""


class RunKeeper(Protocol):
    """A store of runs."""

    def create_run(self, record: RunRecord) -> None:
        """Store a new run."""

    def save_run(self, record: RunRecord) -> None:
        """Store the changes of a run."""

    def open_writer(self, run_id: str) -> ResultSink:
        """A store of a run's results."""

    def open_results(
        self, record: RunRecord, keys: Iterable[tuple[str, int]]
    ) -> Sequence[CaseResult]:
        """Stored results of these cases and epochs, in this order."""


class RunWatch(Protocol):
    """Observer of a run."""

    def started(self, record: RunRecord, tally: Tally, formula: Formula) -> None:
        """A run begins, or goes on with what it had."""

    def moved(self, result: CaseResult, tally: Tally) -> None:
        """A case is done."""

    def ended(self, record: RunRecord) -> None:
        """A run is over."""


class OngoingRun:
    """Counts and stores results; as a context manager, ends the run even after Ctrl-C."""

    def __init__(  # noqa: PLR0913 (a run and whoever wants to know of it, by keyword)
        self,
        record: RunRecord,
        formula: Formula,
        *,
        undefined: float | None = None,
        earlier: Sequence[CaseResult] = (),
        keeper: RunKeeper | None = None,
        watch: RunWatch | None = None,
        tally: Tally | None = None,
    ) -> None:
        """`earlier` are results of a resumed run; `tally` replaces the default counts.

        With its own tally, or with a store unless it is small, the run does not hold its results.
        """
        self.record = record
        self.formula = formula
        self.tally = Tally(earlier) if tally is None else tally
        self._knows_keys = tally is None
        held = self._knows_keys and not self.tally.finished
        self.results: list[CaseResult] | None = [] if held else None
        self.keys = ResultKeys(each.key for each in earlier)
        """Counts of all results, including those not held; empty with a custom tally."""
        self.tally.door = record.tags.get("door")
        if isinstance(chosen := record.tags.get("chosen"), dict):  # else a tag of the suite's own
            self.tally.left_out = chosen.get("left_out", {})
        self.ending: RunEnding = "broken"
        self._undefined = undefined
        self._keeper = keeper
        self._watch = watch
        self._writer: ResultSink | None = None

    def __enter__(self) -> Self:
        if self._keeper is not None:
            self._writer = self._keeper.open_writer(self.record.id)
        if self._watch is not None:
            self._watch.started(self.record, self.tally, self.formula)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind in (KeyboardInterrupt, GeneratorExit):
            self.ending = "stopped"
        try:
            if self._writer is not None:
                self._writer.close()
        except Exception:
            # What went wrong in the block is the cause, and must not be hidden by a second error.
            if kind is None:
                raise
        finally:
            if self._knows_keys:  # metrics are listed in the order of the suite, not of the answers
                ended = (ResultKey(case, 0) for case in self.tally.cases)
                self.tally.arrange(key.case for key in sort_by_suite(self.record, ended))
            kept = self._keeper is not None
            summary = outcome(self.formula, self.tally, undefined=self._undefined, interval=kept)
            record = replace(self.record, **summary, finished_at=time.time())
            status = final_status(record, stopped=self.ending != "finished")
            said = ENDING_WORDS.get(self.ending) if status == "cancelled" else None
            self.record = replace(record, status=status, error=said)
            try:
                if self._keeper is not None:
                    self._keeper.save_run(self.record)
            finally:  # a bar that is not taken away leaves a terminal without its cursor
                if self._watch is not None:
                    self._watch.ended(self.record)

    def add(self, result: CaseResult) -> None:
        """Takes one more result."""
        self.tally.add(result)
        if self._knows_keys:
            self._hold(result)
        if self._writer is not None:
            self._writer.put(result)
        if self._watch is not None:
            self._watch.moved(result, self.tally)

    async def aadd(self, result: CaseResult) -> None:
        """Add results without blocking the event loop."""
        self.tally.add(result)
        if self._knows_keys:
            self._hold(result)
        if self._writer is not None:
            await self._writer.aput(result)
        if self._watch is not None:
            self._watch.moved(result, self.tally)

    def _hold(self, result: CaseResult) -> None:
        self.keys.add(result.case, result.epoch)
        if self.results is not None:
            self.results.append(result)
            if len(self.results) > MOST_HELD and self._writer is not None:
                self.results = None

    def make_run(self, results: Sequence[CaseResult]) -> Run:
        """The run as it is by now, with those of its results that are to be shown, in order."""
        return Run(
            self.record, results, self.tally, formula=self.formula, kept=self._keeper is not None
        )


@contextmanager
def open_keeper(given: RunKeeper | str | Path | None) -> Iterator[RunKeeper | None]:
    """The caller's `store`: a store, or an address, which is closed again."""
    if not isinstance(given, str | Path):
        if given is not None and not hasattr(given, "open_writer"):
            raise InvalidInput(f"store is an address or an open store, not {type(given).__name__}")
        yield given
        return
    # By its name: this room lies below the store, and only callers who keep runs load it.
    with import_module("tallymark.store").open_store(str(given)) as opened:
        yield opened


class ResultKey(NamedTuple):
    """Which result of a run it is."""

    case: str
    epoch: int


class ResultKeys:
    """Which results there are, in little memory."""

    def __init__(self, keys: Iterable[tuple[str, int]] = ()) -> None:
        self._cases: list[str] = []
        self._epochs = array("l")
        for case, epoch in keys:
            self.add(case, epoch)

    def add(self, case: str, epoch: int) -> None:
        """One more."""
        self._cases.append(case)
        self._epochs.append(epoch)

    def __len__(self) -> int:
        return len(self._cases)

    def __iter__(self) -> Iterator[ResultKey]:
        return map(ResultKey, self._cases, self._epochs)

    def __getitem__(self, place: int) -> ResultKey:
        return ResultKey(self._cases[place], self._epochs[place])


Keyed = TypeVar("Keyed", ResultKey, "CaseResult")


def sort_by_suite(record: RunRecord, results: Iterable[Keyed]) -> list[Keyed]:
    """Results as the suite has their evals; the rows of a dataset by number, then by name."""
    document: dict[str, Any] = msgspec.json.decode(record.definition or "{}")
    places = {
        entry.get("name") or f"#{number}": number
        for number, entry in enumerate(document.get("evals", []), 1)
    }

    def place(result: Keyed) -> tuple[int, int, str, int]:
        if result.case in places:
            return (places[result.case], 0, "", result.epoch)
        name, _, row = result.case.partition("[")
        row = row.rstrip("]")
        return (places.get(name, 0), int(row) if row.isdecimal() else 0, row, result.epoch)

    return sorted(results, key=place)


def make_id(letter: str) -> str:
    """A short name that nothing else has: a letter, the time in six signs, four of chance.

    Later ids sort after earlier ones, to the second, for about 34 years.
    """
    chance = "".join(secrets.choice(_ALPHABET) for _ in range(4))
    return letter + _write_number(int(time.time()), 6) + chance


def derive_id(letter: str, asked_as: str, number: int = 0) -> str:
    """The run id: the same when a request is repeated whose key is `SECONDS-CHANCE`."""
    digest = hashlib.sha256(f"{asked_as} {number}".encode()).digest()
    seconds = int(asked_as.partition("-")[0])
    return letter + _write_number(seconds, 6) + _write_number(int.from_bytes(digest), 4)


def _write_number(number: int, places: int) -> str:
    signs = ""
    for _ in range(places):
        number, rest = divmod(number, 32)
        signs = _ALPHABET[rest] + signs
    return signs

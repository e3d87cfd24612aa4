"""The results of a run in the order of its suite, read from the database when they are needed."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from tallymark.runs.ongoing_run import ResultKeys, sort_by_suite
from tallymark.runs.run import KeptResults
from tallymark.runs.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tallymark.runs.record import CaseResult, RunRecord
    from tallymark.store.store import Store


class StoredResults(KeptResults):
    """Knows which results there are; each time they are asked for, they are read again."""

    def __init__(
        self, store: Store, record: RunRecord, keys: ResultKeys, *, in_order: bool = False
    ) -> None:
        """The `keys` of every result; those that are not in order are put so when somebody asks."""
        self._store = store
        self._record = record
        self._keys = keys
        if in_order:
            self.keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[CaseResult]:
        return self._store.pick_results(self._record.id, self.keys)

    def read_one(self, place: int) -> CaseResult:
        """The one at a place."""
        return next(self._store.pick_results(self._record.id, [self.keys[place]]))

    @cached_property
    def keys(self) -> ResultKeys:
        """The case and the epoch of each, in order."""
        return ResultKeys(sort_by_suite(self._record, self._keys))

    def read_cases(self, names: Collection[str]) -> Iterator[CaseResult]:
        """The results of some cases, in order."""
        wanted = set(names)
        chosen = (key for key in self.keys if key[0] in wanted)
        return self._store.pick_results(self._record.id, chosen)

    def read_counted(self) -> Iterator[CaseResult]:
        """All in order, with nothing but what counts."""
        return iter(sort_by_suite(self._record, self.scan()))

    def scan(self) -> Iterator[CaseResult]:
        """The same in no order."""
        return self._store.counted_results(self._record.id)

    def scan_whole(self) -> Iterator[CaseResult]:
        """All that is known of each, in no order."""
        return self._store.results(self._record.id, with_traces=True)


def load_results(store: Store, record: RunRecord) -> tuple[StoredResults, Tally]:
    """The results of a run, and what they come to, in one reading."""
    tally, keys = Tally(), ResultKeys()
    names: dict[str, str] = {}
    for result in store.counted_results(record.id):
        tally.add(result)
        keys.add(names.setdefault(result.case, result.case), result.epoch)
    results = StoredResults(store, record, keys)
    tally.arrange(results.names)
    return results, tally


def find_results(store: Store, record: RunRecord) -> StoredResults:
    """The results of a run."""
    names: dict[str, str] = {}  # a name once in all epochs
    stored = store.result_statuses(record.id)
    keys = ((names.setdefault(case, case), epoch) for case, epoch, _ in stored)
    return StoredResults(store, record, ResultKeys(keys))

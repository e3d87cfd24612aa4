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
    """The keys of a run's results; results are read again each time they are iterated."""

    def __init__(
        self, store: Store, record: RunRecord, keys: ResultKeys, *, in_order: bool = False
    ) -> None:
        """`keys` are those of every result; unless `in_order`, they are sorted when needed."""
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
        return next(self._store.pick_results(self._record.id, [self.keys[place]]))

    @cached_property
    def keys(self) -> ResultKeys:
        """Case and epoch of each result, in order."""
        return ResultKeys(sort_by_suite(self._record, self._keys))

    def read_cases(self, names: Collection[str]) -> Iterator[CaseResult]:
        """The results of some cases, in order."""
        wanted = set(names)
        chosen = (key for key in self.keys if key[0] in wanted)
        return self._store.pick_results(self._record.id, chosen)

    def read_counted(self) -> Iterator[CaseResult]:
        """All results in order, with only what a tally reads."""
        return iter(sort_by_suite(self._record, self.scan()))

    def scan(self) -> Iterator[CaseResult]:
        """All results in any order, with only what a tally reads."""
        return self._store.counted_results(self._record.id)

    def scan_whole(self) -> Iterator[CaseResult]:
        """All results in any order, with traces."""
        return self._store.results(self._record.id, with_traces=True)


def load_results(store: Store, record: RunRecord) -> tuple[StoredResults, Tally]:
    """Results of a run and their tally, in one pass."""
    tally, keys = Tally(), ResultKeys()
    names: dict[str, str] = {}
    for result in store.counted_results(record.id):
        tally.add(result)
        keys.add(names.setdefault(result.case, result.case), result.epoch)
    results = StoredResults(store, record, keys)
    tally.arrange(results.names)
    return results, tally


def find_results(store: Store, record: RunRecord) -> StoredResults:
    names: dict[str, str] = {}  # a name once in all epochs
    stored = store.result_statuses(record.id)
    keys = ((names.setdefault(case, case), epoch) for case, epoch, _ in stored)
    return StoredResults(store, record, ResultKeys(keys))

"""Scoring traces on an engine: files cut into parts, or traces in lots, judged by workers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from tallymark.errors import CutShort, NotFound, Place, TraceError
from tallymark.importing import read_own_code
from tallymark.runs.record import CaseResult
from tallymark.scoring import Expected, load_scorer
from tallymark.service.bulk_work import BulkTask, BulkWork, cut_blocks, hash_work
from tallymark.suites.scored_traces import JudgedTraces, TraceJudge, name_trace
from tallymark.traces import Trace
from tallymark.traces.trace_parts import PART_BYTES, TracePart, cut_lines, has_parts, read_part

if TYPE_CHECKING:
    from tallymark.engine.engine import Engine
    from tallymark.engine.engine_choice import EngineChoice
    from tallymark.runs.record import RunRecord
    from tallymark.scoring import Scorer
    from tallymark.service.app import App
    from tallymark.store import Store
    from tallymark.store.checkpoints import Checkpoint
    from tallymark.traces.trace_facts import StatedCase
    from tallymark.traces.trace_source import OnProgress

_LOT = 256
"""Traces that are sent together, where a worker cannot read them itself."""
_RUN = "run"
"""Blocks of this kind note the runs that the results belong to."""


class BrokenRecord(NamedTuple):
    """A record that could not be read, so that it can travel."""

    message: str
    source: str | None
    line: int | None
    hint: str | None
    cut_short: bool

    @classmethod
    def of(cls, error: TraceError) -> BrokenRecord:
        """Place as in errors."""
        problem = error.problems[0]
        place = problem.place or Place()
        cut = isinstance(error, CutShort)
        return cls(problem.message, place.source, place.line, problem.hint, cut)

    def to_error(self) -> TraceError:
        """The original error."""
        kind = CutShort if self.cut_short else TraceError
        place = Place(source=self.source, line=self.line) if self.source else None
        return kind(self.message, place=place, hint=self.hint)


TraceItem = TracePart | Trace | BrokenRecord
JudgedItem = CaseResult | BrokenRecord


@dataclass(frozen=True)
class TraceScoring(BulkTask[TraceItem, JudgedItem]):
    """Scorers by reference, since a user's code does not travel."""

    results = list[JudgedItem]
    scorers: tuple[str, ...]
    threshold: float | None = None
    timeout: float | None = None
    expected: Mapping[str, Expected] = field(default_factory=dict)
    skip_broken: bool = False

    @contextmanager
    def prepare(self) -> Iterator[Callable[[list[TraceItem]], list[JudgedItem]]]:
        """Loads the scorers."""
        scorers = [load_scorer(reference) for reference in self.scorers]
        yield lambda items: self._judge(scorers, items)

    def _judge(self, scorers: Sequence[Scorer], items: list[TraceItem]) -> list[JudgedItem]:
        found: list[JudgedItem] = []
        judge = TraceJudge(
            scorers,
            threshold=self.threshold,
            timeout=self.timeout,
            expected=self.expected,
            on_broken=lambda error: found.append(BrokenRecord.of(error)),
        )

        def read() -> Iterator[Trace]:
            for item in items:
                for each in read_part(item) if isinstance(item, TracePart) else [item]:
                    if isinstance(each, Trace):
                        yield each
                    else:
                        found.append(
                            each if isinstance(each, BrokenRecord) else BrokenRecord.of(each)
                        )

        for trace, scores in judge.score_all(read()):
            found.append(judge.judge(name_trace(trace), 0, trace, scores))
        return found


@dataclass(frozen=True)
class TraceInput:
    """Source of the traces: files that can be split, or any other iterable."""

    paths: Sequence[str]
    format: str | None
    read: Callable[[], Iterable[Trace]]
    """All of them, read here."""
    some: bool = False
    """True if only some are wanted: they are selected here."""
    limit: int | None = None
    """Maximum number of traces."""
    on_progress: OnProgress | None = None
    """Called with the bytes given to workers, and their total."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """Under which keys records have what; such are read here."""

    @property
    def is_small(self) -> bool:
        """True if it finishes before workers have started."""
        files = [Path(path) for path in self.paths]
        known = "-" not in self.paths and all(each.is_file() for each in files)
        return known and sum(each.stat().st_size for each in files) <= PART_BYTES

    @property
    def identity(self) -> list[Any] | None:
        """Identity of the source, as far as known without reading it."""
        if "-" in self.paths or not all(Path(path).exists() for path in self.paths):
            return None
        facts: list[Any] = [self.format, self.some, self.limit, dict(self.fields)]
        for path in map(Path, self.paths):
            inside = sorted(path.rglob("*")) if path.is_dir() else [path]
            for each in inside:
                known = each.stat()
                # Anybody can set the time of a change, but not when that was done.
                times = (known.st_mtime_ns, known.st_ctime_ns)
                facts.append([str(each.absolute()), known.st_size, known.st_ino, *times])
        return facts

    def cut(self, engine: Engine) -> Iterator[tuple[None, list[TraceItem]]]:
        """Blocks: parts for workers to read, or lots of traces."""
        whole = [Path(path) for path in self.paths]
        here = self.some or self.fields
        if here or not all(has_parts(path, self.format) for path in whole):
            yield from ((None, lot) for lot in cut_blocks(self._read_items(), _LOT))
            return
        done, total = 0, sum(path.stat().st_size for path in whole)
        for path in whole:
            for part in cut_lines(path, content=not engine.shares_files):
                yield None, [part]
                done += part.size
                if self.on_progress is not None:
                    self.on_progress(done, total)

    def _read_items(self) -> Iterator[TraceItem]:
        try:
            yield from self.read()
        except TraceError as error:
            yield BrokenRecord.of(error)


@contextmanager
def judge_on_engine(
    choice: EngineChoice,
    scoring: TraceScoring,
    given: TraceInput,
    judged: JudgedTraces,
    *,
    app: App | None,
    on_broken: Callable[[TraceError], object],
) -> Iterator[Callable[[], object]]:
    """Score the traces of a run on workers; with an app, resume an interrupted run.

    Returns a function that deletes the blocks' checkpoints. Until it is called, the same command
    resumes this run: so call it after all results are stored.
    """
    identity, store = given.identity, None if app is None else app.store
    kept: AbstractContextManager[Checkpoint | None] = nullcontext()
    if store is not None and identity is not None:
        record = judged.record
        told = (record.suite, record.definition, record.score_formula, record.tags)
        how = (scoring.scorers, scoring.threshold, scoring.timeout, scoring.skip_broken)
        code = read_own_code(source for each in judged.scorers for source in each.sources)
        name = hash_work("traces", told, how, dict(scoring.expected), identity, code)
        kept = store.open_checkpoint(name)
    with kept as work, choice.open() as engine:
        if work is not None and store is not None:
            judged.claim = partial(_go_on, work, store)
        found = BulkWork(engine, work).do(scoring, given.cut(engine))
        judged.results = _read_results(found, scoring, on_broken)
        yield (lambda: None) if work is None else work.clear


def _go_on(
    work: Checkpoint, store: Store, new: RunRecord, stated: StatedCase | None
) -> tuple[RunRecord, bool]:
    """The run that the results of a model belong to: the one that was begun, where there is one."""
    subject = hashlib.sha256(msgspec.json.encode(stated and stated[2:])).hexdigest()
    block = f"{_RUN}:{subject}"
    if block not in work.keys:
        work.keep(block, new.id.encode())
        return new, False
    known = work.read(block).decode()
    try:
        record = store.run(known)
    except NotFound:  # nothing had come of it yet
        return msgspec.structs.replace(new, id=known), False
    store.claim_run(known)
    return msgspec.structs.replace(record, status="running", error=None), True


def _read_results(
    found: Generator[tuple[None, list[JudgedItem]]],
    scoring: TraceScoring,
    on_broken: Callable[[TraceError], object],
) -> Iterator[CaseResult]:
    with closing(found):
        for _, results in found:
            for each in results:
                if isinstance(each, CaseResult):
                    yield each
                    continue
                error = each.to_error()
                on_broken(error)
                if not (scoring.skip_broken or isinstance(error, CutShort)):
                    raise error

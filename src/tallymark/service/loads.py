"""Loading files that exports wrote: a file is read whole before anything of it is stored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from tallymark.challenges.agent_names import check_handle
from tallymark.challenges.attempt import find_below_zero
from tallymark.errors import InvalidInput, NotFound, TallymarkError
from tallymark.runs.reviews import Review
from tallymark.runs.run import final_status, outcome
from tallymark.runs.tally import Tally
from tallymark.service.operations import Resource
from tallymark.service.tables import ATTEMPTS, RESULTS, SCORES, TRACES, TableFile, read_runs
from tallymark.store.bulk_load import ENDED_UNSCORED
from tallymark.store.traces.trace_scores import StoredScore

if TYPE_CHECKING:
    from pathlib import Path

    from tallymark.challenges.attempt import Attempt
    from tallymark.runs.record import CaseResult, RunRecord
    from tallymark.service.exports import RunResult, ScoreLine
    from tallymark.store import Store
    from tallymark.store.bulk_load import LoadedRuns
    from tallymark.traces import Trace


_MOST_ATTEMPTS = 2**31 - 1
"""Attempts of one agent at one challenge, numbered by a database."""


class LoadedAttempts(NamedTuple):
    """Counts of loaded attempts."""

    new: int
    known: int
    left_out: int
    """Attempts that had not ended."""


class LoadedScores(NamedTuple):
    """Counts of loaded scores."""

    new: int
    known: int


def open_traces(path: Path) -> Iterator[Trace]:
    """The traces of a file that is right from its first row to its last."""
    file: TableFile[Trace] = TableFile(path, TRACES)
    for _ in file:
        pass
    return iter(file)


class Loads(Resource):
    """Puts files into a database: all of a file, or nothing of it."""

    def attempts(self, path: Path, challenge: str | None = None) -> LoadedAttempts:
        """Load attempts that ended, for the challenge that they name or for another."""
        self._require_database("attempts")
        file = TableFile(path, ATTEMPTS)
        agents: set[str] = set()
        names: set[str] = set()
        ended = rows = 0
        for rows, each in enumerate(file, 1):
            names.add(each.challenge)
            if each.agent not in agents:
                with _placed(file, rows):
                    check_handle(each.agent)
                agents.add(each.agent)
            if not 1 <= each.number <= _MOST_ATTEMPTS:
                raise file.refuse(rows, f"number: {each.number} counts no attempt")
            below = None if each.outcome is None else find_below_zero(each.outcome.metrics)
            if below is not None:
                raise file.refuse(rows, f"{below} is below zero")
            ended += _has_ended(each)
        if challenge is None and len(names) > 1:
            some = ", ".join(sorted(names)[:3])
            raise InvalidInput(
                f"{path} has attempts at several challenges: {some}", hint="one a file"
            )
        if not ended:
            return LoadedAttempts(0, 0, rows)
        self.store.prepare()
        loaded = self.store.loads.attempts(
            challenge or names.pop(), _Chosen(file), agents, at=self.now
        )
        return LoadedAttempts(loaded, ended - loaded, rows - ended)

    def results(self, path: Path) -> LoadedRuns:
        """Load runs with their results; a run that the file does not describe is made of them."""
        self._require_database("results")
        file = TableFile(path, RESULTS)
        described, whole = read_runs(file)
        records = {each.id: each for each in described}
        untold: dict[str, tuple[RunRecord, Tally]] = {}
        seen: set[tuple[str, str, int]] = set()
        for row, (run, result) in enumerate(file, 1):
            key = (run.id, *result.key)
            if run.id not in records:
                if whole:
                    raise file.refuse(row, f"run: the file does not describe a run {run.id!r}")
                untold.setdefault(run.id, (run, Tally()))[1].add(result)
            if key in seen or not result.case:
                raise file.refuse(row, f"the case {result.case!r} is there twice, or has no name")
            seen.add(key)
        made = [_sum_up(run, tally) for run, tally in untold.values()]
        self.store.prepare()
        done = self.store.loads.runs([*records.values(), *made], _Results(file))
        return done._replace(untold=len(made))

    def scores(self, path: Path) -> LoadedScores:
        """Load scores of traces and cases that are there, by rules that are there."""
        self._require_database("scores")
        of_traces: list[StoredScore] = []
        of_cases: list[Review] = []
        file = TableFile(path, SCORES)
        self.store.prepare()
        finder = _Finder(self.store)
        for row, line in enumerate(file, 1):
            with _placed(file, row):
                if line.of == "case":
                    of_cases.append(_make_review(line))
                else:
                    of_traces.append(finder.make_score(line))
        new = self.store.loads.scores(of_traces, of_cases)
        return LoadedScores(new, len(of_traces) + len(of_cases) - new)

    def _require_database(self, kind: str) -> None:
        if self.sender is not None:
            raise InvalidInput(
                f"{kind} are loaded into a database, not into a server",
                hint="name the database with --db",
            )


def _has_ended(attempt: Attempt) -> bool:
    if attempt.outcome is None:
        return attempt.state in ENDED_UNSCORED
    return attempt.submitted_at is not None


@dataclass(frozen=True)
class _Chosen:
    """The attempts of a file that ended; can be passed again."""

    file: TableFile[Attempt]

    def __iter__(self) -> Iterator[Attempt]:
        return filter(_has_ended, self.file)


@dataclass(frozen=True)
class _Results:
    file: TableFile[RunResult]

    def __iter__(self) -> Iterator[tuple[str, CaseResult]]:
        return ((each.run.id, each.result) for each in self.file)


def _sum_up(run: RunRecord, tally: Tally) -> RunRecord:
    """A run from its results only, without suite and formula."""
    told = outcome(tally.formula(run.score_formula), tally)
    record = replace(run, total=tally.finished, **told)
    return replace(record, status=final_status(record, stopped=False))


class _Finder:
    """Owner of scores in this database."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rules: dict[str, dict[int, tuple[int, int]]] = {}

    def make_score(self, line: ScoreLine) -> StoredScore:
        record = self._store.traces.get(line.trace_id or "")
        rule, rule_version = self._find_rule(line) if line.author is None else (0, 0)
        return StoredScore(
            trace=record.key,
            version=min(line.trace_version or record.version, record.version),
            rule_version=rule_version,
            rule=rule,
            name=line.name,
            author=line.author or "",
            value=line.value,
            label=line.label,
            reason=line.reason,
            error=line.error,
            metadata=line.metadata,
            at=line.at,
            cost=line.cost,
            started_at=record.started_at,
        )

    def _find_rule(self, line: ScoreLine) -> tuple[int, int]:
        if line.rule is None:
            raise InvalidInput("author and rule: both are missing")
        if line.rule not in self._rules:
            rule = self._store.rules.get(line.rule)
            versions = self._store.rules.versions(line.rule)
            self._rules[line.rule] = {each.number: (rule.id, each.id) for each in versions}
        found = self._rules[line.rule].get(line.rule_version or 0)
        if found is None:
            raise NotFound(f"the rule {line.rule!r} has no version {line.rule_version} here")
        return found


def _make_review(line: ScoreLine) -> Review:
    return Review(
        id="",
        run=line.run or "",
        case=line.case or "",
        epoch=line.epoch or 0,
        name=line.name,
        author=line.author or "",
        value=line.value,
        label=line.label,
        comment=line.reason or "",
        created_at=line.created_at,
        changed_at=line.at,
    )


@contextmanager
def _placed(file: TableFile[Any], row: int) -> Iterator[None]:
    """Adds the row of a file to an error."""
    try:
        yield
    except TallymarkError as error:
        raise file.refuse(row, str(error)) from None

"""Rescoring stored answers by another formula or suite, without model calls."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import finalize

import msgspec
from msgspec.structs import replace

from tallymark.errors import InvalidInput
from tallymark.event_loops import run_to_end
from tallymark.models.model import Answer, Request
from tallymark.runs.case_verdict import find_error, judge_case
from tallymark.runs.record import NOTES_TAG, CaseResult, CaseStatus, CheckResult
from tallymark.runs.run import (
    KeptResults,
    Run,
    final_status,
    outcome,
    pick_cases,
    read_counted,
    scan_results,
    scan_whole,
)
from tallymark.runs.tally import Tally
from tallymark.suites.rescore_mismatch import OtherQuestions
from tallymark.traces import Trace

if TYPE_CHECKING:
    from tallymark.suites.resolved_suite import FilledSuite


class Recheck(NamedTuple):
    """Results of another suite's checks for one stored result."""

    status: CaseStatus
    checks: tuple[CheckResult, ...]
    error: str | None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Recheck).decode
_IN_MEMORY = 8_000_000
"""Bytes of rechecks; more of them go to a file."""


class RecheckedResults(KeptResults):
    """Results with the checks of another suite, which are in a private file.

    Results without a recheck are unchanged; those not named are left out.
    """

    def __init__(self, suite: FilledSuite, results: Sequence[CaseResult]) -> None:
        self._suite = suite
        self._results = results
        self._places: dict[tuple[str, int], int | None] = {}
        self._file = SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 (it lives as long as this)
        finalize(self, self._file.close)

    def put(self, result: CaseResult, found: Recheck | None) -> None:
        """Takes one; None leaves the result as it is."""
        self._places[result.key] = None if found is None else self._file.tell()
        if found is not None:
            said = _encode(found)
            self._file.write(len(said).to_bytes(4, "big") + said)

    def arrange(self) -> None:
        """Puts all that were taken in the order of the results."""
        given = self._results
        keys = given.keys if isinstance(given, KeptResults) else (each.key for each in given)
        self._places = {key: self._places[key] for key in keys if key in self._places}

    def _read(self, place: int) -> Recheck:
        self._file.seek(place)
        return _decode(self._file.read(int.from_bytes(self._file.read(4), "big")))

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[CaseResult]:
        return self._see_anew(self._results)

    def read_one(self, place: int) -> CaseResult:
        """The one at a place."""
        key = [*self._places][place]
        return next(each for each in self.read_cases([key[0]]) if each.key == key)

    @property
    def keys(self) -> Iterable[tuple[str, int]]:
        """The case and the epoch of each, in order."""
        return self._places

    def read_cases(self, names: Collection[str]) -> Iterator[CaseResult]:
        """The results of some cases, in order."""
        return self._see_anew(pick_cases(self._results, names))

    def read_counted(self) -> Iterator[CaseResult]:
        """All in order, with nothing but what counts."""
        return self._see_anew(read_counted(self._results))

    def scan(self) -> Iterator[CaseResult]:
        """All results, in any order."""
        return self._see_anew(scan_results(self._results))

    def scan_whole(self) -> Iterator[CaseResult]:
        """All that is known of each, in no order."""
        return self._see_anew(scan_whole(self._results))

    def _see_anew(self, results: Iterable[CaseResult]) -> Iterator[CaseResult]:
        for result in results:
            if result.key not in self._places:
                continue
            place = self._places[result.key]
            if place is None:
                yield result
                continue
            status, checks, error = self._read(place)
            yield self._suite.redact(replace(result, status=status, checks=checks, error=error))


def rescore(
    before: Run,
    *,
    formula: str | None = None,
    suite: FilledSuite | None = None,
    on_progress: Callable[[int, int | None], None] | None = None,
) -> Run:
    """A run as another formula or suite sees it."""
    if suite is not None:
        return _rescore_by_suite(before, suite, formula, on_progress)
    record, tally = before.record, before.tally
    parsed = tally.formula(formula or record.score_formula, also=record.metrics)
    return Run(replace(record, **outcome(parsed, tally)), before.results, tally)


def _rescore_by_suite(
    before: Run,
    suite: FilledSuite,
    formula: str | None,
    on_progress: Callable[[int, int | None], None] | None,
) -> Run:
    record, definition = before.record, suite.definition
    questions = OtherQuestions(suite, before)
    results, tally = run_to_end(lambda: recheck(suite, before, questions, on_progress))
    if not tally.finished:
        raise InvalidInput(f"the suite has no case of the run {record.id}")
    before.tell_origin(tally)
    # What has no answer in the run has a name all the same, and no value.
    known = (*record.metrics, *definition.names.words)
    parsed = tally.formula(formula or definition.formula, also=known)
    after = replace(
        record,
        **outcome(parsed, tally, undefined=definition.undefined),
        definition=definition.to_json(),
        definition_hash=definition.hash,
        total=len(results) + questions.count_missing(before, set(results.keys)),
        tags=_make_tags(before, suite, questions),
    )
    return Run(replace(after, status=final_status(after, stopped=False)), results, tally)


def _make_tags(before: Run, suite: FilledSuite, questions: OtherQuestions) -> dict[str, Any]:
    """Notes of the run, and those on its new suite."""
    tags = {key: value for key, value in before.record.tags.items() if key != NOTES_TAG}
    if "folder" in tags:  # its datasets are found from there
        tags["folder"] = str(suite.definition.folder.resolve())
    notes = questions.tell(before)
    return {**tags, NOTES_TAG: notes} if notes else tags


async def recheck(
    suite: FilledSuite,
    before: Run,
    questions: OtherQuestions,
    on_progress: Callable[[int, int | None], None] | None = None,
) -> tuple[RecheckedResults, Tally]:
    """Check the results of the cases that the suite still has. Errors stay errors.

    `on_progress` is called with the number of checked results and their total.

    Checks of earlier turns of a conversation are unchanged: only the last answer is stored.
    """
    rechecked = RecheckedResults(suite, questions.place(before))
    tally = Tally()
    for number, given in enumerate(scan_whole(before.results)):
        if on_progress is not None:
            on_progress(number, len(before.results))
        asked = questions.find(given)
        if asked is None:
            continue
        result = questions.move(given)
        if result.status == "error" and not result.checks:
            rechecked.put(result, None)
            tally.add(result)
            continue
        case = suite.case(asked)
        # Earlier answers of a conversation are not stored, so they are empty here.
        messages = case.messages([""] * (len(case.asked) - 1)) or ()
        subject = case.subject(_restore_answer(result), Request(messages=messages), result.trace)
        checks = tuple(await case.checks.evaluate(subject))
        status = judge_case(checks)
        error = find_error(checks) if status == "error" else None
        found = Recheck(status, *suite.redact((checks, error)))
        rechecked.put(result, found)
        tally.add(replace(result, status=status, checks=found.checks, error=found.error))
    rechecked.arrange()
    tally.arrange(rechecked.names)
    return rechecked, tally


def _restore_answer(result: CaseResult) -> Answer:
    """The last answer; of a conversation, with the tokens of its last turn."""
    answer = Answer(
        output=result.output,
        latency=result.latency,
        input_tokens=result.input_tokens,
        output_tokens=result.output_tokens,
        tokens_counted_by=result.tokens_counted_by,
        cost=result.cost,
    )
    if result.trace is None or not (spans := result.trace.spans):
        return answer
    turns = [span.metadata.get("turn") for span in spans]
    last = [span for span, turn in zip(spans, turns, strict=True) if turn == turns[-1]]
    spoke = answer if turns[-1] is None else Trace(spans=last)
    return replace(
        answer,
        input_tokens=spoke.input_tokens,
        output_tokens=spoke.output_tokens,
        spans=tuple(spans),
    )

"""Checking stored answers again, by another suite's checks; no model is asked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from tallymark.models.model import Answer, Request
from tallymark.runs.case_verdict import find_error, judge_case
from tallymark.runs.record import CaseResult, CaseStatus, CheckResult
from tallymark.runs.run import KeptResults, pick_cases, read_counted, scan_results
from tallymark.runs.tally import Tally, eval_of
from tallymark.traces import Trace

if TYPE_CHECKING:
    from tallymark.suites.filled_suite import FilledSuite


class Recheck(NamedTuple):
    """What another suite's checks say of one result."""

    status: CaseStatus
    checks: tuple[CheckResult, ...]
    error: str | None


class RecheckedResults(KeptResults):
    """Results as another suite sees them; only what its checks said is in memory."""

    def __init__(
        self,
        suite: FilledSuite,
        results: Sequence[CaseResult],
        rechecks: Mapping[tuple[str, int], Recheck | None],
    ) -> None:
        """Those without a recheck stay as they are, those that are not named are left out."""
        self._suite = suite
        self._results = results
        self._rechecks = rechecks

    def __len__(self) -> int:
        return len(self._rechecks)

    def __iter__(self) -> Iterator[CaseResult]:
        return self._see_anew(self._results)

    def read_one(self, place: int) -> CaseResult:
        """The one at a place."""
        key = [*self._rechecks][place]
        return next(each for each in self.read_cases([key[0]]) if each.key == key)

    @property
    def names(self) -> Iterable[str]:
        """Every case once, in order."""
        return dict.fromkeys(case for case, _ in self._rechecks)

    def read_cases(self, names: Collection[str]) -> Iterator[CaseResult]:
        """The results of some cases, in order."""
        return self._see_anew(pick_cases(self._results, names))

    def read_counted(self) -> Iterator[CaseResult]:
        """All in order, with nothing but what counts."""
        return self._see_anew(read_counted(self._results))

    def scan(self) -> Iterator[CaseResult]:
        """The same in no order."""
        return self._see_anew(scan_results(self._results))

    def _see_anew(self, results: Iterable[CaseResult]) -> Iterator[CaseResult]:
        for result in results:
            if result.key not in self._rechecks:
                continue
            found = self._rechecks[result.key]
            if found is None:
                yield result
                continue
            status, checks, error = found
            yield self._suite.redact(replace(result, status=status, checks=checks, error=error))


async def recheck(
    suite: FilledSuite,
    results: Sequence[CaseResult],
    on_progress: Callable[[int, int | None], None] | None = None,
) -> tuple[RecheckedResults, Tally]:
    """The results of the cases that the suite still has, checked by it. Errors stay errors.

    `on_progress` is told how many were looked at, and how many there are.

    Checks of earlier turns of a conversation are left as they were: only the last answer is kept.
    """
    cases = {case.key: case for case in suite.definition.cases}
    rechecks: dict[tuple[str, int], Recheck | None] = {}
    tally = Tally()
    for number, result in enumerate(results):
        if on_progress is not None:
            on_progress(number, len(results))
        # Of scored traces, each is a row of the eval that it has the name of.
        asked = cases.get(result.case) or cases.get(eval_of(result.case) or "")
        if asked is None:
            continue
        if result.status == "error" and not result.checks:
            rechecks[result.key] = None
            tally.add(result)
            continue
        case = suite.case(asked)
        # Earlier answers of a conversation are not kept, so they are empty here.
        messages = case.messages([""] * (len(case.asked) - 1)) or ()
        subject = case.subject(_restore_answer(result), Request(messages=messages), result.trace)
        checks = tuple(await case.checks.evaluate(subject))
        status = judge_case(checks)
        error = find_error(checks) if status == "error" else None
        found = rechecks[result.key] = Recheck(status, *suite.redact((checks, error)))
        tally.add(replace(result, status=status, checks=found.checks, error=found.error))
    return RecheckedResults(suite, results, rechecks), tally


def _restore_answer(result: CaseResult) -> Answer:
    """The last answer; of a conversation, with the tokens of its last turn."""
    spans = result.trace.spans if result.trace is not None else []
    turns = [span.metadata.get("turn") for span in spans]
    last = [span for span, turn in zip(spans, turns, strict=True) if turn == turns[-1]]
    spoke = Trace(spans=last if last and turns[-1] is not None else [])
    return Answer(
        output=result.output,
        latency=result.latency or 0.0,
        input_tokens=spoke.input_tokens if spoke.spans else result.input_tokens,
        output_tokens=spoke.output_tokens if spoke.spans else result.output_tokens,
        tokens_counted_by=result.tokens_counted_by,
        cost=result.cost,
        spans=tuple(spans),
    )

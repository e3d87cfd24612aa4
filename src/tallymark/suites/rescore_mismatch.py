"""Finds questions of a suite that differ from those of the run it rescores.

Cases are paired as in comparisons (`runs.paired_cases`). An answer to a changed prompt is scored,
since most changes are small, but it is reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from tallymark.runs.ongoing_run import sort_by_suite
from tallymark.runs.paired_cases import list_prompts, pair_unnamed
from tallymark.runs.problems import name_case, name_question
from tallymark.runs.run import list_cases
from tallymark.runs.tally import eval_of
from tallymark.suites.suite_evaluation import RunLimits, plan_cases
from tallymark.text import format_count, list_some

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from tallymark.runs.record import CaseResult
    from tallymark.runs.run import Run
    from tallymark.suites.resolved_suite import FilledSuite
    from tallymark.suites.suite_definition import Case


class OtherQuestions:
    """Differing questions, by case."""

    def __init__(self, suite: FilledSuite, before: Run) -> None:
        self._suite = suite
        self._cases = {case.key: case for case in suite.definition.cases}
        self._asked = "door" not in before.record.tags  # else by prompts that are not a suite's
        self.pairs = self._pair(before)
        self.answered: set[str] = set()
        self.left_out: dict[str, str] = {}
        self.changed: set[str] = set()

    def _pair(self, before: Run) -> dict[str, str | None]:
        """The suite's keys for the unnamed cases of the run; None where it has no such case."""
        if before.record.definition_hash == self._suite.definition.hash:
            return {}
        unnamed = (case for case in self._cases.values() if case.key.startswith("#"))
        known = {case.key: self._read_prompt(case) for case in unnamed}
        return pair_unnamed(known, list_prompts(before)) if known else {}

    def _read_prompt(self, case: Case) -> str:
        prompt: str = self._suite.redact(self._suite.fill_input(case))
        return prompt

    def find(self, result: CaseResult) -> Case | None:
        """The case that a result answers; one that answers none is noted."""
        key = self.pairs.get(result.case, result.case)
        # Of scored traces, each is a row of the eval that it has the name of.
        found = key and (self._cases.get(key) or self._cases.get(eval_of(key) or ""))
        if not found:
            self.left_out[result.case] = name_case(result)
            return None
        self.answered.add(found.key)
        answered = result.input and (result.checks or result.status != "error")
        if self._asked and answered and result.input != self._read_prompt(found):
            self.changed.add(found.key)
        return found

    def move(self, result: CaseResult) -> CaseResult:
        """The result under the key that the suite has for it."""
        key = self.pairs.get(result.case)
        return result if key in (None, result.case) else replace(result, case=key)

    def place(self, before: Run) -> Sequence[CaseResult]:
        """The results of the run as the suite has their cases."""
        if all(case == key for case, key in self.pairs.items()):
            return before.results
        record = replace(before.record, definition=self._suite.definition.to_json())
        kept = (each for each in before.results if self.pairs.get(each.case, "") is not None)
        return sort_by_suite(record, map(self.move, kept))

    def count_missing(self, before: Run, known: Collection[tuple[str, int]]) -> int:
        """Number of results that the run would have more with this suite."""
        tags = before.record.tags
        if not self._asked or isinstance(tags.get("chosen"), dict):
            return 0  # the run was partial
        planned = plan_cases(self._suite, RunLimits(epochs=tags.get("epochs")))
        return sum((job.case.key, job.epoch) not in known for job in planned)

    def tell(self, before: Run) -> list[str]:
        """A sentence for each way in which they differ."""
        asked = list_cases(before.results)
        left = [self.left_out[case] for case in asked if case in self.left_out]
        lacking = [case for case in self._cases.values() if case.key not in self.answered]
        changed = [case for case in self._cases.values() if case.key in self.changed]
        told = (
            ("without an answer when it was rescored", self._name(lacking)),
            ("of the run left out, because the suite has no such case", left),
            ("judged by the answer to another prompt than the suite has now", self._name(changed)),
        )
        return [
            self._suite.redact(f"{format_count(len(names), 'case')} {how}: {list_some(names)}")
            for how, names in told
            if names
        ]

    def _name(self, cases: Sequence[Case]) -> list[str]:
        return [name_question(case.key, self._read_prompt(case)) for case in cases]

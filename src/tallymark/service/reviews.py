"""`ReviewService`: people's own scores of cases, what is worth a look, and who agrees with whom."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING

import msgspec

from tallymark.errors import NotAllowed
from tallymark.runs.agreement import Agreement, find_judge_verdict, measure_agreement
from tallymark.runs.record import CaseResult
from tallymark.store.reviews.review_tables import COMMENT
from tallymark.store.reviews.reviews import FAIL, PASS, VERDICT, CaseKey, GivenScore, Review

if TYPE_CHECKING:
    from tallymark.service.callers import Caller
    from tallymark.store import Store

MOST_REVIEWS = 2000
"""Of the newest reviews so many are compared: whoever agrees is seen by fewer."""
JUDGES, PEOPLE = "judges", "people"
_MOST_PAIRS = 12
_REVIEWERS = frozenset({"admin", "organiser", "reporter"})


class ReviewedCase(msgspec.Struct, frozen=True, kw_only=True):
    """A case with what people said of it."""

    key: CaseKey
    result: CaseResult
    reviews: list[Review]

    def judge_word(self, name: str) -> str | None:
        """What judges say of it by that name; `verdict` is all of them together."""
        passed = find_judge_verdict(self.result, None if name == VERDICT else name)
        return None if passed is None else PASS if passed else FAIL

    def list_words(self, name: str) -> dict[str, str]:
        """By person, what they say of it by that name."""
        return {
            each.author: said
            for each in self.reviews
            if each.name == name and (said := each.says) is not None
        }

    @property
    def disputed(self) -> bool:
        """Whether two of judges and people say something else of the same."""
        return any(len(words) > 1 for words in self._words_by_name())

    def _words_by_name(self) -> Iterator[set[str]]:
        for name in {each.name for each in self.reviews if each.name != COMMENT}:
            words = set(self.list_words(name).values())
            judge = self.judge_word(name)
            # A label of one's own, such as `curt`, is neither what a judge says nor against it.
            yield words | {judge} if judge is not None and words <= {PASS, FAIL} else words


class AgreementLine(msgspec.Struct, frozen=True, kw_only=True):
    """Two, and how far they agree."""

    first: str
    second: str
    agreement: Agreement
    undecided: int = 0
    """Cases on which people are split evenly among themselves."""


@dataclass(frozen=True)
class ReviewService:
    """For one tenant."""

    store: Store
    clock: Callable[[], float] = field(default_factory=lambda: time.time)

    def give(self, caller: Caller, key: CaseKey, given: GivenScore) -> tuple[Review, bool]:
        """Somebody's own score of a case; True where it is new."""
        author = self.name_author(caller)
        return self.store.reviews.give(key, author, given, at=self.clock())

    def change(self, caller: Caller, identifier: str, given: GivenScore) -> Review:
        """What somebody said, said otherwise."""
        author = self.name_author(caller)
        return self.store.reviews.change(identifier, author, given, at=self.clock())

    def withdraw(self, caller: Caller, identifier: str) -> Review:
        """Taken back."""
        return self.store.reviews.withdraw(identifier, self.name_author(caller), at=self.clock())

    def name_author(self, caller: Caller) -> str:
        """As whom somebody's scores are kept: whose key it is, whichever of theirs."""
        if not may_review(caller):
            raise NotAllowed(
                f"a key of the role {caller.role!r} may not score cases",
                hint="ask for one of a reporter",
            )
        return caller.owner or caller.name

    def read_cases(
        self, run: str | None = None, suite: str | None = None, most: int = MOST_REVIEWS
    ) -> list[ReviewedCase]:
        """Cases that people have scored, those of the newest scores first."""
        found: dict[CaseKey, list[Review]] = {}
        for each in self.store.reviews.all(limit=most, run=run):
            found.setdefault(each.key, []).append(each)
        if suite is not None:
            kept = {each: self.store.run(each).suite == suite for each in {k.run for k in found}}
            found = {key: each for key, each in found.items() if kept[key.run]}
        return self._attach(found)

    def read_unseen(
        self, run: str | None = None, suite: str | None = None, limit: int = 50
    ) -> list[ReviewedCase]:
        """Cases that models judged and nobody has scored, those of the newest runs first."""
        found: dict[CaseKey, list[Review]] = {}
        runs = [run] if run is not None else self.store.reviews.judged_runs(suite)
        for each in runs:
            if len(found) >= limit:
                break
            unseen = self.store.reviews.unseen(each, limit - len(found))
            found |= {CaseKey(each, *key): [] for key in unseen}
            for comment in self.store.reviews.of_cases(each, unseen):
                found[comment.key].append(comment)
        return self._attach(found)

    def read_case(self, key: CaseKey) -> ReviewedCase | None:
        """One case; None where there is none."""
        said = self.store.reviews.of_cases(key.run, [(key.case, key.epoch)])
        return next(iter(self._attach({key: said})), None)

    def _attach(self, found: dict[CaseKey, list[Review]]) -> list[ReviewedCase]:
        """With the results, in the order of the keys."""
        results: dict[CaseKey, CaseResult] = {}
        for run in dict.fromkeys(key.run for key in found):
            keys = [(key.case, key.epoch) for key in found if key.run == run]
            picked = self.store.pick_results(run, keys, with_traces=False)
            results |= {CaseKey(run, *each.key): each for each in picked}
        return [
            ReviewedCase(key=key, result=results[key], reviews=said)
            for key, said in found.items()
            if key in results
        ]


def may_review(caller: Caller) -> bool:
    """Whether somebody may score cases: those who look may not."""
    return caller.role in _REVIEWERS


def compare_reviewers(cases: Sequence[ReviewedCase], name: str = VERDICT) -> list[AgreementLine]:
    """People against judges first, then each of them, then people in pairs."""
    words = [(each.judge_word(name), each.list_words(name)) for each in cases]
    split = sum(bool(said) and _find_majority(said.values()) is None for _, said in words)
    joint = [
        (most, judge)
        for judge, said in words
        if judge is not None and (most := _find_majority(said.values())) is not None
    ]
    people = Counter(author for _, said in words for author in said)
    lines = [
        AgreementLine(
            first=PEOPLE, second=JUDGES, agreement=measure_agreement(joint), undecided=split
        )
    ]
    pairs = [
        *((author, JUDGES) for author in people if len(people) > 1),
        *combinations(sorted(people), 2),
    ]
    for first, second in pairs:
        common = [
            (said[first], other)
            for judge, said in words
            if first in said
            and (other := judge if second == JUDGES else said.get(second)) is not None
        ]
        if common:
            measured = measure_agreement(common)
            lines.append(AgreementLine(first=first, second=second, agreement=measured))
    # The first stays; of the others, those who have most in common.
    rest = sorted(lines[1:], key=lambda each: (each.second != JUDGES, -each.agreement.cases))
    return [lines[0], *rest[:_MOST_PAIRS]]


def _find_majority(words: Iterable[str]) -> str | None:
    """What most say; None where as many say something else."""
    ranked = Counter(words).most_common(2)
    if not ranked or (len(ranked) > 1 and ranked[0][1] == ranked[1][1]):
        return None
    return ranked[0][0]

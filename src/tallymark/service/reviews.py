"""People's own scores of cases, the queue of cases to review, and how far reviewers agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from tallymark.errors import NotFound
from tallymark.runs.agreement import Agreement, find_judge_verdict, measure_agreement
from tallymark.runs.problems import name_case
from tallymark.runs.record import CaseResult
from tallymark.runs.reviews import COMMENT, FAIL, PASS, VERDICT, CaseKey, GivenScore, Review
from tallymark.service.callers import REPORTERS, TEAM, name_author
from tallymark.service.cursors import Cursor, Limit, read_cursor, write_cursor
from tallymark.service.operations import Page, Resource, operation
from tallymark.store.reviews import read_number

RunName = Annotated[str, Meta(min_length=1, max_length=200, examples=["latest"])]
CaseName = Annotated[str, Meta(min_length=1, max_length=10_000, examples=["capital-of-france"])]
Epoch = Annotated[int, Meta(ge=0, lt=2**31)]
ScoreName = Annotated[str, Meta(min_length=1, max_length=60, examples=["verdict", "tone"])]
Identifier = Annotated[str, Meta(max_length=40)]
Value = Annotated[float, Meta(ge=0, le=1, description="From 0 to 1.", examples=[0.5])]
Label = Annotated[
    str,
    Meta(min_length=1, max_length=60, description="`pass`, `fail`, or a word of your own."),
]
Comment = Annotated[str, Meta(max_length=10_000, description="The reason.")]
Shown = Literal["open", "disputed", "unseen", "mine"]
MOST_REVIEWS = 2000
"""Newest reviews that the queue and the agreement are made from."""
JUDGES, PEOPLE = "judges", "people"
_MOST_PAIRS = 12


class ReviewCase(msgspec.Struct, frozen=True, kw_only=True):
    """A case in the review queue."""

    run: str
    case: str
    epoch: int
    title: Annotated[str, Meta(description="Name of the case, or the beginning of its input.")]
    disputed: Annotated[bool, Meta(description="Judges or people disagree about it.")]
    judge: Annotated[str | None, Meta(description="Verdict of all its judges together.")]
    people: Annotated[dict[str, str], Meta(description="Verdicts by author.")]
    mine: Annotated[str | None, Meta(description="Your own verdict.")]


class ReviewCaseDetails(ReviewCase, frozen=True, kw_only=True):
    """A case to review, with its result and its reviews."""

    result: CaseResult
    reviews: Annotated[list[Review], Meta(description="Oldest first.")]


class ReviewCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Number of cases by what they wait for."""

    disputed: int
    unseen: Annotated[int, Meta(description="At most the limit; see `more`.")]
    mine: int


class AgreementLine(msgspec.Struct, frozen=True, kw_only=True):
    """Agreement of two reviewers."""

    first: str
    second: str
    agreement: Agreement
    undecided: Annotated[int, Meta(description="Cases on which people are split evenly.")] = 0


class ReviewQueue(msgspec.Struct, frozen=True, kw_only=True):
    """Cases to review, and how far people and judges agree."""

    items: list[ReviewCase]
    counts: ReviewCounts
    more: Annotated[bool, Meta(description="More cases were judged and not reviewed.")]
    names: Annotated[list[str], Meta(description="Names of scores that can be compared.")]
    agreement: Annotated[list[AgreementLine], Meta(description="By the score that was named.")]


class Scores(Resource):
    """People's own scores of cases."""

    @operation("GET /scores", TEAM)
    def list(  # noqa: PLR0913, PLR0917 (filters of a list)
        self,
        run: RunName | None = None,
        case: CaseName | None = None,
        epoch: Epoch | None = None,
        name: ScoreName | None = None,
        author: Annotated[str, Meta(max_length=200)] | None = None,
        limit: Limit = 100,
        cursor: Cursor | None = None,
    ) -> Page[Review]:
        """List scores and comments, newest first."""
        before = read_cursor(cursor, int)
        found = self.store.reviews.all(
            run=None if run is None else self.store.run(run).id,
            case=case,
            epoch=epoch,
            name=name,
            author=author,
            before=before[0] if before else None,
            limit=limit + 1,
        )
        more = write_cursor(read_number(found[limit - 1].id)) if len(found) > limit else None
        return Page(items=found[:limit], next=more)

    @operation(
        "POST /scores",
        REPORTERS,
        rate="write",
        status=lambda review: 201 if review.is_new else 200,
        noun="score",
    )
    def give(  # noqa: PLR0913, PLR0917 (parts of a score)
        self,
        run: RunName,
        case: CaseName,
        value: Value | None = None,
        label: Label | None = None,
        comment: Comment = "",
        name: ScoreName = VERDICT,
        epoch: Epoch = 0,
    ) -> Review:
        """Score a case; another score of the same name and author replaces it."""
        key = CaseKey(self.store.run(run).id, case, epoch)
        given = GivenScore(name=name, value=value, label=label, comment=comment)
        review, new = self.store.reviews.give(key, self._author, given, at=self.now)
        return msgspec.structs.replace(review, is_new=new)

    @operation("PATCH /scores/{score}", REPORTERS, rate="write", noun="score")
    def change(
        self,
        score: Identifier,
        value: Value | None = None,
        label: Label | None = None,
        comment: Comment = "",
    ) -> Review:
        """Replace value, label and comment of your own score."""
        given = GivenScore(value=value, label=label, comment=comment)
        return self.store.reviews.change(score, self._author, given, at=self.now)

    @operation("DELETE /scores/{score}", REPORTERS, rate="write", noun="score")
    def withdraw(self, score: Identifier) -> Review:
        """Withdraw your own score; the log records that it was given."""
        return self.store.reviews.withdraw(score, self._author, at=self.now)

    @operation("GET /scores/queue", TEAM, rate="work")
    def queue(
        self,
        show: Shown = "open",
        run: RunName | None = None,
        name: ScoreName = VERDICT,
        limit: Annotated[int, Meta(ge=1, le=200)] = 50,
        newest: Annotated[int, Meta(ge=1, le=MOST_REVIEWS)] = MOST_REVIEWS,
    ) -> ReviewQueue:
        """List cases on which judges or people disagree, then judged ones without a review.

        `name` is the score that the agreement is measured on, `newest` the number of reviews that
        are read.
        """
        of = None if run is None else self.store.brief_run(run).id
        known = self.store.exists
        seen = [each for each in self._read_seen(of, newest) if each.is_scored] if known else []
        unseen = self._read_unseen(of, limit) if known else []
        disputed = [each for each in seen if each.disputed]
        # Those that the caller has not reviewed come first.
        disputed.sort(key=lambda each: self._find_mine(each) is not None)
        mine = [each for each in seen if self._find_mine(each) is not None]
        chosen = {
            "open": [*disputed, *unseen],
            "disputed": disputed,
            "unseen": unseen,
            "mine": mine,
        }[show]
        return ReviewQueue(
            items=[ReviewCase(**self._describe(each)) for each in chosen[:limit]],
            counts=ReviewCounts(disputed=len(disputed), unseen=len(unseen), mine=len(mine)),
            more=len(unseen) >= limit,
            names=sorted({VERDICT, name, *(each for case in seen for each in case.list_names())}),
            agreement=_compare_reviewers(seen, name) if seen else [],
        )

    @operation("GET /scores/case", TEAM, noun="case")
    def case(self, run: RunName, case: CaseName, epoch: Epoch = 0) -> ReviewCaseDetails:
        """Get a case of a run with its reviews."""
        key = CaseKey(self.store.run(run).id, case, epoch)
        said = self.store.reviews.of_cases(key.run, [(case, epoch)])
        for each in self._attach({key: said}):
            return ReviewCaseDetails(
                **self._describe(each),
                result=each.result,
                reviews=sorted(said, key=lambda each: (each.created_at, len(each.id), each.id)),
            )
        raise NotFound(f"the run {key.run!r} has no result of the case {case[:80]!r}")

    @property
    def _author(self) -> str:
        return name_author(self.caller)

    def _read_seen(self, run: str | None, most: int) -> Sequence[_ReviewedCase]:
        """Cases that people have scored, those with the newest scores first."""
        found: dict[CaseKey, Sequence[Review]] = {}
        for each in self.store.reviews.all(limit=most, run=run):
            found[each.key] = [*found.get(each.key, ()), each]
        return self._attach(found)

    def _read_unseen(self, run: str | None, limit: int) -> Sequence[_ReviewedCase]:
        """Cases scored by models without a review, those of the newest runs first."""
        found: dict[CaseKey, Sequence[Review]] = {}
        for each in [run] if run is not None else self.store.reviews.judged_runs():
            if len(found) >= limit:
                break
            unseen = self.store.reviews.unseen(each, limit - len(found))
            found |= {CaseKey(each, *key): () for key in unseen}
            for comment in self.store.reviews.of_cases(each, unseen):
                found[comment.key] = [*found[comment.key], comment]
        return self._attach(found)

    def _attach(self, found: dict[CaseKey, Sequence[Review]]) -> Sequence[_ReviewedCase]:
        """Read the results of cases; cases without one are left out."""
        results: dict[CaseKey, CaseResult] = {}
        for run in dict.fromkeys(key.run for key in found):
            keys = [(key.case, key.epoch) for key in found if key.run == run]
            picked = self.store.pick_results(run, keys, with_traces=False)
            results |= {CaseKey(run, *each.key): each for each in picked}
        return [
            _ReviewedCase(key, results[key], said) for key, said in found.items() if key in results
        ]

    def _find_mine(self, case: _ReviewedCase) -> str | None:
        return case.list_words(VERDICT).get(self._author)

    def _describe(self, case: _ReviewedCase) -> dict[str, Any]:
        return {
            **case.key._asdict(),
            "title": name_case(case.result, 80),
            "disputed": case.disputed,
            "judge": case.judge_word(VERDICT),
            "people": case.list_words(VERDICT),
            "mine": self._find_mine(case),
        }


class _ReviewedCase(NamedTuple):
    """A result with its reviews."""

    key: CaseKey
    result: CaseResult
    reviews: Sequence[Review]

    @property
    def is_scored(self) -> bool:
        """True if it has more than comments."""
        return any(each.name != COMMENT for each in self.reviews)

    @property
    def disputed(self) -> bool:
        """True if two judges or reviewers give different labels under the same name."""
        return any(len(words) > 1 for words in self._words_by_name())

    def judge_word(self, name: str) -> str | None:
        """The word of the judges of that name; `verdict` means all judges together."""
        passed = find_judge_verdict(self.result, None if name == VERDICT else name)
        return None if passed is None else PASS if passed else FAIL

    def list_words(self, name: str) -> dict[str, str]:
        """Words under that name, by author."""
        return {
            each.author: said
            for each in self.reviews
            if each.name == name and (said := each.says) is not None
        }

    def list_names(self) -> set[str]:
        """Names of its scores."""
        return {each.name for each in self.reviews if each.name != COMMENT}

    def _words_by_name(self) -> Iterator[set[str]]:
        for name in self.list_names():
            words = set(self.list_words(name).values())
            judge = self.judge_word(name)
            # A label of one's own, such as `curt`, neither agrees nor disagrees with a judge.
            yield words | {judge} if judge is not None and words <= {PASS, FAIL} else words


def _compare_reviewers(cases: Sequence[_ReviewedCase], name: str) -> list[AgreementLine]:
    """Compare people with judges, then each author with judges, then authors in pairs."""
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
    # The first line stays; of the others, those with most cases in common.
    rest = sorted(lines[1:], key=lambda each: (each.second != JUDGES, -each.agreement.cases))
    return [lines[0], *rest[:_MOST_PAIRS]]


def _find_majority(words: Iterable[str]) -> str | None:
    """The most frequent word; None where two are equally frequent."""
    ranked = Counter(words).most_common(2)
    if not ranked or (len(ranked) > 1 and ranked[0][1] == ranked[1][1]):
        return None
    return ranked[0][0]

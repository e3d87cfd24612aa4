"""The review queue: what do judges and people disagree on, and what has nobody looked at?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tallymark.errors import NotFound
from tallymark.runs.agreement import list_judged
from tallymark.runs.problems import name_case, show_result
from tallymark.runs.record import CaseResult, RunRecord
from tallymark.service.reviews import AgreementLine, ReviewedCase, compare_reviewers
from tallymark.store.reviews.review_tables import COMMENT
from tallymark.store.reviews.reviews import VERDICT, CaseKey
from tallymark.text import format_count
from tallymark.web.page import Outcome, Page
from tallymark.web.review_facts import (
    ReviewFacts,
    describe_reviews,
    find_author,
    give_score,
    withdraw_score,
)
from tallymark.web.run_facts import CheckFacts
from tallymark.web.run_facts import list_checks as list_check_facts
from tallymark.web.view import View
from tallymark.web.visit import Visit

SHOWN = 50
"""Cases of the queue; more follow as these are done."""
_CHOICES = ("open", "disputed", "unseen", "mine")


class QueueLine(msgspec.Struct, frozen=True, kw_only=True):
    """A case in the queue."""

    at: str
    """As the address names it."""
    run: str
    case: str
    epoch: int
    name: str
    disputed: bool
    judge: str | None
    people: dict[str, str]
    """What each says of it, by person."""
    mine: str | None


class ReviewView(View, frozen=True, kw_only=True):
    """The queue, one case of it, and how far people and judges agree."""

    show: str
    run: RunRecord | None
    """Whose cases alone are shown."""
    queue: list[QueueLine]
    counts: dict[str, int]
    more: bool
    chosen: QueueLine | None
    of: RunRecord | None
    """The run of the chosen case."""
    case: CaseResult | None
    judged: list[CheckFacts]
    reviews: list[ReviewFacts]
    before: str | None
    after: str | None
    name: str
    names: list[str]
    agreement: list[AgreementLine]
    may_review: bool
    empty: bool
    """Nothing has been judged or scored at all."""

    @property
    def place(self) -> int:
        """Of the chosen case, from 1; 0 where it is not in the queue any more."""
        places = [place for place, each in enumerate(self.queue, 1) if each == self.chosen]
        return places[0] if places else 0

    @property
    def verdict(self) -> ReviewFacts | None:
        """The visitor's own."""
        return next((each for each in self.reviews if each.mine and each.name == VERDICT), None)

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each case of the queue."""
        for each in self.queue:
            people = ", ".join(f"{who}: {said}" for who, said in each.people.items())
            yield msgspec.structs.asdict(each) | {"people": people}


def gather(visit: Visit) -> ReviewView:
    """The queue that the address asks for, and the case in it."""
    visit.visitor.require_runs()
    runs = visit.tally.runs
    show = visit.choose("show", _CHOICES)
    run = runs.brief(visit.get("run")) if visit.get("run") else None
    me = find_author(visit)
    seen, unseen = _read(visit, None if run is None else run.id)
    name = visit.get("name") or VERDICT
    queue = [_describe(each, me) for each in _choose(show, seen, unseen, me)]
    chosen = _find_chosen(visit, queue, [*seen, *unseen], me)
    found = next(
        (each for each in [*seen, *unseen] if chosen and _write_at(each) == chosen.at), None
    )
    return ReviewView(
        title=_write_heading(show, queue, more=len(unseen) >= SHOWN),
        show=show,
        run=run,
        queue=queue[:SHOWN],
        counts={
            "disputed": sum(each.disputed for each in seen),
            "unseen": len(unseen),
            "mine": sum(bool(_find_mine(each, me)) for each in seen),
        },
        more=len(unseen) >= SHOWN,
        chosen=chosen,
        of=None if chosen is None else runs.brief(chosen.run),
        case=None if found is None else show_result(found.result),
        judged=[] if found is None else list(list_check_facts(tuple(list_judged(found.result)))),
        reviews=[] if found is None else describe_reviews(visit, found.reviews),
        before=(chosen and _step(queue, chosen.at, -1)) or visit.get("last") or None,
        after=None if chosen is None else _step(queue, chosen.at, 1),
        name=name,
        names=sorted({VERDICT, name, *_list_names(seen)}),
        agreement=compare_reviewers(seen, name) if seen else [],
        may_review=me is not None,
        empty=not seen and not unseen,
    )


def _read(visit: Visit, run: str | None) -> tuple[list[ReviewedCase], list[ReviewedCase]]:
    """What people have scored, and what nobody has."""
    if not visit.app.store.exists:
        return [], []
    reviews = visit.services.reviews
    seen = [
        each for each in reviews.read_cases(run) if any(r.name != COMMENT for r in each.reviews)
    ]
    return seen, reviews.read_unseen(run, limit=SHOWN)


def _choose(
    show: str, seen: Sequence[ReviewedCase], unseen: Sequence[ReviewedCase], me: str | None
) -> list[ReviewedCase]:
    disputed = [each for each in seen if each.disputed]
    # Those on which I have not spoken yet wait for me; the others only for each other.
    disputed.sort(key=lambda each: bool(_find_mine(each, me)))
    mine = [each for each in seen if _find_mine(each, me)]
    return {
        "open": [*disputed, *unseen],
        "disputed": disputed,
        "unseen": list(unseen),
        "mine": mine,
    }[show]


def _find_mine(case: ReviewedCase, me: str | None) -> str | None:
    return None if me is None else case.list_words(VERDICT).get(me)


def _describe(case: ReviewedCase, me: str | None) -> QueueLine:
    key = case.key
    return QueueLine(
        at=_write_at(case),
        run=key.run,
        case=key.case,
        epoch=key.epoch,
        name=name_case(case.result, 80),
        disputed=case.disputed,
        judge=case.judge_word(VERDICT),
        people=case.list_words(VERDICT),
        mine=_find_mine(case, me),
    )


def _write_at(case: ReviewedCase) -> str:
    return f"{case.key.run}:{case.key.epoch}:{case.key.case}"


def _read_at(text: str) -> CaseKey:
    run, _, rest = text.partition(":")
    epoch, _, case = rest.partition(":")
    if not (epoch.isascii() and epoch.isdigit() and len(epoch) < 10):
        raise NotFound(f"{text[:80]!r} names no case", hint="open the queue without it")
    return CaseKey(run, case, int(epoch))


def _find_chosen(
    visit: Visit, queue: Sequence[QueueLine], known: list[ReviewedCase], me: str | None
) -> QueueLine | None:
    """The case that the address names, in the queue or not; else the first that waits for me."""
    at = visit.form.get("at") or visit.get("at")
    if not at:
        waiting = (each for each in queue if each.mine is None)
        return next(waiting, queue[0] if queue else None)
    if at not in {_write_at(each) for each in known}:
        found = visit.services.reviews.read_case(_read_at(at))
        if found is None:
            raise NotFound("this case is not there any more", hint="open the queue without it")
        known.append(found)
    return next(_describe(each, me) for each in known if _write_at(each) == at)


def _step(queue: Sequence[QueueLine], at: str | None, by: int) -> str | None:
    """The case before or after one; after one that is done with, the first."""
    ats = [each.at for each in queue]
    if at not in ats:
        return ats[0] if ats and by > 0 else None
    place = ats.index(at) + by
    return ats[place] if 0 <= place < len(ats) else None


def _list_names(seen: Sequence[ReviewedCase]) -> set[str]:
    return {each.name for case in seen for each in case.reviews if each.name != COMMENT}


def _write_heading(show: str, queue: Sequence[QueueLine], *, more: bool) -> str:
    if not queue:
        return "Nothing waits for a review"
    if show == "mine":
        return f"You reviewed {format_count(len(queue), 'case')}"
    disputed = sum(each.disputed for each in queue)
    unseen = len(queue) - disputed
    parts = [f"{disputed:,} disputed"] if disputed else []
    parts += [f"{unseen:,}{' or more' if more else ''} that nobody has seen"] if unseen else []
    return f"To review: {', '.join(parts)}"


def _give(visit: Visit) -> Outcome:
    """Keeps a verdict, and leads to the next case; a comment alone stays where it is."""
    at = visit.form.get("at")
    queue = gather(visit).queue
    give_score(visit, _read_at(at))
    if not visit.form.get("label"):
        return Outcome(address=visit.link(at=at))
    return Outcome(address=visit.link(at=_step(queue, at, 1), last=at))


def _withdraw(visit: Visit) -> Outcome:
    withdraw_score(visit)
    return Outcome(address=visit.link())


PAGE = Page(
    "/review",
    "review.html",
    gather,
    actions={"score": _give, "withdraw": _withdraw},
)

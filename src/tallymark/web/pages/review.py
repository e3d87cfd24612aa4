"""Page of the review queue: disputed cases, then judged cases without a review."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from tallymark.errors import NotFound
from tallymark.runs.agreement import list_judged
from tallymark.runs.problems import show_result
from tallymark.runs.record import CaseResult, RunRecord
from tallymark.runs.reviews import VERDICT, Review
from tallymark.service.reviews import ReviewCase, ReviewCaseDetails, ReviewQueue
from tallymark.text import format_count
from tallymark.web.page import Outcome, Page, View
from tallymark.web.page_request import PageRequest
from tallymark.web.run_facts import CheckFacts, find_author, give_score, withdraw_score
from tallymark.web.run_facts import list_checks as list_check_facts

SHOWN = 50
"""Cases of the queue; more follow as these are done."""
_CHOICES = ("open", "disputed", "unseen", "mine")


class ReviewView(View, frozen=True, kw_only=True):
    """The queue, one case of it, and the agreement of people and judges."""

    show: str
    run: RunRecord | None
    """Only cases of this run are shown."""
    queue: ReviewQueue
    chosen: ReviewCaseDetails | None
    of: RunRecord | None
    """The run of the chosen case."""
    case: CaseResult | None
    judged: list[CheckFacts]
    before: str | None
    after: str | None
    name: str
    author: str | None
    """The author of the visitor's own scores; None if they may not give any."""

    @property
    def place(self) -> int:
        """Place of the chosen case, from 1; 0 if it is not in the queue."""
        at = None if self.chosen is None else write_at(self.chosen)
        places = [nth for nth, each in enumerate(self.queue.items, 1) if write_at(each) == at]
        return places[0] if places else 0

    @property
    def verdict(self) -> Review | None:
        """The visitor's own verdict."""
        said = [] if self.chosen is None else self.chosen.reviews
        own = (each for each in said if each.author == self.author and each.name == VERDICT)
        return next(own, None)

    @property
    def empty(self) -> bool:
        """True if nothing has been judged or scored yet."""
        return not self.queue.agreement and not self.queue.counts.unseen

    def write_at(self, case: ReviewCase) -> str:
        """Write the case as addresses name it."""
        return write_at(case)

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each case of the queue."""
        for each in self.queue.items:
            people = ", ".join(f"{who}: {said}" for who, said in each.people.items())
            yield msgspec.structs.asdict(each) | {"people": people}


def gather(request: PageRequest) -> ReviewView:
    """Gather the queue that the query asks for, and the chosen case."""
    request.visitor.require_runs()
    scores = request.tally.scores
    show: Any = request.choose("show", _CHOICES)
    name = request.get("name") or VERDICT
    run = request.tally.runs.brief(request.get("run")) if request.get("run") else None
    queue = scores.queue(show, None if run is None else run.id, name, limit=SHOWN)
    waiting = [each for each in queue.items if each.mine is None]
    at = (
        request.form.get("at")
        or request.get("at")
        or next((write_at(each) for each in (*waiting, *queue.items)), None)
    )
    chosen = None if at is None else scores.case(*_read_at(at))
    return ReviewView(
        title=_write_heading(show, queue),
        show=show,
        run=run,
        queue=queue,
        chosen=chosen,
        of=None if chosen is None else request.tally.runs.brief(chosen.run),
        case=None if chosen is None else show_result(chosen.result),
        judged=[] if chosen is None else list(list_check_facts((*list_judged(chosen.result),))),
        before=_step(queue.items, at, -1) or request.get("last") or None,
        after=None if chosen is None else _step(queue.items, at, 1),
        name=name,
        author=find_author(request),
    )


def write_at(case: ReviewCase) -> str:
    """Write a case as addresses name it."""
    return f"{case.run}:{case.epoch}:{case.case}"


def _read_at(text: str) -> tuple[str, str, int]:
    run, _, rest = text.partition(":")
    epoch, _, case = rest.partition(":")
    known = epoch.isascii() and epoch.isdigit() and len(epoch) < 10
    if not (run and case and known):
        raise NotFound(f"{text[:80]!r} is not a case", hint="open the queue without it")
    return run, case, int(epoch)


def _step(queue: Sequence[ReviewCase], at: str | None, by: int) -> str | None:
    """Return the case before or after another; after one outside the queue, the first."""
    ats = [write_at(each) for each in queue]
    if at not in ats:
        return ats[0] if ats and by > 0 else None
    place = ats.index(at) + by
    return ats[place] if 0 <= place < len(ats) else None


def _write_heading(show: str, queue: ReviewQueue) -> str:
    if not queue.items:
        return "Nothing to review"
    if show == "mine":
        return f"You reviewed {format_count(queue.counts.mine, 'case')}"
    disputed = queue.counts.disputed if show != "unseen" else 0
    unseen = queue.counts.unseen if show != "disputed" else 0
    parts = [f"{disputed:,} disputed"] if disputed else []
    more = " or more" if queue.more else ""
    parts += [f"{unseen:,}{more} without a review"] if unseen else []
    return f"To review: {', '.join(parts)}"


def _give(request: PageRequest) -> Outcome:
    """Give a verdict and lead to the next case; a comment alone stays with its case."""
    at = request.form.get("at")
    queue = gather(request).queue.items
    give_score(request, *_read_at(at))
    if not request.form.get("label"):
        return Outcome(address=request.link(at=at))
    return Outcome(address=request.link(at=_step(queue, at, 1), last=at))


def _withdraw(request: PageRequest) -> Outcome:
    withdraw_score(request)
    return Outcome(address=request.link())


PAGE = Page(
    "/review",
    "review.html",
    gather,
    actions={"score": _give, "withdraw": _withdraw},
)

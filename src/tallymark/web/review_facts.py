"""What people said of a case, as pages show it, and what they say in a form."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tallymark.errors import InvalidInput
from tallymark.service.reviews import may_review
from tallymark.store.reviews.reviews import VERDICT, CaseKey, GivenScore, Review
from tallymark.web.visit import Visit


class ReviewFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A score or a comment of somebody."""

    id: str
    author: str
    mine: bool
    name: str
    says: str | None
    value: float | None
    label: str | None
    comment: str
    created_at: float
    changed_at: float

    @property
    def changed(self) -> bool:
        return self.changed_at > self.created_at


def describe_reviews(visit: Visit, reviews: Iterable[Review]) -> list[ReviewFacts]:
    """The oldest first; what is the visitor's own is theirs to change."""
    me = find_author(visit)
    return [
        ReviewFacts(
            id=each.id,
            author=each.author,
            mine=each.author == me,
            name=each.name,
            says=each.says,
            value=each.value,
            label=each.label,
            comment=each.comment,
            created_at=each.created_at,
            changed_at=each.changed_at,
        )
        for each in sorted(reviews, key=lambda each: (each.created_at, len(each.id), each.id))
    ]


def find_author(visit: Visit) -> str | None:
    """As whom the visitor's scores are kept; None where they may give none."""
    caller = visit.caller
    return visit.services.reviews.name_author(caller) if may_review(caller) else None


def give_score(visit: Visit, key: CaseKey) -> None:
    """Keeps what a form says of a case."""
    visit.visitor.require_runs()
    visit.services.reviews.give(visit.caller, key, _read_given(visit))


def change_score(visit: Visit) -> None:
    """Keeps what a form says instead."""
    visit.visitor.require_runs()
    visit.services.reviews.change(visit.caller, visit.form.get("score"), _read_given(visit))


def withdraw_score(visit: Visit) -> None:
    """Takes back what was said."""
    visit.visitor.require_runs()
    visit.services.reviews.withdraw(visit.caller, visit.form.get("score"))


def _read_given(visit: Visit) -> GivenScore:
    form = visit.form
    text = form.get("value")
    try:
        value = float(text) if text else None
    except ValueError:
        raise InvalidInput(f"{text[:40]!r} is no number from 0 to 1", hint="as in 0.5") from None
    return GivenScore(
        name=form.get("name") or VERDICT,
        value=value,
        label=form.get("label") or None,
        comment=form.get("comment"),
    )

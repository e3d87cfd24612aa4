"""Page of a rule: its decisions, daily totals, versions and backfills."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from tallymark.errors import InvalidInput
from tallymark.service.rules import BackfillPreview, Decision, RuleDetails
from tallymark.web.page import Outcome, Page, View
from tallymark.web.page_request import PageRequest
from tallymark.web.pages.rules import name_kind, read_definition

DECISIONS = ("scored", "failed", "filtered", "not_drawn", "capped", "waiting")
_SHOWN = 50
_A_DAY = 86_400.0


class RuleView(View, frozen=True, kw_only=True):
    """A rule with its newest decisions."""

    rule: RuleDetails
    kind: str
    says: str
    model: str
    definition: str
    decision: str
    decisions: list[Decision]
    preview: BackfillPreview | None
    since: str
    until: str
    may_change: bool

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """Return the decisions for exports."""
        return (msgspec.structs.asdict(each) for each in self.decisions)


def gather(request: PageRequest) -> RuleView:
    rules, name = request.tally.rules, request.params["rule"]
    rule = rules.get(name)
    kind = name_kind(rule.definition)
    says = rule.definition.get(kind)
    judge = says if isinstance(says, dict) else {}
    decision: Any = request.choose("decision", ("", *DECISIONS))
    since, until = _find_span(request)
    preview = (
        rules.preview_backfill(name, *_read_span(since, until)) if request.get("since") else None
    )
    return RuleView(
        title=name,
        rule=rule,
        kind=kind,
        says=str(judge.get("rubric", "") if judge else says or ""),
        model=str(judge.get("model", "")),
        definition=msgspec.json.format(msgspec.json.encode(rule.definition), indent=2).decode(),
        decision=decision,
        decisions=rules.decisions(name, decision or None, limit=_SHOWN).items,
        preview=preview,
        since=since,
        until=until,
        may_change=request.visitor.may_organise,
    )


def _find_span(request: PageRequest) -> tuple[str, str]:
    """The days that a backfill is asked for, the last week unless others are named."""
    today = datetime.fromtimestamp(request.now, UTC)
    week = datetime.fromtimestamp(request.now - 7 * _A_DAY, UTC)
    since = request.form.get("since") or request.get("since") or f"{week:%Y-%m-%d}"
    until = request.form.get("until") or request.get("until") or f"{today:%Y-%m-%d}"
    return since, until


def _read_span(since: str, until: str) -> tuple[float, float]:
    try:
        first, last = (datetime.strptime(each, "%Y-%m-%d") for each in (since, until))  # noqa: DTZ007
    except ValueError:
        raise InvalidInput("a day is written as 2026-01-31") from None
    return first.replace(tzinfo=UTC).timestamp(), last.replace(tzinfo=UTC).timestamp() + _A_DAY


def edit(request: PageRequest) -> Outcome:
    request.tally.rules.edit(request.params["rule"], read_definition(request))
    return Outcome(request.path)


def pause(request: PageRequest) -> Outcome:
    request.tally.rules.pause(request.params["rule"])
    return Outcome(request.path)


def resume(request: PageRequest) -> Outcome:
    request.tally.rules.resume(request.params["rule"])
    return Outcome(request.path)


def archive(request: PageRequest) -> Outcome:
    request.tally.rules.archive(request.params["rule"])
    return Outcome("/rules")


def backfill(request: PageRequest) -> Outcome:
    """Start a backfill; the page has shown its count and cost."""
    since, until = _find_span(request)
    request.tally.rules.backfill(request.params["rule"], *_read_span(since, until))
    return Outcome(f"{request.path}#backfills")


PAGE = Page(
    "/rules/{rule}",
    "rule.html",
    gather,
    actions={
        "edit": edit,
        "pause": pause,
        "resume": resume,
        "archive": archive,
        "backfill": backfill,
    },
)

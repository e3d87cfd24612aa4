"""One rule: what it decided for which trace and why, by day, and over the past."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from tallymark.errors import InvalidInput
from tallymark.service.rules import BackfillPreview
from tallymark.store.traces.backfills import Backfill
from tallymark.store.traces.decisions import DecisionEntry
from tallymark.store.traces.rule_days import RuleDay
from tallymark.web.page import Outcome, Page
from tallymark.web.pages.rules import name_kind, read_definition
from tallymark.web.view import View
from tallymark.web.visit import Visit

DECISIONS = ("scored", "failed", "filtered", "not_drawn", "capped", "waiting")
_SHOWN = 50
_A_DAY = 86_400.0


class RuleView(View, frozen=True, kw_only=True):
    """A rule with its newest decisions."""

    rule: dict[str, Any]
    kind: str
    says: str
    model: str
    definition: str
    decision: str
    decisions: list[DecisionEntry]
    days: list[RuleDay]
    versions: list[dict[str, Any]]
    backfills: list[Backfill]
    preview: BackfillPreview | None
    since: str
    until: str
    may_change: bool

    def list_rows(self) -> Iterable[Mapping[str, Any]]:
        """A row for each decision."""
        return (msgspec.structs.asdict(each) for each in self.decisions)


def gather(visit: Visit) -> RuleView:
    """The rule that the address names."""
    visit.visitor.require_runs()
    rules, name = visit.services.rules, visit.params["rule"]
    told = rules.get(name).to_dict()
    definition = told["definition"]
    kind = name_kind(definition)
    says = definition.get(kind)
    judge = says if isinstance(says, dict) else {}
    decision = visit.choose("decision", ("", *DECISIONS))
    since, until = _find_span(visit)
    return RuleView(
        title=name,
        rule=told,
        kind=kind,
        says=str(judge.get("rubric", "") if judge else says or ""),
        model=str(judge.get("model", "")),
        definition=_write(definition),
        decision=decision,
        decisions=list(rules.decisions(name, decision=decision or None, limit=_SHOWN)),
        days=list(rules.spending(name))[:30],
        versions=[
            {"number": each.number, "at": each.at, "author": each.author}
            for each in rules.versions(name)
        ],
        backfills=list(rules.backfills(name))[:10],
        preview=_preview(visit, name, since, until),
        since=since,
        until=until,
        may_change=visit.visitor.may_organise,
    )


def _write(definition: Mapping[str, Any]) -> str:
    return msgspec.json.format(msgspec.json.encode(definition), indent=2).decode()


def _find_span(visit: Visit) -> tuple[str, str]:
    """The days that a backfill is asked for, the last week unless others are named."""
    today = datetime.fromtimestamp(visit.now, UTC)
    week = datetime.fromtimestamp(visit.now - 7 * _A_DAY, UTC)
    since = visit.form.get("since") or visit.get("since") or f"{week:%Y-%m-%d}"
    until = visit.form.get("until") or visit.get("until") or f"{today:%Y-%m-%d}"
    return since, until


def _preview(visit: Visit, name: str, since: str, until: str) -> BackfillPreview | None:
    """What a backfill would come to, where the address asks for it."""
    if not visit.get("since"):
        return None
    return visit.services.rules.preview_backfill(name, *_read_span(since, until))


def _read_span(since: str, until: str) -> tuple[float, float]:
    try:
        first, last = (datetime.strptime(each, "%Y-%m-%d") for each in (since, until))  # noqa: DTZ007
    except ValueError:
        raise InvalidInput("a day is written as 2026-01-31") from None
    return first.replace(tzinfo=UTC).timestamp(), last.replace(tzinfo=UTC).timestamp() + _A_DAY


def edit(visit: Visit) -> Outcome:
    """A new version; what older ones decided stays."""
    visit.visitor.require_organiser()
    visit.services.rules.edit(visit.params["rule"], read_definition(visit))
    return Outcome(visit.path)


def pause(visit: Visit) -> Outcome:
    """It looks at nothing until it is resumed."""
    visit.visitor.require_organiser()
    visit.services.rules.pause(visit.params["rule"])
    return Outcome(visit.path)


def resume(visit: Visit) -> Outcome:
    """It goes on."""
    visit.visitor.require_organiser()
    visit.services.rules.resume(visit.params["rule"])
    return Outcome(visit.path)


def archive(visit: Visit) -> Outcome:
    """It ends for good; its scores stay."""
    visit.visitor.require_organiser()
    visit.services.rules.archive(visit.params["rule"])
    return Outcome("/rules")


def backfill(visit: Visit) -> Outcome:
    """Scores what was kept in a span of time; its count and cost were said before."""
    visit.visitor.require_organiser()
    since, until = _find_span(visit)
    visit.services.rules.start_backfill(visit.params["rule"], *_read_span(since, until))
    return Outcome(f"{visit.path}#backfills")


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

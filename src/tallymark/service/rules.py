"""Rules that score production traces: records and operations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from tallymark.errors import InvalidInput, NotFound, NotMeasured
from tallymark.service.callers import ORGANISERS, TEAM
from tallymark.service.cursors import Cursor, Limit, read_cursor, slice_page, write_cursor
from tallymark.service.jobs import name_owner
from tallymark.service.operations import Page, Resource, operation
from tallymark.service.rule_definitions import (
    RuleDocument,
    read_rule,
    refuse_other_name,
    write_rule,
)
from tallymark.store.traces.backfills import SCORE as SCORE_JOB
from tallymark.store.traces.rule_days import RuleCounts, find_day
from tallymark.store.traces.rule_days import RuleDay as RuleDay  # noqa: PLC0414 (a record here)
from tallymark.store.traces.rule_outcomes import TRACE_NUMBERS
from tallymark.store.traces.rule_outcomes import Decided as Decided  # noqa: PLC0414 (for callers)
from tallymark.store.traces.rule_outcomes import Decision as Decision  # noqa: PLC0414 (a record here)
from tallymark.store.traces.rules import RuleDefinition, name_author, refuse_name
from tallymark.text import format_count
from tallymark.traces.trace_query import TraceQuery, parse_query

if TYPE_CHECKING:
    from tallymark.scoring import Score
    from tallymark.service.rule_scoring import RuleScoring
    from tallymark.store.traces.backfills import Backfill as StoredBackfill
    from tallymark.store.traces.rule_outcomes import DecisionEntry
    from tallymark.store.traces.rules import Rule as StoredRule
    from tallymark.store.traces.trace_rows import TraceRecord

Name = Annotated[str, Meta(max_length=60)]
_SHOWN = 5
_SAMPLE = 20
"""Traces that the cost of a judge is estimated from while nothing was paid yet."""
_ENOUGH = 10
"""Minimum scored traces for a mean cost to replace price estimates."""
_NEWEST = 1000
"""Traces that the mean cost is taken of."""


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Number of traces by outcome; `waiting` is now, the others since the rule was made."""

    scored: int
    failed: int
    filtered: int
    not_drawn: int
    capped: int
    waiting: int


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule with its counts and cost."""

    name: str
    state: Literal["active", "paused", "deleted"]
    version: int
    owner: str
    created_at: float
    changed_at: float
    definition: dict[str, Any]
    counts: Counts
    spent: Annotated[float, Meta(description="Total cost in US dollars.")]
    today: Annotated[RuleDay | None, Meta(description="Null while nothing was decided today.")]
    trouble: Annotated[str | None, Meta(description="Reason why the rule cannot score now.")]
    again_at: Annotated[float | None, Meta(description="Time of the next try after trouble.")]


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a rule's definition."""

    number: int
    at: float
    author: str
    definition: dict[str, Any]


class Backfill(msgspec.Struct, frozen=True, kw_only=True):
    """A rule applied to stored traces of a time range, and its progress."""

    id: int
    state: Literal["running", "done", "cancelled", "superseded"]
    job: str
    author: str
    since: float
    until: float
    at: float
    expected: int
    expected_cost: float | None
    queued: int
    scored: int
    failed: int
    filtered: int
    not_drawn: int
    capped: int
    spent: float
    progress: Annotated[float, Meta(description="From 0 to 1, of what was expected.")]


class RuleDetails(Rule, frozen=True, kw_only=True):
    """A rule with its versions, backfills and daily totals."""

    versions: list[Version]
    backfills: list[Backfill]
    days: list[RuleDay]


class Spending(msgspec.Struct, frozen=True, kw_only=True):
    """Daily totals of a rule, newest first."""

    rule: str
    spent: float
    days: list[RuleDay]


class RuleTrial(msgspec.Struct, frozen=True, kw_only=True):
    """Result of trying a rule on stored traces."""

    rule: str | None
    definition: dict[str, Any]
    asks: Annotated[bool, Meta(description="True if it asks a model, so it was not tried.")]
    traces: int
    filtered: int
    drawn: int
    scores: Annotated[dict[str, dict[str, Any]], Meta(description="Some scores by trace id.")]


class BackfillPreview(msgspec.Struct, frozen=True, kw_only=True):
    """Expected count and cost of a backfill."""

    since: float
    until: float
    traces: int
    """All complete traces that began in the time range."""
    filtered: int
    not_drawn: int
    decided: int
    """Decided by this version of the rule already."""
    to_score: int
    cost: float | None
    """Expected US dollars; None if unknown."""
    cost_by: str
    """Basis of the estimate."""
    left_count: int | None
    """Traces left under today's cap; None without a cap."""
    left_cost: float | None


class PlannedBackfill(msgspec.Struct, frozen=True, kw_only=True):
    """A started backfill with its expected count and cost, or only these."""

    backfill: Backfill | None
    preview: BackfillPreview
    job: str | None = None


class Rules(Resource):
    """Rules that score production traces."""

    @operation("POST /rules", ORGANISERS, rate="write", status=201, noun="rule", body="rule")
    def add(self, rule: RuleDocument) -> Rule:
        """Create a rule that scores traces from now on."""
        name, definition, _ = self._check(rule)
        if not name:
            raise InvalidInput("the rule has no name", hint="give it one with the key 'name'")
        refuse_name(name)
        owner = name_author() if self.caller is None else name_owner(self.caller)
        return self._describe(self.store.rules.add(name, definition, owner=owner, at=self.now), {})

    @operation("POST /rules/check", ORGANISERS, rate="work", body="rule")
    def try_out(self, rule: RuleDocument) -> RuleTrial:
        """Try a rule on the newest stored traces; nothing is stored, no model is called."""
        from tallymark.service.rule_work import is_drawn  # noqa: PLC0415 (scorers are heavy)

        name, definition, scoring = self._check(rule)
        query = parse_query(definition.filter, now=self.now)
        exists = self.store.exists
        newest = self.store.traces.page(TraceQuery(), limit=_NEWEST).items if exists else []
        fits = self.store.traces.choose(query, [each.key for each in newest]) if exists else set()
        drawn = [each for each in newest if each.key in fits and is_drawn(each.id, definition.rate)]
        shown = [] if scoring.judges else drawn[:_SHOWN]
        return RuleTrial(
            rule=name or None,
            definition=write_rule(definition),
            asks=bool(scoring.judges),
            traces=len(newest),
            filtered=len(newest) - len(fits),
            drawn=len(drawn),
            scores={trace: score.to_dict() for trace, score in self._score(scoring, shown).items()},
        )

    @operation("GET /rules", TEAM)
    def list(self, limit: Limit = 100, cursor: Cursor | None = None) -> Page[Rule]:
        """List rules by name with counts and cost."""
        if not self.store.exists:
            return Page(items=[])
        counts = self.store.rule_days.sum_up()
        page = slice_page(self.store.rules.list(), limit, cursor)
        return Page(items=[self._describe(each, counts) for each in page.items], next=page.next)

    @operation("GET /rules/{name}", TEAM, noun="rule")
    def get(self, name: Name) -> RuleDetails:
        """Get a rule with its versions, backfills and daily totals."""
        stored = self.store.rules.get(name)
        return RuleDetails(
            **msgspec.structs.asdict(self._describe(stored)),
            versions=[
                Version(
                    number=each.number,
                    at=each.at,
                    author=each.author,
                    definition=write_rule(each.definition),
                )
                for each in self.store.rules.versions(name)
            ],
            backfills=[_make_backfill(each) for each in self.store.backfills.list(stored)],
            days=self.store.rule_days.list(stored),
        )

    @operation(
        "POST /rules/{name}/versions",
        ORGANISERS,
        rate="write",
        status=201,
        noun="rule",
        body="rule",
    )
    def edit(self, name: Name, rule: RuleDocument) -> Rule:
        """Create a new version of a rule; existing scores and decisions stay."""
        _, definition, _ = self._check(rule, name=name)
        return self._describe(self.store.rules.edit(name, definition, at=self.now))

    @operation("POST /rules/{name}/pause", ORGANISERS, rate="write", noun="rule")
    def pause(self, name: Name) -> Rule:
        """Pause a rule until it is resumed; traces that arrive meanwhile are not scored."""
        return self._describe(self.store.rules.set_state(name, "paused", at=self.now))

    @operation("POST /rules/{name}/resume", ORGANISERS, rate="write", noun="rule")
    def resume(self, name: Name) -> Rule:
        """Resume a rule; waiting traces are scored first."""
        return self._describe(self.store.rules.set_state(name, "active", at=self.now))

    @operation("DELETE /rules/{name}", ORGANISERS, rate="write", noun="rule")
    def archive(self, name: Name) -> Rule:
        """Archive a rule; its scores and decisions stay and the name can be reused."""
        return self._describe(self.store.rules.set_state(name, "deleted", at=self.now))

    @operation("GET /rules/{name}/decisions", TEAM)
    def decisions(
        self,
        name: Name,
        decision: Decided | None = None,
        trace: Annotated[str, Meta(max_length=200)] | None = None,
        limit: Limit = 50,
        cursor: Cursor | None = None,
    ) -> Page[Decision]:
        """List outcomes per trace with reasons, newest first."""
        before: Any = read_cursor(cursor, float, int, int, int)
        rule = self.store.rules.get(name)
        found = self.store.rule_outcomes.list(
            rule, decision=decision, trace=trace, before=before, limit=limit + 1
        )
        following = write_cursor(*found[limit - 1].place) if len(found) > limit else None
        return Page(items=[_make_decision(each) for each in found[:limit]], next=following)

    @operation("GET /rules/{name}/spending", TEAM)
    def spending(
        self, name: Name, since: Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}$")] | None = None
    ) -> Spending:
        """List daily counts and judge cost (UTC), newest first."""
        days = self.store.rule_days.list(self.store.rules.get(name), since=since)
        return Spending(rule=name, spent=math.fsum(each.spent for each in days), days=days)

    @operation("POST /rules/{name}/backfill/preview", ORGANISERS, rate="work")
    def preview_backfill(self, name: Name, since: float, until: float) -> BackfillPreview:
        """Count the stored traces that a backfill would score, and estimate the cost."""
        if not since < until:
            raise InvalidInput("the time range is empty", hint="since must come before until")
        return _Preview(self, self.store.rules.get(name)).count(since, until)

    @operation(
        "POST /rules/{name}/backfill",
        ORGANISERS,
        rate="write",
        status=202,
    )
    def backfill(self, name: Name, since: float, until: float) -> PlannedBackfill:
        """Score stored traces of a time range, one backfill of a rule at a time."""
        expected = self.preview_backfill(name, since, until)
        made = self.store.backfills.add(
            self.store.rules.get(name),
            since=since,
            until=until,
            expected=expected.to_score,
            expected_cost=expected.cost,
            at=self.now,
        )
        return PlannedBackfill(backfill=_make_backfill(made), preview=expected, job=made.job)

    @operation("GET /rules/{name}/backfills", TEAM)
    def backfills(
        self, name: Name, limit: Limit = 100, cursor: Cursor | None = None
    ) -> Page[Backfill]:
        """List backfills of a rule with progress, newest first."""
        found = self.store.backfills.list(self.store.rules.get(name))
        return slice_page([_make_backfill(each) for each in found], limit, cursor)

    @operation("GET /rules/{name}/backfills/{number}", TEAM, noun="backfill")
    def get_backfill(self, name: Name, number: Annotated[int, Meta(ge=1, le=2**53)]) -> Backfill:
        """Get a backfill with its progress."""
        rule = self.store.rules.get(name)
        found = self.store.backfills.get(number)
        if found.rule != rule.id:
            raise NotFound(f"the rule {name!r} has no backfill {number}")
        return _make_backfill(found)

    def _check(
        self, given: Mapping[str, Any], *, name: str = ""
    ) -> tuple[str, RuleDefinition, RuleScoring]:
        """Read a rule and prepare its scoring. Only on one's own store may it name files."""
        from tallymark.service.rule_scoring import open_scoring  # noqa: PLC0415 (scorers are heavy)

        settings = self.services.settings
        given = {key: value for key, value in given.items() if value is not None}
        named, definition = read_rule(given, folder=Path.cwd() if settings.own else None)
        refuse_other_name(named, name)
        called = name or named
        return (
            called,
            definition,
            open_scoring(None, definition, self.store, settings.rules, name=called),
        )

    def _score(self, scoring: RuleScoring, shown: Sequence[TraceRecord]) -> dict[str, Score]:
        from tallymark.service.rule_scoring import make_context  # noqa: PLC0415 (scorers are heavy)

        if not shown:
            return {}
        if scoring.formula is not None:
            return {
                each.id: scoring.score_numbers(
                    {column: getattr(each, column) for column in TRACE_NUMBERS}
                )
                for each in shown
            }
        traces = [
            trace for _, _, trace in self.store.traces.load_many((each.key, 0) for each in shown)
        ]
        scores = scoring.score_all([make_context(trace) for trace in traces])
        return {trace.trace_id: score for trace, score in zip(traces, scores, strict=True)}

    def _describe(self, rule: StoredRule, counts: Mapping[int, RuleCounts] | None = None) -> Rule:
        known = self.store.rule_days.sum_up() if counts is None else counts
        found = known.get(rule.id, RuleCounts())
        today = find_day(self.now)
        days = self.store.rule_days.list(rule, since=today, limit=1)
        return Rule(
            name=rule.name,
            state=rule.state,
            version=rule.version,
            owner=rule.owner,
            created_at=rule.created_at,
            changed_at=rule.changed_at,
            definition=write_rule(rule.definition),
            counts=Counts(**{name: getattr(found, name) for name in Counts.__struct_fields__}),
            spent=found.spent,
            today=days[0] if days and days[0].day == today else None,
            trouble=rule.trouble or self._find_set_aside(rule),
            again_at=rule.again_at,
        )

    def _find_set_aside(self, rule: StoredRule) -> str | None:
        job = self.store.jobs.find(SCORE_JOB, str(rule.id))
        if job is None or job.state != "set_aside":
            return None
        return f"its job {job.id} was set aside: {job.error}; retry the job once this is fixed"


class _Preview:
    """Count and cost that a backfill would have."""

    def __init__(self, rules: Rules, rule: StoredRule) -> None:
        self._services = rules.services
        self._store = rules.store
        self._rule = rule

    def count(self, since: float, until: float) -> BackfillPreview:
        """Count all traces of a time range."""
        from tallymark.service.rule_work import RuleWork  # noqa: PLC0415 (scorers are heavy)

        work = RuleWork(self._store, self._services.settings.rules, self._services.clock)
        traces = filtered = not_drawn = decided = 0
        wanted: list[tuple[int, int]] = []
        to_score = 0
        chance = Random(0)  # noqa: S311 (the same traces, asked again)
        for seen in self._store.backfills.walk(since, until):
            looked = work.look(self._rule, seen)
            known = self._store.rule_outcomes.find_known(self._rule, looked.waiting)
            fresh = [pair for pair in looked.waiting if known.get(pair, "capped") == "capped"]
            traces += len(seen)
            filtered += len(looked.filtered)
            not_drawn += len(looked.not_drawn)
            decided += len(looked.waiting) - len(fresh)
            for nth, pair in enumerate(fresh, to_score):  # each as likely as another
                if nth < _SAMPLE:
                    wanted.append(pair)
                elif (place := chance.randint(0, nth)) < _SAMPLE:
                    wanted[place] = pair
            to_score += len(fresh)
        cost, cost_by = self._expect(wanted, to_score)
        left_count, left_cost = self._find_room()
        return BackfillPreview(
            since=since,
            until=until,
            traces=traces,
            filtered=filtered,
            not_drawn=not_drawn,
            decided=decided,
            to_score=to_score,
            cost=cost,
            cost_by=cost_by,
            left_count=left_count,
            left_cost=left_cost,
        )

    def _expect(self, sample: list[tuple[int, int]], count: int) -> tuple[float | None, str]:
        from tallymark.service.rule_scoring import (  # noqa: PLC0415 (as above)
            LIKELY_OUTPUT,
            make_context,
            open_scoring,
        )

        rule = self._rule
        scoring = open_scoring(rule, rule.definition, self._store, self._services.settings.rules)
        if not scoring.is_paid or not count:
            return 0.0, "it asks no model" if not scoring.is_paid else "there is nothing to score"
        # Only costs of this version: another one may have used another judge.
        found = self._store.rule_outcomes.find_costs(rule, _NEWEST)
        paid = [rule.definition.reserve if each is None else each for each in found]
        known = [each for each in paid if each is not None]
        if len(known) >= _ENOUGH:
            mean = math.fsum(known) / len(known)
            return mean * count, f"the mean of {len(known):,} traces so far"
        likely = []
        for _, _, trace in self._store.traces.load_many(sample):
            with suppress(NotMeasured):  # such a trace is not sent to a judge
                likely.append(scoring.find_likely(make_context(trace)))
        if not likely or None in likely:
            return None, "the price of this judge is unknown"
        mean = sum(each or 0.0 for each in likely) / len(likely)
        by = (
            f"prices, the length of {format_count(len(likely), 'trace')} and a guess of"
            f" {LIKELY_OUTPUT} tokens for an answer"
        )
        return mean * count, by if scoring.judges else "what is set aside for each"

    def _find_room(self) -> tuple[int | None, float | None]:
        said = self._rule.definition
        today = find_day(self._services.now)
        days = self._store.rule_days.list(self._rule, since=today, limit=1)
        used, spent = (days[0].scored + days[0].failed, days[0].spent) if days else (0, 0.0)
        count = None if said.cap_count is None else max(0, said.cap_count - used)
        cost = None if said.cap_cost is None else max(0.0, said.cap_cost - spent)
        return count, cost


def _make_backfill(stored: StoredBackfill) -> Backfill:
    values = {
        name: getattr(stored, name) for name in Backfill.__struct_fields__ if name != "progress"
    }
    return Backfill(**values, progress=stored.progress)


def _make_decision(entry: DecisionEntry) -> Decision:
    return Decision(**{name: getattr(entry, name) for name in Decision.__struct_fields__})

"""`RuleService`: rules for every door: made, edited, paused, looked into, applied to the past."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from tallymark.errors import InvalidInput, NotFound, NotMeasured
from tallymark.scoring import Score
from tallymark.service.rule_definitions import read_rule, refuse_other_name, write_rule
from tallymark.store.traces.decisions import TRACE_NUMBERS
from tallymark.store.traces.rule_days import RuleCounts, find_day
from tallymark.store.traces.rule_jobs import SCORE as SCORE_JOB
from tallymark.store.traces.rules import RuleDefinition, name_author, refuse_name
from tallymark.text import format_count
from tallymark.traces.trace_query import TraceQuery, parse_query

if TYPE_CHECKING:
    from tallymark.service.remote_suites import RemoteRules
    from tallymark.service.rule_scoring import RuleScoring
    from tallymark.store import Store
    from tallymark.store.traces.backfills import Backfill
    from tallymark.store.traces.decisions import DecisionEntry
    from tallymark.store.traces.rule_days import RuleDay
    from tallymark.store.traces.rules import Rule, RuleVersion

_SHOWN = 5
_SAMPLE = 20
"""Traces by which a cost is estimated that nobody has paid yet."""
_ENOUGH = 10
"""Scored traces whose mean cost says more than prices do."""
_NEWEST = 1000
"""Traces of which the mean cost is taken."""


class RuleReport(msgspec.Struct, frozen=True, kw_only=True):
    """A rule with what it decided and spent."""

    rule: Rule
    counts: RuleCounts
    """Since it was made; `waiting` is now."""
    today: RuleDay | None
    """None while nothing was decided today (UTC)."""
    trouble: str | None
    """What keeps it from scoring."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        rule = self.rule
        return {
            "name": rule.name,
            "state": rule.state,
            "version": rule.version,
            "owner": rule.owner,
            "created_at": rule.created_at,
            "changed_at": rule.changed_at,
            "definition": write_rule(rule.definition),
            "counts": {
                name: getattr(self.counts, name)
                for name in RuleCounts.__struct_fields__
                if name != "spent"
            },
            "spent": self.counts.spent,
            "today": None if self.today is None else msgspec.to_builtins(self.today),
            "trouble": self.trouble,
            "again_at": rule.again_at,
        }


class RuleTrial(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule would make of kept traces."""

    name: str
    definition: RuleDefinition
    asks: bool
    """Whether it asks a model, and was not tried for that."""
    looked: int
    filtered: int
    drawn: int
    scores: tuple[tuple[str, Score], ...]
    """Of the newest that are drawn, by the traces' ids."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "rule": self.name or None,
            "definition": write_rule(self.definition),
            "asks": self.asks,
            "traces": self.looked,
            "filtered": self.filtered,
            "drawn": self.drawn,
            "scores": {trace: score.to_dict() for trace, score in self.scores},
        }


class BackfillPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What a backfill would come to."""

    since: float
    until: float
    traces: int
    """All that began in the span and are settled."""
    filtered: int
    not_drawn: int
    decided: int
    """By this version of the rule already."""
    to_score: int
    cost: float | None
    """US dollars, as expected; None where nobody knows."""
    cost_by: str
    """What the expectation rests on, in words."""
    left_count: int | None
    """How many traces the caps of today still leave room for; None where there is none."""
    left_cost: float | None


@dataclass(frozen=True)
class RuleService:
    """The rules of one tenant."""

    store: Store
    remote: RemoteRules
    own: bool = False
    """Whether whoever asks has the database: then rules may name files and what is installed."""
    clock: Callable[[], float] = field(default_factory=lambda: time.time)

    def check(
        self, given: Mapping[str, Any] | Path, *, name: str = ""
    ) -> tuple[str, RuleDefinition, RuleScoring]:
        """A rule as it was written, ready to score; everything that is wrong is refused.

        Its name is the one that is given, or else the one that it has itself.
        """
        from tallymark.service.rule_scoring import open_scoring  # noqa: PLC0415 (scorers are heavy)

        folder = None
        if self.own:
            folder = given.absolute().parent if isinstance(given, Path) else Path.cwd()
        named, said = read_rule(given, folder=folder)
        refuse_other_name(named, name)
        made = open_scoring(None, said, self.store, self.remote, name=name or named)
        return name or named, said, made

    def try_out(self, given: Mapping[str, Any] | Path, *, limit: int = 1000) -> RuleTrial:
        """What a rule would make of the newest kept traces; models are not asked, nothing kept."""
        from tallymark.service.rule_scoring import make_context  # noqa: PLC0415 (scorers are heavy)
        from tallymark.service.rule_work import is_drawn  # noqa: PLC0415

        name, said, scoring = self.check(given)
        query = parse_query(said.filter, now=self.clock())
        there = self.store.exists
        looked = self.store.traces.page(TraceQuery(), limit=limit).items if there else []
        fits = self.store.traces.choose(query, [each.key for each in looked]) if there else set()
        drawn = [each for each in looked if each.key in fits and is_drawn(each.trace_id, said.rate)]
        shown = [] if scoring.judges else drawn[:_SHOWN]
        scores: list[tuple[str, Score]] = []
        if scoring.formula is not None:
            for each in shown:
                told = {column: getattr(each, column) for column in TRACE_NUMBERS}
                scores.append((each.trace_id, scoring.score_numbers(told)))
        else:
            loaded = list(self.store.traces.load_many((each.key, 0) for each in shown))
            contexts = [make_context(trace) for _, _, trace in loaded]
            named = [trace.trace_id for _, _, trace in loaded]
            scores = list(zip(named, scoring.score_all(contexts), strict=True)) if shown else []
        return RuleTrial(
            name=name,
            definition=said,
            asks=bool(scoring.judges),
            looked=len(looked),
            filtered=len(looked) - len(fits),
            drawn=len(drawn),
            scores=tuple(scores),
        )

    def add(
        self, given: Mapping[str, Any] | Path, *, name: str = "", owner: str = ""
    ) -> RuleReport:
        """Makes a rule, which scores from now on, on its owner's account."""
        called, said, _ = self.check(given, name=name)
        if not called:
            raise InvalidInput("the rule has no name", hint="give it one with the key 'name'")
        refuse_name(called)
        rule = self.store.rules.add(called, said, owner=owner or name_author(), at=self.clock())
        return self._report(rule, {})

    def edit(self, name: str, given: Mapping[str, Any] | Path) -> RuleReport:
        """Makes a new version of a rule: what older ones decided and scored stays."""
        _, said, _ = self.check(given, name=name)
        return self._report(self.store.rules.edit(name, said, at=self.clock()))

    def pause(self, name: str) -> RuleReport:
        """Ends looking and scoring until it is resumed: what comes meanwhile is not looked at."""
        return self._report(self.store.rules.set_state(name, "paused", at=self.clock()))

    def resume(self, name: str) -> RuleReport:
        """Goes on, first with what still waited."""
        return self._report(self.store.rules.set_state(name, "active", at=self.clock()))

    def archive(self, name: str) -> RuleReport:
        """Ends a rule for good; its scores and decisions stay, and its name is free."""
        return self._report(self.store.rules.set_state(name, "deleted", at=self.clock()))

    def list(self) -> list[RuleReport]:
        """All rules by name, each with what it decided and spent."""
        counts = self.store.rule_days.sum_up()
        return [self._report(each, counts) for each in self.store.rules.list()]

    def get(self, name: str) -> RuleReport:
        """One rule."""
        return self._report(self.store.rules.get(name))

    def versions(self, name: str) -> Sequence[RuleVersion]:
        """What it said, newest first."""
        return self.store.rules.versions(name)

    def decisions(
        self,
        name: str,
        *,
        decision: str | None = None,
        trace: str | None = None,
        before: tuple[float, int, int, int] | None = None,
        limit: int = 50,
    ) -> Sequence[DecisionEntry]:
        """What it decided and why, newest first."""
        rule = self.store.rules.get(name)
        return self.store.decisions.list(
            rule, decision=decision, trace=trace, before=before, limit=limit
        )

    def spending(self, name: str, *, since: str | None = None) -> Sequence[RuleDay]:
        """Its days, newest first: what it decided and what judges cost."""
        return self.store.rule_days.list(self.store.rules.get(name), since=since)

    def preview_backfill(self, name: str, since: float, until: float) -> BackfillPreview:
        """How many kept traces of a span of time a rule would score, and what that may cost."""
        rule = self.store.rules.get(name)
        return _Preview(self, rule).count(*_check_span(since, until))

    def start_backfill(self, name: str, since: float, until: float) -> Backfill:
        """Queues a backfill; one at a time for each rule."""
        rule = self.store.rules.get(name)
        expected = self.preview_backfill(name, since, until)
        return self.store.backfills.add(
            rule,
            since=since,
            until=until,
            expected=expected.to_score,
            expected_cost=expected.cost,
            at=self.clock(),
        )

    def backfills(self, name: str) -> Sequence[Backfill]:
        """Those of a rule, newest first."""
        return self.store.backfills.list(self.store.rules.get(name))

    def find_backfill(self, name: str, number: int) -> Backfill:
        """How far one is."""
        rule = self.store.rules.get(name)
        found = self.store.backfills.get(number)
        if found.rule != rule.id:
            raise NotFound(f"the rule {name!r} has no backfill {number}")
        return found

    def _report(self, rule: Rule, counts: Mapping[int, RuleCounts] | None = None) -> RuleReport:
        known = self.store.rule_days.sum_up() if counts is None else counts
        today = find_day(self.clock())
        days = self.store.rule_days.list(rule, since=today, limit=1)
        return RuleReport(
            rule=rule,
            counts=known.get(rule.id, RuleCounts()),
            today=days[0] if days and days[0].day == today else None,
            trouble=rule.trouble or self._find_set_aside(rule),
        )

    def _find_set_aside(self, rule: Rule) -> str | None:
        job = self.store.jobs.find(SCORE_JOB, str(rule.id))
        if job is None or job.state != "set_aside":
            return None
        return f"its job {job.id} was set aside: {job.error}; try it again once that is mended"


class _Preview:
    """Counts what a backfill would do."""

    def __init__(self, service: RuleService, rule: Rule) -> None:
        self._service = service
        self._store = service.store
        self._rule = rule

    def count(self, since: float, until: float) -> BackfillPreview:
        """All of it, a lot at a time."""
        from tallymark.service.rule_work import RuleWork  # noqa: PLC0415 (scorers are heavy)

        work = RuleWork(self._store, self._service.remote, self._service.clock)
        traces = filtered = not_drawn = decided = 0
        wanted: list[tuple[int, int]] = []
        to_score = 0
        chance = Random(0)  # noqa: S311 (the same traces, asked again)
        for seen in self._store.backfills.walk(since, until):
            looked = work.look(self._rule, seen)
            known = self._store.decisions.find_known(self._rule, looked.waiting)
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
        scoring = open_scoring(rule, rule.definition, self._store, self._service.remote)
        if not scoring.is_paid or not count:
            return 0.0, "it asks no model" if not scoring.is_paid else "there is nothing to score"
        # Only what this version paid: another one may have asked another judge.
        found = self._store.decisions.find_costs(rule, _NEWEST)
        paid = [rule.definition.reserve if each is None else each for each in found]
        known = [each for each in paid if each is not None]
        if len(known) >= _ENOUGH:
            mean = math.fsum(known) / len(known)
            return mean * count, f"the mean of {len(known):,} traces so far"
        likely = []
        for _, _, trace in self._store.traces.load_many(sample):
            with suppress(NotMeasured):  # nobody is asked about such a trace
                likely.append(scoring.find_likely(make_context(trace)))
        if not likely or None in likely:
            return None, "nobody knows what this judge costs"
        mean = sum(each or 0.0 for each in likely) / len(likely)
        by = (
            f"prices, the length of {format_count(len(likely), 'trace')} and a guess of"
            f" {LIKELY_OUTPUT} tokens for an answer"
        )
        return mean * count, by if scoring.judges else "what is set aside for each"

    def _find_room(self) -> tuple[int | None, float | None]:
        said = self._rule.definition
        today = find_day(self._service.clock())
        days = self._store.rule_days.list(self._rule, since=today, limit=1)
        used, spent = (days[0].scored + days[0].failed, days[0].spent) if days else (0, 0.0)
        count = None if said.cap_count is None else max(0, said.cap_count - used)
        cost = None if said.cap_cost is None else max(0.0, said.cap_cost - spent)
        return count, cost


def describe_version(version: RuleVersion) -> dict[str, Any]:
    """Plain data for JSON."""
    return {
        "number": version.number,
        "at": version.at,
        "author": version.author,
        "definition": write_rule(version.definition),
    }


def describe_backfill(backfill: Backfill) -> dict[str, Any]:
    """Plain data for JSON, without what belongs to the tables."""
    told: dict[str, Any] = msgspec.to_builtins(backfill)
    for name in ("rule", "rule_version", "last_key"):
        del told[name]
    return told | {"progress": backfill.progress}


def _check_span(since: float, until: float) -> tuple[float, float]:
    if not since < until:
        raise InvalidInput("the span of time is empty", hint="since must come before until")
    return since, until

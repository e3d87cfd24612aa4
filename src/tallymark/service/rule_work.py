"""Work for rules: look at new traces, score due ones, and backfill stored ones."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tallymark.errors import Busy, NotMeasured, TallymarkError
from tallymark.judging.spending import find_pause, find_spending
from tallymark.scoring import EvalContext, Score
from tallymark.service.rule_scoring import RuleScoring, is_outage, make_context, open_scoring
from tallymark.service.workers import find_delay
from tallymark.store.traces.rule_outcomes import DueTrace, Looked, Outcome, explain_drawn
from tallymark.traces.trace_query import parse_query

if TYPE_CHECKING:
    from tallymark.engine.engine import Engine
    from tallymark.service.remote_suites import RemoteRules
    from tallymark.store import Store
    from tallymark.store.traces.backfills import Backfill
    from tallymark.store.traces.rules import Rule
    from tallymark.traces import Trace

_log = logging.getLogger("tallymark.rules")
LOOKED_AT = 2_000
"""Traces at which rules look in one transaction."""
_QUICK_LOT, _SLOW_LOT, _STORED_AT_ONCE = 2_000, 128, 16
"""Traces scored between two looks for more, without waiting and with waiting; and the number of
scores of the latter stored together, which a crashed worker repeats for nothing.
"""
_SPREAD = 4
"""Lots for each worker of an engine, between two looks for more."""
SLICE = 20.0
"""Seconds after which a job makes room for others."""
_MOST_TRIES = 100
_PAUSED = 30.0
_LONGEST_PAUSE = 86_400.0
_OUT_OF = 100.0
_Pairs = Sequence[tuple[int, int]]
Seen = Sequence[tuple[int, int, str]]
"""Traces by key, version and id."""


def is_drawn(trace_id: str, rate: float) -> bool:
    """True if a trace is in a sample of this rate: lower rates are subsets of higher ones.

    It depends only on its id, the same for every rule.
    """
    if rate >= _OUT_OF:
        return True
    digest = hashlib.sha256(trace_id.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8]) * _OUT_OF < rate * 2**64


@dataclass
class RuleWork:
    """The rules of one tenant, at work in one job."""

    store: Store
    rules: RemoteRules
    clock: Callable[[], float] = field(default_factory=lambda: time.time)
    stopped: Callable[[], bool] = lambda: False
    """True if a stop was requested."""
    seconds: float = SLICE
    engine: Engine | None = None
    """Engine for very many traces; None is this process."""
    _began: float = field(default_factory=time.monotonic)
    _opened: tuple[tuple[int, int], RuleScoring | None] | None = None
    """The version of a rule by which it scored last, None where that cannot be made."""

    @property
    def _over(self) -> bool:
        return self.stopped() or time.monotonic() - self._began >= self.seconds

    def decide(self) -> dict[str, Any]:
        """Looks at all new traces with all active rules."""
        looked = waiting = 0
        while not self._over and (seen := self.store.rule_outcomes.undecided(LOOKED_AT)):
            rules = self.store.rules.list(state="active")
            pairs = [(key, version) for key, version, _ in seen]
            found = [self.look(each, seen) for each in rules]
            waiting += self.store.rule_outcomes.look(pairs, found, now=self.clock())
            looked += len(seen)
        return {"traces": looked, "waiting": waiting}

    def look(self, rule: Rule, seen: Seen) -> Looked:
        """A rule's decision on new traces."""
        said = rule.definition
        fits: set[int] | None = None
        if said.filter:
            query = parse_query(said.filter, now=self.clock())
            fits = self.store.traces.choose(query, [key for key, _, _ in seen])
        found = Looked(rule, [], [], [])
        for key, version, trace_id in seen:
            if fits is not None and key not in fits:
                found.filtered.append((key, version))
            elif is_drawn(trace_id, said.rate):
                found.waiting.append((key, version))
            else:
                found.not_drawn.append((key, version))
        return found

    def score(self, rule_id: int, backfill: int = 0) -> int:
        """Scores what a rule is to score by now, until its time is over; how many were scored."""
        scored, probing = 0, True
        while not self._over:
            rule = self.store.rules.find(rule_id)
            if rule is None or rule.state != "active":
                break
            scoring = self._open(rule)
            if scoring is None:
                break
            lot = _QUICK_LOT if scoring.is_quick and not scoring.is_paid else _SLOW_LOT
            if self.engine is not None and scoring.may_travel:
                lot = _QUICK_LOT * _SPREAD * self.engine.workers
            if rule.trouble is not None and probing:
                lot = 1  # a judge that did not answer gets one trace before it gets many
            probing = False
            due = self.store.rule_outcomes.due(rule, now=self.clock(), limit=lot, backfill=backfill)
            if not due:
                break
            fresh = self._choose_fresh(rule, due, backfill)
            if not fresh:
                continue
            done = _ScoredLot(self, rule, scoring, backfill).score(fresh)
            scored += done.stored
            if done.outage is not None:
                self._report(rule, done.outage, done.pause)
                break
            if rule.trouble is not None and done.stored:
                self.store.rules.clear_trouble(rule.id)
        return scored

    def _choose_fresh(self, rule: Rule, due: Sequence[DueTrace], backfill: int) -> list[DueTrace]:
        """Decisions that are still current; others need no score."""
        old = [
            each
            for each in due
            if each.newest != each.version or each.rule_version < rule.version_id
        ]
        if old:
            self.store.rule_outcomes.let_go(rule, old, now=self.clock(), backfill=backfill)
        # A version of the rule that came just now is looked up with the next lot.
        return [
            each
            for each in due
            if each.newest == each.version and each.rule_version == rule.version_id
        ]

    def _open(self, rule: Rule) -> RuleScoring | None:
        if self._opened is not None and self._opened[0] == (rule.id, rule.version_id):
            return self._opened[1]
        made = None
        try:
            made = open_scoring(rule, rule.definition, self.store, self.rules)
        except Busy:  # the database is away: that is no trouble of the rule's
            raise
        except TallymarkError as error:
            self._report(rule, str(error))
        self._opened = (rule.id, rule.version_id), made
        return made

    def _report(self, rule: Rule, trouble: str, pause: float = 0.0) -> None:
        delay = max(pause, find_delay(self.store.rules.count_failures(rule.id)))
        self.store.rules.report_trouble(rule.id, trouble, self.clock(), delay)

    def backfill(self, number: int) -> dict[str, Any]:
        """Goes on with a backfill: looks at the next traces, and scores what it found."""
        while True:
            found = self.store.backfills.get(number)
            if found.state != "running":
                break
            rule = self._find_rule(found)
            if rule is None:
                self.store.backfills.end(number, "superseded")
                break
            if rule.state == "paused" or (rule.again_at or 0.0) > self.clock():
                return {"status": "queued", "after": _PAUSED}
            self.score(rule.id, number)
            if self._over:
                return {"status": "queued", "after": 0.5}
            if self._look_further(rule, found):
                continue
            if not self.store.rule_outcomes.count_waiting(rule, number):
                if self._find_rule(found) is not None:  # else that is why nothing waits
                    self.store.backfills.end(number, "done")
            else:  # for a judge that does not answer, or for what others have set aside
                return {"status": "queued", "after": 2.0}
        return _describe_backfill(self.store.backfills.get(number))

    def _find_rule(self, backfill: Backfill) -> Rule | None:
        """The rule as the backfill knows it; None where it was edited or deleted since."""
        rule = self.store.rules.find(backfill.rule)
        known = rule is not None and rule.version_id == backfill.rule_version
        return rule if known and rule is not None and rule.state != "deleted" else None

    def _look_further(self, rule: Rule, backfill: Backfill) -> bool:
        """Looks at the next traces of the span; False when there are none."""
        walk = self.store.backfills.walk(backfill.since, backfill.until, backfill.last_key)
        seen = next(walk, None)
        if seen is None:
            return False
        looked = self.look(rule, seen)
        outcomes = self._score_at_once(looked, backfill)
        ended = {each.due.pair for each in outcomes}
        rest = looked._replace(waiting=[each for each in looked.waiting if each not in ended])
        self.store.rule_outcomes.look_back(
            rest, outcomes, now=self.clock(), backfill=backfill.id, last_key=seen[-1][0]
        )
        return True

    def _score_at_once(self, looked: Looked, backfill: Backfill) -> list[Outcome]:
        """Outcomes of traces without waiting: for a rule without calls and limits."""
        rule = looked.rule
        scoring = self._open(rule) if self.engine is None and rule.trouble is None else None
        if scoring is None or scoring.is_reserved or not scoring.is_quick:
            return []
        ready = self.store.rule_outcomes.find_ready(rule, looked.waiting, now=self.clock())
        found = _ScoredLot(self, rule, scoring, backfill.id).score_quickly(ready)
        return [each for each in found if each.decision != "waiting"]


def _describe_backfill(found: Backfill) -> dict[str, Any]:
    names = ("state", "queued", "scored", "failed", "capped", "filtered", "not_drawn", "spent")
    status = {"status": "cancelled"} if found.state == "cancelled" else {}
    return {**{name: getattr(found, name) for name in names}, **status}


@dataclass
class _ScoredLot:
    """Traces that are scored together."""

    work: RuleWork
    rule: Rule
    scoring: RuleScoring
    backfill: int
    stored: int = 0
    outage: str | None = None
    """Error of the judge that did not answer."""
    pause: float = 0.0
    """Seconds for which it asks to be left alone."""

    def __post_init__(self) -> None:
        """Outcome for all of them."""
        self._drawn = explain_drawn(self.rule)

    def score(self, due: Sequence[DueTrace]) -> _ScoredLot:
        """Score them and store the outcomes."""
        scoring = self.scoring
        if self.work.engine is not None and scoring.may_travel:
            granted = self._reserve([(each, scoring.find_amount(None)) for each in due])
            self._score_elsewhere(self.work.engine, granted)
        elif scoring.is_quick and not scoring.judges:
            granted = self._reserve([(each, scoring.find_amount(None)) for each in due])
            self._store(list(self.score_quickly(granted)))
        else:
            self._score_slowly(due)
        return self

    def score_quickly(self, due: Sequence[DueTrace]) -> Iterator[Outcome]:
        """Outcome of each without waiting; nothing is stored."""
        if self.scoring.formula is not None:
            numbers = (self.scoring.score_numbers(each.numbers) for each in due)
            yield from map(self._conclude, due, numbers)
            return
        scorer = self.scoring.scorer
        for each, context in self._load(due):
            if isinstance(context, EvalContext) and scorer is not None:
                yield self._conclude(each, scorer.score(context))
            else:
                yield self._conclude(each, Score.failed(str(context)))

    def _score_elsewhere(self, engine: Engine, due: Sequence[DueTrace]) -> None:
        from tallymark.service.rule_blocks import score_on_engine  # noqa: PLC0415 (it imports workers)

        for scored in score_on_engine(engine, self.scoring.said, self._load(due)):
            self._store([self._conclude(*each) for each in scored])

    def _score_slowly(self, due: Sequence[DueTrace]) -> None:
        loaded = list(self._load(due))
        amounts = [
            (each, self.scoring.find_amount(ctx) if isinstance(ctx, EvalContext) else 0.0)
            for each, ctx in loaded
        ]
        granted = {(each.key, each.version): each for each in self._reserve(amounts)}
        wanted: list[tuple[DueTrace, EvalContext]] = []
        ready: list[Outcome] = []
        for each, context in loaded:
            known = granted.get((each.key, each.version))
            if known is not None and isinstance(context, EvalContext):
                wanted.append((known, context))
            elif known is not None:
                ready.append(self._conclude(known, Score.failed(str(context))))
        begun: list[DueTrace] = []
        scores = self.scoring.score_all(self._begin(wanted, begun))
        for nth, score in enumerate(scores):
            outcome = self._conclude(begun[nth], score)
            if outcome.decision == "waiting":
                self.outage = score.error
                self.pause = min(_LONGEST_PAUSE, max(self.pause, find_pause(score)))
            ready.append(outcome)
            if len(ready) >= _STORED_AT_ONCE:
                self._store(ready)
                ready = []
        # The others were not sent to the judge.
        now = self.work.clock()
        ready += [
            Outcome(each, "waiting", self._drawn, cost=0.0, again_at=now)
            for each, _ in wanted[len(begun) :]
        ]
        self._store(ready)

    def _begin(
        self, wanted: Sequence[tuple[DueTrace, EvalContext]], begun: list[DueTrace]
    ) -> Iterator[EvalContext]:
        for each, context in wanted:
            if self.outage is not None or self.work.stopped():
                return
            begun.append(each)
            yield context

    def _reserve(self, traces: Sequence[tuple[DueTrace, float]]) -> list[DueTrace]:
        if not self.scoring.is_reserved:
            return [each for each, _ in traces]
        now = self.work.clock()
        granted = self.work.store.rule_outcomes.reserve(
            self.rule, traces, now=now, backfill=self.backfill
        )
        return granted.traces

    def _load(self, due: Sequence[DueTrace]) -> Iterator[tuple[DueTrace, EvalContext | str]]:
        """Each with what a scorer sees of it, or why that cannot be shown."""
        known = {(each.key, each.version): each for each in due}
        for key, version, trace in self._read(list(known)):
            each = known.pop((key, version), None)
            if each is None:
                continue
            if isinstance(trace, str):
                yield each, trace
                continue
            try:
                yield each, make_context(trace)
            except NotMeasured as error:
                yield each, str(error)
        for each in known.values():
            yield each, "its spans have been removed"

    def _read(self, pairs: _Pairs) -> Iterator[tuple[int, int, Trace | str]]:
        read: set[tuple[int, int]] = set()
        try:
            for found in self.work.store.traces.load_many(pairs):
                read.add(found[:2])
                yield found
        except TallymarkError:  # the database: it is tried again
            raise
        except Exception:  # noqa: BLE001 (whatever is wrong with it, the others go on)
            if len(pairs) == 1:
                _log.exception("a trace cannot be read")
                yield *pairs[0], "its spans cannot be read: internal error"
                return
            for pair in pairs:
                if pair not in read:
                    yield from self._read([pair])

    def _conclude(self, due: DueTrace, score: Score) -> Outcome:
        cost = self._find_cost(score)
        if is_outage(score) and due.tries + 1 < _MOST_TRIES:
            paid = "" if cost is not None else "; what was set aside for it counts as spent"
            reason = f"{score.error}; it is tried again{paid}"
            again_at = self.work.clock() + find_delay(due.tries)
            return Outcome(due, "waiting", reason, cost=cost, again_at=again_at)
        kept = self.scoring.keep(score)
        errors = [each.error for each in kept if each.error is not None]
        if len(errors) == len(kept):
            return Outcome(due, "failed", errors[0] or "", kept, cost)
        return Outcome(due, "scored", self._drawn, kept, cost)

    def _find_cost(self, score: Score) -> float | None:
        """US dollars; None if free or unknown."""
        if not self.scoring.judges:
            return None
        spent = find_spending(score)
        return 0.0 if spent is None else spent.cost

    def _store(self, outcomes: Sequence[Outcome]) -> None:
        if outcomes:
            now = self.work.clock()
            self.stored += self.work.store.rule_outcomes.write_results(
                self.rule, outcomes, now=now, backfill=self.backfill
            )

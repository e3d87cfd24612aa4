"""A tenant with traces and rules, and workers that are done when told: no clock but our own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tallymark.service.remote_suites import RemoteRules
from tallymark.service.resources import Resources
from tallymark.service.rule_work import RuleWork
from tallymark.service.rules import Rules
from tallymark.service.settings import ServiceSettings
from tallymark.service.trace_intake import TraceIntake
from tallymark.store import Store
from tallymark.store.retention_policy import TraceSettings
from tallymark.store.traces.backfills import Backfill, queue_rule_jobs
from tallymark.store.traces.rules import Rule
from tallymark.traces import Span, Trace
from tallymark.traces.trace_query import TraceQuery

NOON = 1_767_268_800.0
"""2026-01-01T12:00:00Z."""
DAY = 86_400.0
ANYTHING = RemoteRules(may=frozenset({"python", "private-addresses"}))


@dataclass
class Clock:
    """Stands still until it is moved."""

    now: float = NOON

    def __call__(self) -> float:
        return self.now


def make_trace(number: int, *, answer: str = "sorry", cost: float = 0.01, spans: int = 1) -> Trace:
    """One that answers in so many model calls."""
    return Trace(
        trace_id=f"{number:032x}",
        name="agent",
        duration_ms=1500.0,
        spans=[
            Span(
                span_id=f"{number:08x}{nth:08x}",
                name="chat",
                span_type="generation",
                model="gpt-4o",
                input="help",
                output=answer,
                start_ms=(NOON + number) * 1000,
                duration_ms=1500.0,
                input_tokens=100,
                output_tokens=10,
                cost=cost,
            )
            for nth in range(spans)
        ],
    )


@dataclass
class Desk:
    """Everything that is done with rules, for one tenant."""

    store: Store
    clock: Clock = field(default_factory=Clock)
    remote: RemoteRules = ANYTHING

    @property
    def rules(self) -> Rules:
        """As the owner of the database."""
        settings = ServiceSettings(own=True, rules=self.remote)
        return Resources.over(self.store, settings, self.clock).rules

    def add_rule(self, rule: dict[str, Any]) -> Rule:
        """Add a rule, and return it as the store has it."""
        return self.store.rules.get(self.rules.add(rule).name)

    def start_backfill(self, name: str, since: float, until: float) -> Backfill:
        """Queue a backfill, and return it as the store has it."""
        made = self.rules.backfill(name, since, until).backfill
        assert made is not None
        return self.store.backfills.get(made.id)

    def load(self, traces: Sequence[Trace]) -> None:
        """Traces that are quiet already."""
        intake = TraceIntake(self.store, settings=TraceSettings, clock=self.clock)
        intake.load(traces)
        self.clock.now += 1
        self.store.traces.finalise(self.clock())

    def work(self, **more: Any) -> RuleWork:
        """A worker's hands."""
        return RuleWork(self.store, self.remote, self.clock, **more)

    def settle(self) -> None:
        """Does all that is to be done by now."""
        self.work().decide()
        for each in self.store.rules.list(state="active"):
            self.work().score(each.id)

    def count(self, name: str) -> dict[str, int]:
        """What a rule decided so far, without zeros."""
        counts = msgspec.structs.asdict(self.rules.get(name).counts)
        return {key: value for key, value in counts.items() if value}

    def values(self, name: str) -> list[float | None]:
        """The scores that count, by the traces' ids."""
        page = self.store.traces.page(TraceQuery(), limit=1000)
        scores = self.store.traces.scores([each.key for each in page.items])
        found = {
            each.id: score.value
            for each in page.items
            for score in scores[each.key]
            if score.name == name
        }
        return [found[key] for key in sorted(found)]

    def queue(self) -> list[str]:
        """The kinds of jobs that a server's look adds for this tenant."""
        before = {each.id for each in self.store.jobs.list(limit=1000)}
        queue_rule_jobs(self.store._database, self.clock())
        return [each.kind for each in self.store.jobs.list(limit=1000) if each.id not in before]

"""Production traces of three sample services: a week of them, and more while the demo runs.

They arrive as OTLP like those of any exporter, and rules score them. Questions, times and errors
are drawn from a seed: no model gave these answers.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from tallymark.service.callers import Caller
from tallymark.service.remote_suites import RemoteRules
from tallymark.service.resources import Resources
from tallymark.service.rule_work import RuleWork
from tallymark.service.settings import ServiceSettings
from tallymark.service.trace_intake import TraceIntake
from tallymark.store.contests.audit_log import Actor, act_as

if TYPE_CHECKING:
    from tallymark.store import Store

_DAYS, _A_DAY = 7, 36
_DAY = 86_400.0
_NEW_VERSION = 2
"""Days ago the desk got a version that is quicker, and curt."""
RULES: tuple[dict[str, Any], ...] = (
    {
        "name": "polite",
        "scorer": 'contains(values=["sorry", "thank", "happy"], mode="any", ignore_case=true)',
        "filter": "service:shop-desk",
    },
    {"name": "thrift", "formula": "1 - min(1, cost / 0.02)"},
    {"name": "quick", "scorer": "latency(target=3, limit=20)", "rate": 50},
    {"name": "steps-went-well", "scorer": "no_errors", "cap_count": 30},
)
_READER = "sample-reader"


class Topic(NamedTuple):
    """A typical question to a service, and its answer."""

    asked: str
    answered: str
    tools: tuple[tuple[str, dict[str, Any], str], ...] = ()
    """Name, arguments, and what came out."""


class SampleService(NamedTuple):
    """A service that sends traces."""

    name: str
    versions: tuple[str, str]
    models: tuple[str, ...]
    topics: tuple[Topic, ...]
    rounds: tuple[int, int] = (1, 2)
    """Minimum and maximum number of tool and model calls."""


DESK = SampleService(
    "shop-desk",
    ("2.3.0", "2.4.0"),
    ("sample-large", "sample-small"),
    (
        Topic(
            "Where is my order A-1042?",
            "It left our shelves on Monday and should be with you by Thursday.",
            (("find_order", {"order": "A-1042"}, '{"status": "shipped", "due": "Thursday"}'),),
        ),
        Topic(
            "I bought a novel 20 days ago and have not opened it. Can I return it?",
            "Yes: unopened books can come back within 30 days. Please add the receipt.",
            (("search_faq", {"query": "return unopened book"}, '["returns.md", "receipts.md"]'),),
        ),
        Topic(
            "Please refund order A-2213, the cover is torn.",
            "The refund is on its way, and the book is yours to keep.",
            (
                ("find_order", {"order": "A-2213"}, '{"status": "delivered", "total": 18.5}'),
                ("refund_order", {"order": "A-2213", "amount": 18.5}, '{"refunded": 18.5}'),
            ),
        ),
        Topic("Do you sell gift cards?", "We do, from 10 to 100, by mail or at the counter."),
    ),
)
TRIPS = SampleService(
    "trip-planner",
    ("0.9.1", "0.9.2"),
    ("sample-large",),
    (
        Topic(
            "Find me a train to the coast on Saturday, before nine.",
            "There is one at 07:52 with a change at the junction; you arrive at 10:20.",
            (
                ("search_trains", {"to": "coast", "before": "09:00"}, '[{"leaves": "07:52"}]'),
                ("check_weather", {"place": "coast"}, '{"rain": 0.1, "high": 17}'),
            ),
        ),
        Topic(
            "Book two seats for it, at a table.",
            "Two seats at a table are booked: coach 4, seats 21 and 22.",
            (("book_seat", {"train": "07:52", "seats": 2}, '{"coach": 4, "seats": [21, 22]}'),),
        ),
        Topic(
            "What do I need to bring for the bicycle?", "A ticket for it, bought the day before."
        ),
    ),
    (1, 3),
)
REPORTS = SampleService(
    "report-writer",
    ("1.0.0", "1.0.0"),
    ("sample-large", "sample-small"),
    (
        Topic(
            "Write the weekly report on stock and returns.",
            "Stock is 4 % lower than last week; returns fell to 21, most of them by damage.",
            (
                ("run_query", {"table": "stock"}, '{"rows": 412}'),
                ("run_query", {"table": "returns"}, '{"rows": 21}'),
                ("draw_chart", {"kind": "bars"}, '{"file": "stock.svg"}'),
            ),
        ),
    ),
    (4, 40),
)
_SHARES = ((DESK, 0.62), (TRIPS, 0.3), (REPORTS, 0.08))
_CHEAP = "sample-small"
_PRICES = {"sample-large": 6e-6, _CHEAP: 8e-7}
"""US dollars a token, as these services report it."""


@dataclass
class SampleTraffic:
    """Draws traces, one after the other."""

    chance: random.Random = field(default_factory=lambda: random.Random(31))  # noqa: S311
    _begun: bytes | None = None
    """The end of a trace whose beginning was sent."""

    def pass_by(self, store: Store, now: float) -> None:
        """A week: rules are made, and every day's traces come in, settle and are scored."""
        began = now - (_DAYS + 1) * _DAY
        rules = Resources.over(store, ServiceSettings(), lambda: began).rules
        with act_as(Actor(_READER)):
            for each in RULES:
                rules.add(each)
        for day in reversed(range(_DAYS)):
            self._pass_day(store, now - day * _DAY, day)
        reader = Caller("default", "reporter", _READER)
        worst = Resources.over(store).traces.worst("polite", limit=3).items
        for nth, found in enumerate(worst):
            read_at = partial(float, now - 1800 + 60 * nth)
            traces = Resources.over(store, clock=read_at, caller=reader).traces
            traces.score(found.trace.id, "polite", nth / 2, reason="read by a person")

    def _pass_day(self, store: Store, until: float, days_ago: int) -> None:
        starts = [until - self.chance.uniform(120, _DAY) for _ in range(_A_DAY)]
        spans = [each for at in starts for each in self._draw(at, days_ago < _NEW_VERSION)]
        intake = TraceIntake(store, clock=lambda: until - 60)
        intake.keep(*intake.read(_write(spans), "json"))
        store.traces.finalise(until)
        work = RuleWork(store, RemoteRules(), lambda: until)
        work.decide()
        for rule in store.rules.list(state="active"):
            work.score(rule.id)

    def send_some(self, intake: TraceIntake, now: float | None = None) -> None:
        """The end of a trace that is under way, and the beginning of another."""
        if self._begun is not None:
            intake.keep(*intake.read(self._begun, "json"))
        root, *inner = self._draw(time.time() if now is None else now, newer=True)
        self._begun = _write([root])
        intake.keep(*intake.read(_write(inner), "json"))

    def _draw(self, at: float, newer: bool) -> list[dict[str, Any]]:
        """The spans of one trace, its root first; the one of a session follow each other."""
        chance = self.chance
        (service,) = chance.choices([s for s, _ in _SHARES], [w for _, w in _SHARES])
        topic = chance.choice(service.topics)
        drawn = _Drawn(chance, service, topic, at, newer=newer)
        return list(drawn.list_spans())


class _Drawn:
    """One trace."""

    def __init__(
        self, chance: random.Random, service: SampleService, topic: Topic, at: float, *, newer: bool
    ) -> None:
        self._chance, self._service, self._topic = chance, service, topic
        self._began = self._now = at
        self._trace = f"{chance.getrandbits(128) or 1:032x}"
        self._root = self._make_id()
        self._fails = chance.random() < (0.12 if newer else 0.05)
        self._resource = {
            "service.name": service.name,
            "service.version": service.versions[newer],
            "deployment.environment": "production",
        }
        self._model = chance.choice(service.models[-1:] if newer else service.models)
        person = chance.randrange(40)
        self._common = {
            "session.id": f"session-{person}-{int(at // _DAY)}",
            "user.id": f"user-{person}",
        }
        self._kind = chance.random() < (0.45 if newer else 0.85)

    def _make_id(self) -> str:
        return f"{self._chance.getrandbits(64) or 1:016x}"

    def list_spans(self) -> Iterator[dict[str, Any]]:
        """The root first; what is in it comes in the order in which it ended."""
        inner = list(self._list_inner())
        answer = "" if self._fails else self._answer
        yield self._write_span(
            f"{self._service.name} request",
            (self._began, self._now),
            {"input.value": self._topic.asked, "output.value": answer},
            parent=None,
            error="a tool did not answer in time" if self._fails else None,
        )
        yield from inner

    @property
    def _answer(self) -> str:
        said = self._topic.answered
        return f"{said} Thank you for asking!" if self._kind else said

    def _list_inner(self) -> Iterator[dict[str, Any]]:
        low, high = self._service.rounds
        rounds = self._chance.randint(low, high)
        for nth in range(rounds):
            yield self._ask_model(last=False)
            for tool in self._topic.tools:
                fails = self._fails and nth == rounds - 1
                yield self._call_tool(*tool, fails=fails)
                if fails:
                    return
        yield self._ask_model(last=True)

    def _take(self, low: float, high: float) -> tuple[float, float]:
        began = self._now
        self._now += self._chance.uniform(low, high)
        return began, self._now

    def _ask_model(self, *, last: bool) -> dict[str, Any]:
        read, wrote = self._chance.randint(200, 1800), self._chance.randint(15, 220)
        said = self._answer if last else "I will look that up."
        slow = 0.4 if self._model == _CHEAP else 1.0
        return self._write_span(
            f"chat {self._model}",
            self._take(0.4 * slow, 3.2 * slow),
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": self._model,
                "gen_ai.input.messages": json.dumps([_say("user", self._topic.asked)]),
                "gen_ai.output.messages": json.dumps([_say("assistant", said)]),
                "gen_ai.usage.input_tokens": read,
                "gen_ai.usage.output_tokens": wrote,
                "gen_ai.usage.cost": round((read + 4 * wrote) * _PRICES[self._model], 6),
            },
        )

    def _call_tool(
        self, name: str, arguments: dict[str, Any], result: str, *, fails: bool
    ) -> dict[str, Any]:
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.arguments": json.dumps(arguments),
            "gen_ai.tool.call.result": "" if fails else result,
        }
        took = self._take(10, 15) if fails else self._take(0.05, 0.9)
        error = f"{name}: no answer after 10 s" if fails else None
        return self._write_span(f"execute_tool {name}", took, attributes, error=error)

    def _write_span(
        self,
        name: str,
        when: tuple[float, float],
        attributes: dict[str, Any],
        *,
        parent: str | None = "",
        error: str | None = None,
    ) -> dict[str, Any]:
        return {
            "resource": self._resource,
            "traceId": self._trace,
            "spanId": self._root if parent is None else self._make_id(),
            "parentSpanId": self._root if parent is not None else "",
            "name": name,
            "startTimeUnixNano": str(int(when[0] * 1e9)),
            "endTimeUnixNano": str(int(when[1] * 1e9)),
            "attributes": _write_attributes(attributes | self._common),
            "status": {} if error is None else {"code": 2, "message": error},
        }


def _say(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _write_attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    kinds = {str: "stringValue", int: "intValue", float: "doubleValue"}
    return [{"key": key, "value": {kinds[type(value)]: value}} for key, value in values.items()]


def _write(spans: list[dict[str, Any]]) -> bytes:
    """One export request."""
    batches: dict[str, dict[str, Any]] = {}
    for span in spans:
        resource = span.pop("resource")
        batch = batches.setdefault(
            json.dumps(resource),
            {
                "resource": {"attributes": _write_attributes(resource)},
                "scopeSpans": [{"spans": []}],
            },
        )
        batch["scopeSpans"][0]["spans"].append(span)
    return json.dumps({"resourceSpans": list(batches.values())}).encode()

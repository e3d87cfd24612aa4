"""Fill a store with many attempts, agents, challenges and traces in bulk."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice

import msgspec

from tallymark.challenges.attempt import Attempt, Metrics, Outcome
from tallymark.challenges.challenge import Challenge, Evaluator
from tallymark.service.accounts import AccountService
from tallymark.service.trace_intake import TraceIntake
from tallymark.store import Store
from tallymark.store.traces.trace_batch import KeepTraces, TracePiece
from tallymark.traces import Span, Trace
from tallymark.traces.trace_facts import TraceFacts

NOW = 1_790_000_000.0
DAY = 86_400.0
CHALLENGE = Challenge(
    name="bench",
    title="Bench",
    goal="Stay quick.",
    version="1",
    evaluator=Evaluator(type="reported"),
    visibility="public",
)
_MODELS = ("gpt-5", "gpt-5-mini", "claude-opus", "gemini-pro")
_TOOLS = ("search", "fetch", "calculator", "send_mail")


def name_agent(number: int) -> str:
    return f"agent-{number:06}"


def make_attempts(count: int, agents: int, challenge: str = "bench") -> Iterator[Attempt]:
    """Make attempts of agents drawn at random; every tenth was no success."""
    dice = random.Random(f"7 {challenge}")
    for number in range(count):
        at = NOW - 30 * DAY + number
        metrics = Metrics(
            succeeded=dice.random() < 0.9,
            tokens_total=dice.randrange(20_000),
            elapsed_ms=dice.randrange(3_600_000),
            rating=float(dice.randrange(11)),
            cost=dice.random(),
        )
        yield Attempt(
            id="",
            challenge=challenge,
            version="1",
            agent=name_agent(dice.randrange(agents)),
            number=0,
            state="scored",
            seed=number,
            entered_at=at - 60,
            expires_at=at + 3540,
            submitted_at=at,
            outcome=Outcome(
                score=round(dice.random() * 1000, 2),
                ranks=metrics.succeeded,
                result="win" if metrics.succeeded else "loss",
                metrics=metrics,
            ),
        )


def name_challenge(number: int) -> str:
    return f"bench-{number:04}"


def load_attempts(store: Store, attempts: int, agents: int, challenges: int) -> None:
    """Publish so many challenges and share so many rated attempts among them."""
    for number in range(challenges):
        name = name_challenge(number)
        made = msgspec.structs.replace(CHALLENGE, name=name, title=f"Bench {number}")
        store.challenges.publish(made, b"", at=NOW - 40 * DAY)
        some = make_attempts(attempts // challenges, agents, name)
        store.attempts.load(name, some, at=NOW - DAY)


def make_pieces(count: int) -> Iterator[TracePiece]:
    """Make traces of a month as production has them: few errors, long tails, many sessions."""
    drawn = random.Random(1)
    for nth in range(count):
        rare = nth % 5_000 == 7
        yield TracePiece(
            trace_id=f"{nth:032x}",
            format="otel",
            body=b"",
            facts=TraceFacts(
                started_at=NOW - (1 - nth / count) * 30 * DAY + drawn.random(),
                duration=drawn.expovariate(0.5),
                status="error" if drawn.random() < 0.02 else "ok",
                has_root=True,
                spans=5,
                model_calls=2,
                tool_calls=1,
                input_tokens=drawn.randrange(10_000),
                output_tokens=drawn.randrange(10_000),
                cost=drawn.expovariate(500.0) if drawn.random() < 0.9 else drawn.random(),
                name="desk",
                service=f"desk-{nth % 10}",
                version=f"1.{nth % 7}",
                session=f"s-{nth // 5}",
                user=f"u-{nth % 1000}",
                models=(_MODELS[nth % 4],),
                tools=("rare",) if rare else (_TOOLS[drawn.randrange(4)],),
                tags=("env:prod",),
                asked="How warm is it in Paris?",
                answered="It is 12 degrees in Paris.",
            ),
        )


def load_traces(store: Store, count: int) -> None:
    """Keep so many traces, settled, half of them with a score."""
    store.prepare()
    pieces = make_pieces(count)
    while some := tuple(islice(pieces, 2_000)):
        store.traces.keep(KeepTraces(tenant="default", at=NOW, pieces=some))
    while store.traces.finalise(NOW + 1000, limit=20_000):
        pass
    score_traces(store)


def score_traces(store: Store) -> None:
    """Give every second trace a score."""
    percent = "%%" if store._database.address.path is None else "%"  # noqa: SLF001
    scores = (
        "INSERT INTO trace_scores (trace, version, rule_version, name, author, tenant, rule, value,"
        " at, started_at, is_current) SELECT key, 1, 1, 'polite', '', tenant, 1,"
        f" ((key * 7919) {percent} 100000) / 100000.0, settled_at, started_at, true FROM traces"
        f" WHERE key {percent} 2 = 0 ON CONFLICT DO NOTHING"
    )
    store._database.write(lambda c: c.exec_driver_sql(scores))  # noqa: SLF001


def load_long_trace(store: Store, spans: int) -> None:
    """Keep one trace of so many spans, settled."""
    trace = Trace(
        trace_id=f"{1:032x}",
        name="agent",
        duration_ms=spans * 100.0,
        spans=[
            Span(
                span_id=f"{nth:016x}",
                name="chat",
                span_type="generation",
                model="gpt-4o",
                input="How warm is it in Paris?",
                output="It is 12 degrees in Paris.",
                start_ms=NOW * 1000 + nth * 100,
                duration_ms=90.0,
                input_tokens=100,
                output_tokens=10,
                cost=0.01,
            )
            for nth in range(spans)
        ],
    )
    accounts = AccountService(store)
    TraceIntake(store, settings=lambda: accounts.find_settings().traces).load([trace])
    while store.traces.finalise(NOW + 1e9):
        pass

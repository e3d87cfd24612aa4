"""A store for screenshots: empty, single and very many items, and very long names.

`scripts.screenshots` shows its pages beside those of the demo.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from tallymark.challenges.attempt import Attempt, Metrics, Outcome
from tallymark.challenges.challenge import (
    Challenge,
    DimensionWeight,
    Evaluator,
    ScoringRule,
    Versus,
    VersusJudge,
)
from tallymark.challenges.challenge_folder import pack_files
from tallymark.challenges.versus.pairings import Ruling
from tallymark.runs.record import CaseResult, CheckResult, RunRecord
from tallymark.runs.run import outcome
from tallymark.runs.tally import Tally
from tallymark.service.app import App
from tallymark.service.trace_intake import TraceIntake
from tallymark.store import Store
from tallymark.traces import Span, Trace

_DAY = 86_400.0
_CROWD, _PLAYERS, _SPANS, _CASES = 200, 14, 2500, 200
LONG = "the-longest-handle-that-an-agent-can-hav"
TRACE = "5ca1ab1e" * 4
_FORMULA = "success_pct - 10 * total_cost"


def fill_edges(app: App) -> None:
    """Everything, by what the services write with."""
    app.store.prepare()
    now = time.time()
    _fill_boards(app.store, now)
    _fill_versus(app.store, now)
    _fill_runs(app.store, now)
    intake = TraceIntake(app.store)
    intake.load([_make_trace(now)])
    app.store.traces.finalise(now + 60)


def _make_challenge(name: str, title: str, **fields: object) -> Challenge:
    plain: dict[str, object] = {
        "name": name,
        "title": title,
        "goal": "Find the way out, with as few steps as you can.",
        "version": "1",
        "visibility": "public",
        "evaluator": Evaluator(type="reported"),
        "scoring": ScoringRule(
            dimensions=(
                DimensionWeight(key="correctness", weight=0.6),
                DimensionWeight(key="speed", weight=0.4),
            )
        ),
    }
    return Challenge(**{**plain, **fields})  # type: ignore[arg-type]


def _fill_boards(store: Store, now: float) -> None:
    """A crowd, one alone, and boards that nobody is on: open, upcoming and closed."""
    dice = random.Random(5)
    names = [LONG, LONG.replace("-", ""), *(f"sample-{nth:03}" for nth in range(_CROWD))]
    for challenge, agents in (
        (_make_challenge("crowd", "A crowd"), names),
        (_make_challenge("alone", "One alone"), names[2:3]),
        (_make_challenge("over", "Closed, with a winner", closes_at=now - 3600), names[:5]),
        (_make_challenge("nobody", "Nobody yet"), []),
        (_make_challenge("soon", "Not open yet", opens_at=now + 2 * _DAY), []),
        (_make_challenge("missed", "Closed before anybody came", closes_at=now - _DAY), []),
    ):
        store.challenges.publish(challenge, pack_files({}), at=now - 9 * _DAY)
        attempts = _make_attempts(challenge.name, agents, dice, now)
        store.attempts.load(challenge.name, attempts, at=now, rated=False)


def _make_attempts(
    challenge: str, agents: list[str], dice: random.Random, now: float
) -> Iterator[Attempt]:
    for agent in agents:
        at = now - dice.uniform(2 * 3600, 8 * _DAY)
        right, quick = float(dice.randrange(200, 1001)), float(dice.randrange(1001))
        score = float(int(0.6 * right + 0.4 * quick))
        yield Attempt(
            id="",
            challenge=challenge,
            version="1",
            agent=agent,
            number=0,
            state="scored",
            seed=1,
            entered_at=at - 60,
            expires_at=at + 3540,
            submitted_at=at,
            outcome=Outcome(
                score=score,
                ranks=True,
                result="win" if score >= 700 else "draw" if score >= 400 else "loss",
                metrics=Metrics(succeeded=True, tokens_total=dice.randrange(9000)),
                dimensions={"correctness": right, "speed": quick},
            ),
        )


def _fill_versus(store: Store, now: float) -> None:
    """As many players on each side as a matrix can be read with."""
    judge = VersusJudge(type="script", options={"script": "judge.py"})
    versus = Versus(categories=("leak", "override"), judge=judge)
    siege = _make_challenge("siege", "A siege", kind="versus", versus=versus, scoring=ScoringRule())
    store.challenges.publish(siege, pack_files({}), at=now - 9 * _DAY)
    for nth in range(_PLAYERS):
        for side in ("red", "blue"):
            player = f"sample-{side}-{nth:02}" if nth else f"{side}-{LONG}"[:40].rstrip("-")
            store.versus.submit("siege", player, side, {"text": player}, at=now - _DAY + nth)
    dice = random.Random(9)
    while found := store.versus.unjudged("siege", failed=False, limit=500):
        rulings = [(each, Ruling(breached=dice.random() < 0.4, reason="")) for each in found]
        store.versus.rule(rulings, judge="judge", at=now - 60)


def _fill_runs(store: Store, now: float) -> None:
    """All errors, one case, hundreds, and names of models and cases that are very long."""
    refused = "the model answered 503 three times: it is overloaded"
    broken = [
        CaseResult(case=f"case-{nth}", status="error", input="May I return it?", error=refused)
        for nth in range(6)
    ]
    one = [_make_result("the-only-one", passed=True)]
    many = [_make_result(f"sums[{nth}]", passed=nth % 7 > 0) for nth in range(_CASES)]
    long = [_make_result(LONG.replace("-", "") * 3, passed=False)]
    for nth, (name, model, results) in enumerate(
        (
            ("rnerrors", "sample/broken", broken),
            ("rnone", "sample/one", one),
            ("rnmany", "sample/many", many),
            ("rnlong", f"sample/{LONG.replace('-', '')}", long),
        )
    ):
        tally = Tally(results)
        record = RunRecord(
            id=name,
            suite="sums" if nth < 3 else LONG.replace("-", ""),
            model=model,
            status="failed" if name == "rnerrors" else "completed",
            created_at=now - 600 * (nth + 1),
            started_at=now - 600 * (nth + 1),
            finished_at=now - 600 * nth - 300,
            total=len(results),
            **outcome(tally.formula(_FORMULA), tally),
        )
        store.create_run(record)
        store.add_results(name, results)


def _make_result(name: str, *, passed: bool) -> CaseResult:
    check = CheckResult(kind="match", passed=passed, reason="" if passed else "another number")
    return CaseResult(
        case=name,
        status="passed" if passed else "failed",
        input="What is 3 and 4? Answer with a number, and with nothing else.",
        output="7" if passed else "34",
        checks=(check,),
        latency=0.4,
        cost=0.0001,
        input_tokens=20,
        output_tokens=3,
    )


def _make_trace(now: float) -> Trace:
    """Thousands of spans, some within others."""
    dice = random.Random(3)
    began, spans = (now - 900) * 1000, []
    for nth in range(_SPANS):
        kind = ("span", "generation", "tool", "retrieval")[nth % 4]
        within = f"s{nth - nth % 4}" if nth % 4 else "s0"
        spans.append(
            Span(
                span_id=f"s{nth}",
                parent_id=within if nth else None,
                name=f"step {nth}" if nth != 8 else LONG * 3,
                span_type=kind,  # type: ignore[arg-type]
                tool_name="find" if kind == "tool" else None,
                model="sample-large" if kind == "generation" else None,
                start_ms=began + 200 * nth,
                duration_ms=200.0 * _SPANS if not nth else dice.uniform(20, 900),
                error="no answer after 10 s" if nth % 97 == 13 else None,
                status="error" if nth % 97 == 13 else "ok",
            )
        )
    return Trace(trace_id=TRACE, name="a long night", spans=spans)

"""A store with something on every page, and the addresses of all of them.

With `odd` texts, everything that somebody else may write is an attack or a nuisance.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from urllib.parse import quote, urlsplit

from msgspec.structs import replace

from tallymark.challenges.attempt import Evaluation, Metrics, Outcome, Payload
from tallymark.challenges.challenge import (
    Challenge,
    DimensionWeight,
    Evaluator,
    ScoringRule,
    Versus,
    VersusJudge,
)
from tallymark.challenges.challenge_file import load_challenge
from tallymark.challenges.challenge_folder import pack, pack_files
from tallymark.challenges.tracks import Track
from tallymark.challenges.versus.pairings import Ruling
from tallymark.judging.spending import JudgeSpending
from tallymark.runs.record import CaseResult, CheckResult, RunRecord
from tallymark.runs.reviews import CaseKey, GivenScore
from tallymark.runs.run import outcome
from tallymark.runs.tally import Tally
from tallymark.scoring import Origin
from tallymark.service.callers import Caller
from tallymark.service.resources import Resources
from tallymark.service.trace_intake import TraceIntake
from tallymark.store import Store
from tallymark.store.jobs import NewJob
from tallymark.traces import Span, Trace

NOW = 1_790_000_000.0
DAY = 86_400.0
ATTACK = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
ODD = f"{ATTACK} \u202eesrever\u202c \u2066iso \x00\x07\x1b[31m 🎯 {'x' * 10_000}"
SPANS = 300
JOB = "j0123456789abcdef0123"
NO_FILES = pack_files({})
EXAMPLES = Path(__file__).parents[2] / "examples" / "challenges"


def fill_store(store: Store, odd: str = "") -> None:
    """Runs, challenges, attempts and red against blue."""
    fill_runs(store, odd)
    fill_contests(store, odd)
    fill_organising(store, odd)
    fill_traces(store, odd)


def fill_runs(store: Store, odd: str = "") -> None:
    """Two models at one suite, and one of them with two prompts."""
    keep_run(store, "rnone", "sample-careful", [True, True, True, True], odd=odd, at=NOW - DAY)
    keep_run(store, "rntwo", "sample-careful", [False, True, False, True], odd=odd, at=NOW - 60)
    for place, prompt in enumerate(("short", f"long{odd[:300]}")):
        keep_run(
            store,
            f"rnprompt{place}",
            "sample-hasty",
            [place == 0, True, True, False],
            odd=odd,
            at=NOW - 600 - place,
            tags={"prompt": prompt},
        )
    say(store, "rntwo", "case-0", "bob", label="fail", comment=f"it refuses {odd}"[:9_000])
    say(store, "rntwo", "case-0", "alice", label="pass")
    say(store, "rntwo", "case-1", "alice", label="pass", comment="right")
    say(store, "rntwo", "case-1", "alice", name="tone", label=ATTACK[:55] if odd else "calm")


def say(store: Store, run: str, case: str, author: str, **given: str) -> None:
    """What somebody says of a case."""
    store.reviews.give(CaseKey(run, case), author, GivenScore(**given), at=NOW - 50)  # type: ignore[arg-type]


def keep_run(
    store: Store,
    name: str,
    model: str,
    passes: Iterable[bool],
    *,
    odd: str = "",
    at: float = NOW,
    tags: dict[str, str] | None = None,
) -> RunRecord:
    """A finished run, scored by its formula."""
    results = [a_result(place, passed, odd) for place, passed in enumerate(passes)]
    tally = Tally(results)
    formula = "success_pct * 0.8 + 20 * case-1 - total_cost * 100"
    record = RunRecord(
        id=name,
        suite=f"desk{odd}",
        model=f"{model}{odd}",
        status="completed",
        group="g1" if tags else None,
        definition_hash="same",
        created_at=at,
        started_at=at,
        finished_at=at + 2,
        total=len(results),
        tags={"branch": f"main{odd}", **(tags or {})},
    )
    record = replace(record, **outcome(tally.formula(formula), tally))
    store.create_run(record)
    store.add_results(name, results)
    return record


def a_result(place: int, passed: bool, odd: str = "") -> CaseResult:
    """A case with a check of each kind, and a trace."""
    checks = (
        CheckResult(kind="match", passed=passed, reason=f"names the rule {odd}"),
        CheckResult(
            kind="scorer",
            name="tone",
            passed=True,
            value=0.9,
            threshold=0.7,
            reason=f"calm {odd}",
            version="v1",
            metadata={"said": odd},
        ),
        CheckResult(
            kind="llm_judge",
            passed=True,
            value=1.0,
            threshold=0.5,
            reason=f"polite {odd}",
            judge=JudgeSpending("judge", 1, 40, 5, 0.0002),
        ),
    )
    named = f"case-{place}" if place < 3 else f"last{odd[:200]}"
    return CaseResult(
        case=named,
        status="passed" if passed else "failed",
        input=f"May I send it back? {odd}",
        output=f"{'Yes, within' if passed else 'No, not after'} 30 days. {odd}",
        checks=checks,
        latency=1.5 + place,
        cost=0.001,
        input_tokens=100,
        output_tokens=20,
        trace=a_trace(4 if place else SPANS, odd),
    )


def a_trace(count: int, odd: str = "") -> Trace:
    """A trace of so many spans, one a second."""
    kinds = ("generation", "tool", "retrieval", "span")
    spans = [
        Span(
            span_id=f"s{place}",
            parent_id="s0" if place else None,
            name=f"step {place}{odd[:300]}",
            span_type=kinds[place % 4],  # type: ignore[arg-type]
            tool_name=f"find{odd[:200]}" if place % 4 == 1 else None,
            tool_input=odd or '{"order": 7}',
            tool_output=odd or "found",
            start_ms=1000.0 * place,
            duration_ms=900.0,
            error=f"broke {odd}" if place == 2 else None,
        )
        for place in range(count)
    ]
    return Trace(trace_id="t", name="t", spans=spans)


def a_maze(odd: str = "", **fields: object) -> Challenge:
    """A challenge with dimensions."""
    plain: dict[str, object] = {
        "name": "maze",
        "title": f"The maze{odd}",
        "goal": f"Find **the way**. {odd}\n\n[odd](javascript:alert(1)) [fine](https://example.org)",
        "version": "v1",
        "rated": "every",
        "visibility": "public",
        "time_limit_s": 600.0,
        "evaluator": Evaluator(type="reported"),
        "scoring": ScoringRule(
            dimensions=(
                DimensionWeight(key="correctness", weight=0.6),
                DimensionWeight(key="speed", weight=0.4),
            )
        ),
    }
    return Challenge(**{**plain, **fields})  # type: ignore[arg-type]


def fill_contests(store: Store, odd: str = "") -> None:
    """A board with a tie, one that is ordered by a formula, and red against blue."""
    store.challenges.publish(a_maze(odd), NO_FILES, at=NOW - 9 * DAY)
    scores = {"alice": 900.0, "bob": 900.0, "charlie": 620.0, "dave": 200.0}
    for place, (agent, score) in enumerate(scores.items()):
        play(store, "maze", agent, score, at=NOW - (5 - place) * DAY, odd=odd)
    rule = ScoringRule(formula="1000 - tokens_total")
    frugal = a_maze(odd, name="frugal", title="Frugal", scoring=rule, visibility="private")
    store.challenges.publish(frugal, NO_FILES, at=NOW - 9 * DAY)
    for place, agent in enumerate(("alice", "bob")):
        metrics = Metrics(succeeded=True, tokens_total=100 * (place + 1), elapsed_ms=2000)
        play(store, "frugal", agent, 900.0 - 100 * place, at=NOW - DAY, metrics=metrics)
    fill_tracks(store, odd)
    fill_versus(store, odd)
    store.attempts.enter("maze", "erin", at=NOW - 30, seed=1)
    publish_beans(store, odd)
    store.attempts.enter("bean-counter", "erin", at=NOW - 30, seed=1)


def fill_tracks(store: Store, odd: str = "") -> None:
    """One over what everybody sees, and one with a challenge that strangers do not know of."""
    everybody = Track(name="spring", title=f"Spring cup{odd}", challenges=("maze",))
    store.tracks.put(everybody, at=NOW - DAY)
    names = ("maze", "frugal")
    both = Track(name="both", title="Both", challenges=names, combine="maze + 2 * frugal")
    store.tracks.put(both, at=NOW - DAY)


def publish_beans(store: Store, odd: str = "", **fields: object) -> Challenge:
    """A challenge that is judged here, with files, truth and a schema: an example."""
    folder = EXAMPLES / "bean-counter"
    challenge = load_challenge(folder)
    written = {"title": f"{challenge.title}{odd}", "goal": f"{challenge.goal}{odd}"}
    challenge = replace(challenge, **{**written, **fields})
    store.challenges.publish(challenge, pack(folder), at=NOW - DAY)
    return challenge


def play(
    store: Store,
    challenge: str,
    agent: str,
    score: float,
    *,
    at: float,
    odd: str = "",
    metrics: Metrics | None = None,
) -> None:
    """An attempt, entered, submitted and scored."""
    entered = store.attempts.enter(challenge, agent, at=at, seed=7)
    store.attempts.submit(entered.id, agent, Payload(submission=odd), at=at + 42)
    result = "win" if score >= 700 else "draw" if score >= 400 else "loss"
    parts = {
        "correctness": {"score": score, "weight": 0.6, "weighted": score * 0.6},
        "speed": {"score": score, "weight": 0.4, "weighted": score * 0.4},
    }
    warning = {"message": f"odd {odd}", "severity": "warning", "dimension": None}
    scored = Outcome(
        score=score,
        result=result,  # type: ignore[arg-type]
        ranks=True,
        metrics=metrics or Metrics(succeeded=True, tokens_total=500, elapsed_ms=42_000),
        dimensions={} if metrics else {"correctness": score, "speed": score},
        details={} if metrics else {
            "score_breakdown": parts,
            "submission_warnings": [warning],
            "constraint_violations": [f"too many calls {odd}"],
            "told": odd,
        },
        trajectory_level="claimed",
        origin=Origin("dimensions", "v1"),
    )  # fmt: skip
    found = Evaluation(metrics=scored.metrics, dimensions=scored.dimensions)
    store.attempts.finish(entered.id, found, scored, at=at + 43, verified=False)


def fill_traces(store: Store, odd: str = "") -> None:
    """Two versions of a desk in production, one of which fails more, scored by somebody."""
    store.prepare()
    traces = [
        Trace(
            trace_id=f"{number:032x}",
            name=f"refund{odd}",
            status="error" if number % 3 == 0 else "ok",
            metadata={"service.name": "desk", "service.version": f"1.{number % 2}"},
            spans=[
                Span(
                    span_id=f"{number:016x}",
                    name=f"desk{odd}",
                    span_type="span",
                    metadata={"session.id": f"s-{number % 4}"},
                    start_ms=(NOW - 3600 * number) * 1000,
                    duration_ms=1500.0 + number,
                    input=f"May I send it back? {number}{odd}",
                    output=f"Within 30 days.{odd}",
                    error=f"it broke{odd}" if number % 3 == 0 else None,
                    status="error" if number % 3 == 0 else "ok",
                ),
            ],
        )
        for number in range(1, 9)
    ]
    TraceIntake(store, clock=lambda: NOW - 60).load(traces)
    store.traces.finalise(NOW)
    rules = Resources.over(store, clock=lambda: NOW - 20).rules
    rules.add({"name": "short", "formula": "1 - min(1, duration / 3)", "filter": "service:desk"})
    alice = Caller("default", "reporter", "alice")
    scored = Resources.over(store, clock=lambda: NOW - 30, caller=alice).traces
    for number in range(1, 7):
        scored.score(f"{number:032x}", "polite", number / 8, reason=f"because{odd}"[:4000])


def fill_versus(store: Store, odd: str = "") -> None:
    """Two attackers and two defenders, judged."""
    judge = VersusJudge(type="script", options={"script": "judge.py"})
    versus = Versus(categories=("leak", "override"), judge=judge)
    guard = a_maze(odd, name="guard", title="The guard", kind="versus", versus=versus)
    guard = replace(guard, scoring=ScoringRule())
    store.challenges.publish(guard, NO_FILES, at=NOW - 9 * DAY)
    for place, (player, side) in enumerate(
        (("alice", "red"), ("bob", "red"), ("charlie", "blue"), ("dave", "blue"))
    ):
        store.versus.submit("guard", player, side, {"text": player}, at=NOW - DAY + place)  # type: ignore[arg-type]
    verdicts = store.versus.unjudged("guard", failed=False, limit=50)
    rulings = [
        (verdict, Ruling(breached=bool(place % 3), reason=odd[:300]))
        for place, verdict in enumerate(verdicts)
    ]
    store.versus.rule(rulings, judge="judge", at=NOW - 60)


def fill_organising(store: Store, odd: str = "") -> None:
    """What organisers do and look after: acts in the log, and a job that waits."""
    store.challenges.close("frugal", at=NOW - 90, reason=f"too early {odd[:1500]}")
    store.challenges.reopen("frugal", at=NOW - 80, reason=f"after all {odd[:1500]}")
    store.jobs.add(
        NewJob(kind="run", subject=f"rnone{odd[:300]}", owner=f"alice{odd[:300]}", id=JOB)
    )


def list_addresses(store: Store) -> list[str]:
    """Every page, each in its main states."""
    cases = [quote(each.case, safe="") for each in store.page_results("rntwo", limit=9)]
    return [
        "/",
        "/runs",
        "/runs?sort=score&order=asc&status=completed&q=desk",
        "/runs?q=nothing-like-this",
        "/suites/desk",
        "/runs/rntwo",
        "/runs/rntwo?view=side",
        "/runs/rntwo?status=passed&q=days",
        *(f"/runs/rntwo/cases/{case}" for case in cases),
        "/compare?run=rnone&run=rntwo",
        "/compare?run=rnone&run=rntwo&run=rnprompt0",
        "/formula",
        "/formula?run=rntwo&formula=success_pct+-+total_cost",
        "/formula?run=rntwo&formula=succes_pct+%2A",
        "/challenges",
        "/challenges/maze",
        "/challenges/maze?around=dave&limit=2",
        "/challenges/maze?part=charts",
        "/challenges/maze?tv=1",
        "/challenges/maze?part=board",
        "/challenges/maze?part=around&around=dave&limit=2",
        "/challenges/maze?formula=-total&around=dave",
        "/challenges/maze?formula=totl+%2B",
        "/challenges/maze?weights=correctness:20,speed:80&part=board",
        "/challenges/maze?sort=submitted&q=a",
        "/challenges/frugal",
        "/challenges/guard",
        "/challenges/guard?category=leak",
        "/challenges/guard/submissions/1",
        "/tracks",
        "/tracks/spring",
        "/tracks/both?around=dave&limit=1",
        "/tracks/both?part=board",
        "/attempts/a1",
        "/attempts/a4",
        "/attempts/a5",
        "/attempts/a7",
        "/agents",
        "/agents/alice",
        "/agents/dave",
        "/ratings",
        "/ratings?sort=elo",
        "/search?q=a",
        "/keys",
        "/docs",
        "/docs/formulas",
        "/docs/decisions",
        "/docs/search",
        "/docs/search?q=interval",
        "/account",
        "/traces",
        "/traces?q=status:error&by=version&measure=error",
        "/traces?q=staus:error",
        "/traces?q=refund",
        f"/traces/{1:032x}",
        f"/traces/{2:032x}?version=1",
        "/traces/compare?first=version:1.0&second=version:1.1",
        "/traces/compare?first=odd:",
        "/traces/sessions/s-1",
        "/rules",
        "/rules/short",
        "/rules/short?since=2026-09-14&until=2026-09-21",
        "/rules/short?decision=scored",
        "/sign-in?next=/runs",
        "/organiser",
        "/organiser?challenge=maze",
        "/organiser/challenges",
        "/organiser/challenges?starter=deterministic&name=mine",
        "/organiser/challenges/maze",
        "/organiser/challenges/guard",
        "/organiser/challenges/maze/files",
        "/organiser/challenges/maze/rescore",
        "/organiser/challenges/maze/rescore?by=weights&w-correctness=0.1&w-speed=0.9",
        "/organiser/challenges/frugal/rescore?by=formula&formula=tokens_total",
        "/organiser/challenges/frugal/rescore?by=formula&formula=tokens_totl+%2A",
        "/organiser/challenges/guard/rescore?by=formula&formula=1",
        "/organiser/attempts/a1",
        "/organiser/agents/alice",
        f"/organiser/jobs/{JOB}",
        "/organiser/keys",
        "/organiser/keys?state=all&q=a",
        "/organiser/audit",
        "/organiser/audit?event=closed&from=2026-01-01&until=2026-12-31&limit=1",
        "/organiser/audit?actor=nobody",
        "/formula?challenge=maze&formula=total+-+elapsed_s",
        "/formula?challenge=frugal&formula=tokens_total+%2A",
        "/review",
        "/review?show=disputed&run=rntwo",
        "/review?at=rntwo:0:case-1&name=tone",
        "/challenges/bean-counter/enter",
        "/challenges/bean-counter/enter?agent=erin",
        "/challenges/maze/enter",
        "/attempts/a8/answer",
        "/agents/alice?against=bob",
        "/agents/alice?against=erin",
    ]


def list_kinds(store: Store) -> list[str]:
    """Of every address one, and of those that are busiest each state; a part alone is no page."""
    found: dict[str, str] = {}
    for each in list_addresses(store):
        path = urlsplit(each).path
        busy = path in ("/challenges/maze", "/runs/rntwo", "/formula") and "sort=" not in each
        if "part=" not in each:
            found.setdefault(each if busy else path, each)
    return list(found.values())

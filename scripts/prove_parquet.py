"""Parquet exports read and written by DuckDB, Polars and Spark, and imported again.

    python -m scripts.prove_parquet [--short] [duckdb | polars | spark ...]

Each engine lives in an environment of its own under `.venv-recorded/`, and is told nothing but a
path, in another time zone than ours. Every cell that it finds must be the one that our library
tells, and so must its sums and means; attempts fill several row groups, results lie in many files
of one folder. What it writes of them, all rows or some, is loaded by `tally load` into a new
database, and must be there as it was. Spark needs Java.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from scripts.prove_backup import run as tally
from scripts.prove_server import judge
from scripts.record_traces import PLACES, TREE, install
from scripts.server_process import CHALLENGE

from tallymark.challenges.attempt import Attempt, Metrics, Outcome
from tallymark.runs.record import CaseResult, CheckResult, RunRecord
from tallymark.runs.reviews import CaseKey, GivenScore
from tallymark.runs.run import outcome
from tallymark.runs.tally import Tally
from tallymark.service.callers import Caller
from tallymark.service.resources import Resources
from tallymark.service.tables import ATTEMPTS, RESULTS, SCORES, TRACES, Table
from tallymark.service.trace_intake import TraceIntake
from tallymark.store import Store, open_store
from tallymark.traces import Span, Trace

READERS = TREE / "scripts" / "table_readers"
ENGINES = {"duckdb": ("duckdb", "pytz"), "polars": ("polars",), "spark": ("pyspark",)}
"""What each needs; DuckDB tells moments of a time zone with pytz."""
_MICRO = 1_000_000
_START = 1_760_000_000.0
_NO_JAVA = "not tried: no Java here"
_ODD = ("", "plain", 'quote " and \\ and \n', "zwölf 🏁", "a\0b", "NULL")


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything."""

    attempts: int = 60_000
    """Two row groups."""
    runs: int = 12
    traces: int = 400


SHORT = Size(attempts=3_000, runs=5, traces=40)


@dataclass(frozen=True)
class Question:
    """One kind of row: how it is exported, what is asked of it, and what our library says."""

    table: Table[Any, Any]
    stream: Callable[[Store], Iterable[Any]]
    sql: str
    answer: Callable[[Store], list[list[Any]]]
    where: str
    """Some of the rows, in SQL that every engine knows."""
    fits: Callable[[dict[str, Any]], bool]
    """The same of a row."""
    forgets: tuple[str, ...] = ()
    """Columns that are another's after loading."""


def fill(store: Store, size: Size) -> None:
    """Of everything some, with what is odd."""
    dice = random.Random(11)
    store.prepare()
    store.challenges.publish(CHALLENGE, b"", at=0.0)
    made = list(_make_attempts(dice, size.attempts))
    store.loads.attempts(CHALLENGE.name, made, {each.agent for each in made}, at=_START)
    for nth in range(size.runs):
        _fill_run(store, dice, nth)
    TraceIntake(store).load(_make_trace(dice, nth) for nth in range(size.traces))
    while store.traces.finalise(9e9):
        pass
    traces = Resources.over(store, caller=Caller("default", "reporter", "alice")).traces
    for nth in range(0, size.traces, 3):
        value = None if nth % 2 else dice.random()
        label = "so so" if value is None else None
        traces.score(f"trace-{nth}", "helpful", value, label)
    for nth in range(size.runs):
        given = GivenScore(label="pass", comment=_ODD[nth % 4])
        store.reviews.give(CaseKey(f"r{nth}", "sums-0", 0), "bob", given, at=_START + nth / 7)


def _make_attempts(dice: random.Random, count: int) -> Iterator[Attempt]:
    numbers: dict[str, int] = {}
    for nth in range(count):
        agent = f"agent-{dice.randrange(300)}"
        numbers[agent] = numbers.get(agent, 0) + 1
        at = round(_START + nth + dice.random(), 6)
        yield Attempt(
            id="",
            challenge=CHALLENGE.name,
            version=CHALLENGE.version,
            agent=agent,
            number=numbers[agent],
            state="scored",
            seed=dice.randrange(-(2**63), 2**63),
            entered_at=at,
            # Beyond what nanoseconds count.
            expires_at=at + (9_000_000_000 if nth % 5 == 0 else 60),
            submitted_at=at,
            voided_at=at + 1 if nth % 50 == 7 else None,
            outcome=_make_outcome(dice, nth),
        )


def _make_outcome(dice: random.Random, nth: int) -> Outcome:
    scored = nth % 9 > 0
    return Outcome(
        score=dice.uniform(-10, 1000) if scored else None,
        result="win" if scored else None,
        ranks=scored,
        metrics=Metrics(
            succeeded=scored,
            tokens_total=None if nth % 3 else dice.randrange(2**53),
            elapsed_ms=2**62 + nth,
            cost=None if nth % 4 else dice.random() / 7,
            more={"laps": dice.random(), "unknown": None} if nth % 2 else {},
        ),
        dimensions={"speed": dice.random(), "ümlaut": 1e-300} if nth % 3 else {},
        details={"odd": _ODD[nth % len(_ODD)], "deep": [1, None, {"x": 0.1}]} if nth % 2 else {},
        error=None if scored else _ODD[nth % 3] + "broken",
    )


def _fill_run(store: Store, dice: random.Random, nth: int) -> None:
    results = [_make_result(dice, nth, case) for case in range(30)]
    tally_ = Tally(results)
    record = RunRecord(
        id=f"r{nth}",
        suite="sums",
        model=f"sample/{nth % 3}",
        status="partial_failure",
        created_at=_START + nth / 3,
        epochs=2,
        total=len(results),
        **outcome(tally_.formula("success_pct"), tally_),
    )
    store.create_run(record)
    store.add_results(record.id, results)


def _make_result(dice: random.Random, run: int, nth: int) -> CaseResult:
    value = dice.random()
    check = CheckResult(kind="scorer", passed=value > 0.3, name="tone", value=value)
    status: Any = "error" if nth == 29 else "passed" if check.passed else "failed"
    return CaseResult(
        case=f"sums-{nth // 2}",
        epoch=nth % 2,
        status=status,
        input=_ODD[nth % len(_ODD)].replace("\0", ""),
        output=f"{run}: {value}",
        checks=() if nth == 29 else (check,),
        latency=None if nth == 29 else dice.expovariate(1),
        cost=None if run % 4 == 3 or nth == 29 else dice.random() / 100,
        input_tokens=None if nth % 5 else dice.randrange(10**6),
        error="no answer" if nth == 29 else None,
        trace=_make_trace(dice, nth) if nth % 7 == 0 else None,
    )


def _make_trace(dice: random.Random, nth: int) -> Trace:
    began = round((_START + nth) * 1000 + dice.random(), 3)
    spans = [
        Span(
            span_id=f"s{each}",
            name=_ODD[each % 4] or "ask",
            span_type="generation" if each % 2 else "tool",
            tool_name=None if each % 2 else f"tool-{each}",
            model="sample-large" if each % 2 else None,
            input=_ODD[each % 4],
            start_ms=began + each,
            duration_ms=dice.uniform(1, 900),
            cost=None if nth % 3 else dice.random() / 100,
            error="no answer" if nth % 5 == each else None,
        )
        for each in range(1 + nth % 4)
    ]
    metadata = {"session_id": f"s{nth % 10}"} if nth % 2 else {}
    status: Any = "error" if nth % 5 == 1 else "ok"
    return Trace(
        trace_id=f"trace-{nth}", name="desk", status=status, spans=spans, metadata=metadata
    )


def _list_runs(store: Store) -> list[RunRecord]:
    return store.runs(limit=None, sort="created_at", descending=False)


def _show_board(store: Store) -> list[list[Any]]:
    return [[each.agent, each.score] for each in store.boards.top(CHALLENGE.name, limit=1000)]


def _show_runs(store: Store) -> list[list[Any]]:
    found = sorted(_list_runs(store), key=lambda each: each.id)
    return [
        [each.id, each.passed, each.errors, each.metrics["total_cost"], each.metrics["avg_latency"]]
        for each in found
    ]


def _show_traces(store: Store) -> list[list[Any]]:
    found = Resources.over(store).traces.sums().whole
    return [[found.traces, found.errors, found.cost, found.duration]]


def _show_scores(store: Store) -> list[list[Any]]:
    found = Resources.over(store).traces.sums(measure="people.helpful").whole
    return [[found.measured, found.mean]]


QUESTIONS = {
    "attempts": Question(
        ATTEMPTS,
        lambda store: Resources.over(store).exports.attempts(CHALLENGE.name, live=True),
        "SELECT agent, max(score) AS best FROM t WHERE ranks AND voided_at IS NULL"
        " GROUP BY agent ORDER BY best DESC",
        _show_board,
        "agent <> 'agent-7' AND entered_at > '2025-10-01'",
        lambda row: row["agent"] != "agent-7",
        forgets=("id",),
    ),
    "results": Question(
        RESULTS,
        lambda store: Resources.over(store).exports.results(),
        "SELECT run, sum(CASE WHEN status = 'passed' THEN 1 ELSE 0 END),"
        " sum(CASE WHEN status = 'error' THEN 1 ELSE 0 END),"
        " CASE WHEN count(latency) = count(cost) THEN sum(cost) END, avg(latency)"
        " FROM t GROUP BY run ORDER BY run",
        _show_runs,
        "model <> 'sample/1' AND status <> 'error'",
        lambda row: row["model"] != "sample/1" and row["status"] != "error",
    ),
    "traces": Question(
        TRACES,
        lambda store: Resources.over(store).exports.traces(),
        "SELECT count(*), sum(CASE WHEN status = 'error' THEN 1 ELSE 0 END), sum(cost),"
        " avg(duration) FROM t",
        _show_traces,
        "spans > 1",
        lambda row: row["spans"] > 1,
    ),
    "scores": Question(
        SCORES,
        lambda store: Resources.over(store).exports.scores(),
        "SELECT count(value), avg(value) FROM t WHERE name = 'helpful'",
        _show_scores,
        "author <> 'alice' OR value IS NOT NULL",
        lambda row: row["author"] != "alice" or row["value"] is not None,
    ),
}


def tell(question: Question, store: Store) -> list[dict[str, Any]]:
    """Every row as our library has it, moments in microseconds."""
    moments = [name for name, kind in question.table.columns.items() if kind == "moment"]
    found = []
    for each in question.stream(store):
        row = dict(question.table.tell(each))
        row |= {name: round(row[name] * _MICRO) for name in moments if row[name] is not None}
        found.append({name: row[name] for name in question.table.columns})
    return found


def export(db: str, folder: Path, size: Size) -> dict[str, Path]:
    """Every kind by `tally export`: results a file for each run, in one folder."""
    (folder / "results").mkdir()
    for nth in range(size.runs):
        tally(
            "export", "results", f"r{nth}", "-o", folder / "results" / f"{nth}.parquet", "--db", db
        )
    found = {"results": folder / "results"}
    for kind in ("attempts", "traces", "scores"):
        words = [CHALLENGE.name] if kind == "attempts" else []
        more = ["--live"] if kind == "attempts" else []
        found[kind] = folder / f"{kind}.parquet"
        tally("export", kind, *words, "-o", found[kind], "--db", db, *more)
    return found


def prove_engine(engine: str, folder: Path, size: Size) -> str:
    """What one engine finds and writes; why nothing was tried, where it cannot run."""
    if engine == "spark" and shutil.which("java") is None:
        return _NO_JAVA
    python = install(PLACES / engine, ENGINES[engine])
    db = str(folder / "from.db")
    with open_store(db) as store:
        fill(store, size)
        told = {kind: tell(each, store) for kind, each in QUESTIONS.items()}
        answers = {kind: each.answer(store) for kind, each in QUESTIONS.items()}
    sources = export(db, folder, size)
    orders = [
        _make_order(folder, kind, sources[kind], part)
        for kind in QUESTIONS
        for part in ("all", "some")
    ]
    (folder / "orders.json").write_text(json.dumps(orders))
    _start([*python, str(READERS / f"{engine}_tables.py"), str(folder / "orders.json")])
    version = ""
    for kind in QUESTIONS:
        version = _compare(folder, kind, told[kind], answers[kind])
    _load(folder, told)
    counts = ", ".join(f"{len(rows):,} {kind}" for kind, rows in told.items())
    return (
        f"{engine} {version}: {counts}; every cell, sum and mean as our library tells it, and what "
        "it wrote of them, all rows or some, is loaded as it was"
    )


def _make_order(folder: Path, kind: str, source: Path, part: str) -> dict[str, Any]:
    question = QUESTIONS[kind]
    return {
        "source": str(source),
        "columns": dict(question.table.columns),
        "sql": question.sql,
        "rows": str(folder / f"{kind}.jsonl"),
        "answer": str(folder / f"{kind}.json"),
        "where": question.where if part == "some" else "TRUE",
        "target": str(folder / f"{part}-{kind}.parquet"),
    }


def _start(words: list[str]) -> None:
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    kept |= {"TZ": "America/New_York"}
    done = subprocess.run(
        words, env=kept, capture_output=True, text=True, check=False, timeout=1200
    )
    if done.returncode:
        raise AssertionError(
            f"{Path(words[-2]).name} ended with {done.returncode}: {done.stderr[-800:]}"
        )


def _compare(folder: Path, kind: str, told: list[dict[str, Any]], answer: list[list[Any]]) -> str:
    """Cell by cell, and the answer to the question; the engine's version."""
    names = list(QUESTIONS[kind].table.columns)
    lines = (folder / f"{kind}.jsonl").read_text().splitlines()
    found = sorted((dict(zip(names, json.loads(line), strict=True)) for line in lines), key=_sort)
    _require_same(kind, found, sorted(told, key=_sort))
    said = json.loads((folder / f"{kind}.json").read_text())
    if not _are_close(said["answer"], answer):
        raise AssertionError(f"{kind}: {said['answer'][:3]}, and our library says {answer[:3]}")
    return str(said["version"])


def _sort(row: dict[str, Any]) -> str:
    names = ("trace_id", "run", "case", "epoch", "name", "author", "agent", "number")
    return json.dumps([row.get(name) for name in names])


def _require_same(kind: str, found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    if len(found) != len(wanted):
        raise AssertionError(f"{kind}: {len(found):,} rows instead of {len(wanted):,}")
    pairs = zip(*(json.loads(json.dumps(each)) for each in (wanted, found)), strict=True)
    for nth, (mine, other) in enumerate(pairs, 1):
        for name, value in mine.items():
            if value != other[name] or type(value) is not type(other[name]):
                raise AssertionError(
                    f"{kind}, row {nth}, {name}: {other[name]!r} instead of {value!r}"[:800]
                )


def _are_close(found: Any, wanted: Any) -> bool:
    """Equal but for the last digits of sums, which depend on the order."""
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(_are_close, found, wanted))
    if isinstance(wanted, float) and found is not None:
        return math.isclose(found, wanted, rel_tol=1e-12)
    return bool(found == wanted)


def _load(folder: Path, told: dict[str, list[dict[str, Any]]]) -> None:
    """Loads what an engine wrote into new databases, and compares what is there."""
    for part in ("all", "some"):
        db = str(folder / f"{part}.db")
        with open_store(db) as store:
            store.prepare()
            store.challenges.publish(CHALLENGE, b"", at=0.0)
        # Scores come last: they are of what is there.
        for kind, question in QUESTIONS.items():
            if part == "some" and kind == "scores":  # they are of all runs and traces
                continue
            tally("load", kind, folder / f"{part}-{kind}.parquet", "--db", db)
            with open_store(db) as store:
                while store.traces.finalise(9e9):
                    pass
                wanted = [row for row in told[kind] if part == "all" or question.fits(row)]
                left = [_forget(row, question) for row in wanted]
                found = [_forget(row, question) for row in tell(question, store)]
                _require_same(
                    f"{part} {kind}, loaded", sorted(found, key=_sort), sorted(left, key=_sort)
                )
        if json.loads(tally("admin", "check", "--db", db, "--json"))["differences"]:
            raise AssertionError(f"{part}: what was loaded does not agree with itself")


def _forget(row: dict[str, Any], question: Question) -> dict[str, Any]:
    return row | dict.fromkeys(question.forgets)


PROOFS: dict[str, Callable[[Path, Size], str]] = {
    engine: partial(prove_engine, engine) for engine in ENGINES
}


def judge_tables(
    size: Size | None = None, names: list[str] | None = None
) -> tuple[bool | None, str]:
    """Whether all of it holds, None where nothing was tried; and a table of what was found."""
    holds, table = judge(PROOFS, size or Size(), names)
    return (None if holds and _NO_JAVA in table else holds), table


def main() -> int:
    """Tells what was found; 1 when something does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="engines; all without any")
    parser.add_argument("--short", action="store_true")
    given = parser.parse_args()
    holds, _ = judge_tables(SHORT if given.short else Size(), given.names)
    return int(holds is False)


if __name__ == "__main__":
    sys.exit(main())
